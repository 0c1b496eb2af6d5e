"""What commands, pages and metrics show of the whole queue. It is read in one snapshot, so that the numbers agree with
each other. No statement scans the whole table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from treadle.db.database import Database
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import refusals
from treadle.db.queries.overview import Chart, Counts, LaneDepth
from treadle.db.query import Query
from treadle.words.changes import Pause
from treadle.words.overview import WorkerRow
from treadle.words.refusal import Refusal

# The throughput is that of a minute, whatever the charts show.
RATE_STEP, RATE_WINDOW = 60, 600


class QueueState(NamedTuple):
    recent: Chart
    """What finished in the last minutes."""
    depths: Sequence[LaneDepth]
    counts: Counts
    workers: list[WorkerRow]
    pauses: list[Pause]
    refusal: Refusal | None
    """Why the server refuses what workers write."""

    @property
    def at(self) -> datetime:
        """When it was read, by the database's clock."""
        return self.recent.at


def state_queries() -> list[Query[Any]]:
    """What a QueueState is made of."""
    return [
        overview_queries.get_throughput(RATE_WINDOW, RATE_STEP),
        overview_queries.find_depths(),
        overview_queries.count_statuses(),
        overview_queries.find_recent_workers(),
        operation_queries.find_pauses(),
        refusals.find(),
    ]


async def aread_state(database: Database) -> QueueState:
    return QueueState(*await database.aread_together(state_queries()))
