"""The fault scenarios, by the name that the command line uses."""

from chaos.storms.clocks import Clocks, ServerClock
from chaos.storms.database import DiskFull, Exhaustion, OpenWriters, Restarts, Terminations
from chaos.storms.network import Cuts, LostReplies, Silence, Slow
from chaos.storms.pooler import Pooler
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
    )
}
# The storms that can run at the same time. The others need a special server or start.
MIXED = (
    *("kills", "stops", "restarts", "terminations", "cuts", "lost-answers", "silence", "slow", "exhaustion", "clocks"),
)
