"""Queries of the pages: slots of workers, marks of charts, recent failures, and the list of workflows."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.db.query import Query, Rows, statement
from treadle.words.errors import InvalidArgument, shown
from treadle.words.naming import text_within
from treadle.words.overview import Mark
from treadle.words.workflow_list import WORKFLOW_STATES, WorkflowList, WorkflowRow

# Claimed and running jobs that are counted: 100 workers with 50 slots each.
MAX_CLAIMED = 5_000
# Those that are read, an equal share of each worker.
MAX_DRAWN = 500
# Marks of each kind on a chart.
MAX_MARKS = 50
# Workflows that are examined for one page of a filtered list.
LOOKED_AT = 500


class ClaimedJob(NamedTuple):
    worker_id: str
    all_running: int
    """Running jobs of its worker."""
    all_claimed: int
    """Claimed and running jobs of its worker."""
    id: UUID
    job_type: str
    running: bool
    """False: it was claimed, and has not reported that it runs. Jobs of less than 0.2 s never do."""
    since: datetime | None


class RecentFailures(NamedTuple):
    """Attempts in the last 15 minutes, and in the hour before."""

    failed: int
    completed: int
    failed_before: int
    completed_before: int

    @property
    def share(self) -> float:
        return self.failed / max(1, self.failed + self.completed)

    @property
    def share_before(self) -> float:
        return self.failed_before / max(1, self.failed_before + self.completed_before)


def find_slots() -> Query[list[ClaimedJob]]:
    """The claimed and running jobs to draw, by worker: those that it has had for the longest time first."""
    params = {"limit": MAX_CLAIMED + 1, "drawn": MAX_DRAWN}
    return Query(statement("find_slots"), params, lambda rows: [ClaimedJob._make(row) for row in rows])


def find_marks(window: int) -> Query[list[Mark]]:
    params = {"window": window, "limit": MAX_MARKS}
    return Query(statement("find_marks"), params, lambda rows: [Mark._make(row) for row in rows])


def get_recent_failures() -> Query[RecentFailures]:
    return Query(statement("get_recent_failures"), {}, lambda rows: RecentFailures._make(rows[0]))


def find_workflows(
    state: str | None = None,
    name: str | None = None,
    after: UUID | None = None,
    limit: int = 50,
    *,
    names: bool = True,
    nested: bool = False,
) -> Query[WorkflowList]:
    """The newest first. `name` is a part of their name; `names`: whether to read names, which are in payloads;
    `nested`: also those that are a part of another one."""
    if state is not None and state not in WORKFLOW_STATES:
        raise InvalidArgument(f"state must be one of {', '.join(WORKFLOW_STATES)}, got {shown(state)}")
    params = {
        "state": state,
        "name": None if name is None else text_within(name, 200, "name"),
        "after": after,
        "limit": limit,
        "look": LOOKED_AT if state or name else 2 * limit,
        "nested": nested,
    }

    def read(rows: Rows) -> WorkflowList:
        at, examined, last = rows[0][:3]
        found = [WorkflowRow._make(row[3:]) for row in rows if row[3] is not None]
        if len(found) == limit:
            return WorkflowList(at, found, found[-1].id, None)
        more = examined == params["look"]
        return WorkflowList(at, found, last if more else None, examined if more else None)

    text = statement("find_workflows")
    return Query(text if names else text.replace("left(found.data ->> 'name', 200)", "null::text"), params, read)
