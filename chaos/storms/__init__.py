"""Each storm by its name."""

from chaos.storms.clocks import Clocks
from chaos.storms.database import DiskFull, Exhaustion, Restarts, Terminations
from chaos.storms.network import Cuts, LostAnswers, Silence, Slow
from chaos.storms.pooler import Pooler
from chaos.storms.processes import Kills, Stops
from chaos.storms.storm import Storm
from chaos.storms.upgrade import Upgrade

STORMS: dict[str, type[Storm]] = {
    each.name: each
    for each in (
        Kills,
        Stops,
        Restarts,
        Terminations,
        Cuts,
        LostAnswers,
        Silence,
        Slow,
        Exhaustion,
        DiskFull,
        Clocks,
        Pooler,
        Upgrade,
    )
}
# Those that go together. The others need a server or a beginning of their own.
MIXED = (
    *("kills", "stops", "restarts", "terminations", "cuts", "lost-answers", "silence", "slow", "exhaustion", "clocks"),
)
