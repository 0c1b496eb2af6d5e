"""What operators do here, by a form or by the API: each change with its line in the audit, in one transaction."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from treadle.app import Treadle
from treadle.db.queries import operations as operate
from treadle.operations.bulk import Tally, achange_some
from treadle.web.dashboard.access import Visitor
from treadle.words.changes import Action, ChangeResult
from treadle.words.errors import InvalidArgument
from treadle.words.listing import Wanted

SAID = {
    Action.RETRY: "Try a job again",
    Action.CANCEL: "Cancel a job",
    Action.DELETE: "Delete a job",
    Action.RUN_NOW: "Run a job now that is due later",
    Action.PRIORITY: "Change a job's priority",
}


class Chunk(NamedTuple):
    """What came of some of the jobs that were meant."""

    done: int
    unfit: int
    busy: int
    missing: int
    next: str | None = None
    """To go on with the next ones; None: these were all."""


def actor(visitor: Visitor) -> str:
    return f"dashboard:{visitor.name}"


async def change(
    app: Treadle, visitor: Visitor, action: Action, job_id: UUID, reason: str | None, priority: int | None
) -> ChangeResult:
    query = operate.operate(action, [job_id], actor(visitor), reason, priority)
    (done,) = await app.database.arun(query)
    return done


async def change_these(
    app: Treadle, visitor: Visitor, action: Action, ids: Sequence[UUID], reason: str | None, priority: int | None
) -> Chunk:
    if not ids:
        raise InvalidArgument("no job was meant: give ids, or a filter")
    query = operate.operate(action, ids, actor(visitor), reason, priority)
    done = await app.database.arun(query)
    outcomes = [each.outcome for each in done]
    return Chunk(*Tally._make(map(outcomes.count, Tally._fields)))


async def change_matching(
    app: Treadle,
    visitor: Visitor,
    action: Action,
    wanted: Wanted,
    after: str | None,
    reason: str | None,
    priority: int | None,
) -> Chunk:
    """One chunk of those that a filter finds."""
    tally, following = await achange_some(app, wanted, action, actor(visitor), reason, priority, after)
    return Chunk(*tally, following)


async def pause(
    app: Treadle, visitor: Visitor, job_type: str | None, queue: str | None, everything: bool, reason: str | None
) -> bool:
    """False: it was paused already."""
    if (job_type is None and queue is None) != everything:
        # An empty form must not stop the whole queue.
        raise InvalidArgument("a pause is of a job type, of a queue, or of both; to pause all, say so: everything")
    return await app.database.arun(operate.pause(job_type, queue, actor(visitor), reason))


async def resume(app: Treadle, visitor: Visitor, job_type: str | None, queue: str | None, reason: str | None) -> bool:
    """False: there is no such pause."""
    return await app.database.arun(operate.resume(job_type, queue, actor(visitor), reason))
