"""The fault scenarios, by the name that the command line uses."""

from chaos.storms.clocks import Clocks, ServerClock
from chaos.storms.database import DiskFull, Exhaustion, Failover, OpenWriters, Restarts, Terminations
from chaos.storms.deploys import Deploys
from chaos.storms.inside import EventLoop, Logging, Parts, SlowChildren
from chaos.storms.network import Cuts, LostReplies, Silence, Slow
from chaos.storms.operators import Operators
from chaos.storms.plain_sql import PlainSql
from chaos.storms.pooler import Pooler
from chaos.storms.power import PowerLoss
from chaos.storms.processes import Kills, Machines, Stops
from chaos.storms.storm import Storm
from chaos.storms.upgrade import Upgrade

STORMS: dict[str, type[Storm]] = {
    each.name: each
    for each in (
        Kills,
        Machines,
        Stops,
        Restarts,
        Failover,
        Terminations,
        OpenWriters,
        Cuts,
        LostReplies,
        Silence,
        Slow,
        Exhaustion,
        DiskFull,
        Clocks,
        ServerClock,
        Pooler,
        Upgrade,
        Logging,
        Parts,
        SlowChildren,
        EventLoop,
        Deploys,
        PlainSql,
        Operators,
        PowerLoss,
    )
}
# The storms that can run at the same time. The others need a special server or start.
MIXED = (
    *("kills", "stops", "restarts", "terminations", "cuts", "lost-answers", "silence", "slow", "exhaustion", "clocks"),
)
# What people and applications do wrong, beside everything that they do right.
EVERYTHING = ("kills", "lost-answers", "logging", "parts", "event-loop", "deploys", "plain-sql", "operators")
MIXTURES = {"mixed": MIXED, "everything": EVERYTHING}
