"""The whole life of a job, as an operator looks at it."""

from collections.abc import Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from treadle.app.handle import Handle
from treadle.db.queries import events as event_queries
from treadle.db.queries import jobs
from treadle.db.queries import logs as log_queries
from treadle.db.queries import memory as memory_queries
from treadle.db.queries import operations as operate
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries import worker as work
from treadle.db.query import Query
from treadle.words.changes import AuditEntry
from treadle.words.errors import JobNotFound
from treadle.words.job import JobError, JobRow
from treadle.words.payload import Json, decode
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle

LINES = 100
# Transitions are few: an attempt has three.
_TRANSITIONS = 1000


class Step(NamedTuple):
    """A step that is done."""

    name: str
    result: Json


class Life(NamedTuple):
    job: JobRow
    seen: JobSnapshot
    """The same in short, with the database's clock."""
    events: list[RecordedEvent]
    """With the transitions among them, oldest first."""
    earlier_events: int
    """So many were left out."""
    errors: list[JobError]
    logs: list[LogLine]
    earlier_logs: int
    steps: list[Step]
    audit: list[AuditEntry]
    """Oldest first."""

    @property
    def at(self) -> datetime:
        return self.seen.at


def life(app: "Treadle", job_id: UUID, *, full: bool = False) -> Life:
    """Of the events and log lines the last hundred, unless it is to be `full`."""
    script, answer = _script(job_id, full), None
    while True:
        try:
            answer = app.database.look(script.send(answer))
        except StopIteration as end:
            seen: Life = end.value
            break
    if full:
        return seen._replace(events=list(Handle[object](app, job_id).events(follow=False)), earlier_events=0)
    return seen


async def alife(app: "Treadle", job_id: UUID) -> Life:
    script, answer = _script(job_id, full=False), None
    while True:
        try:
            asked = script.send(answer)
        except StopIteration as end:
            seen: Life = end.value
            return seen
        answer = await app.database.alook(asked)


def _whole(job: JobRow) -> JobRow:
    """The contract lets these be null for who writes the row by hand."""
    return job._replace(
        progress=job.progress or 0,
        attempts=job.attempts or 0,
        max_attempts=job.max_attempts or 0,
        events_count=job.events_count or 0,
        created_at=job.run_at if job.created_at is None else job.created_at,
    )


def _script(job_id: UUID, full: bool) -> Generator[Query[Any], Any, Life]:
    job: JobRow = _whole((yield jobs.get(job_id)))
    seen: list[JobSnapshot] = yield snapshot_queries.find_snapshots([job_id])
    if not seen:
        raise JobNotFound(job_id)
    earlier = max(0, job.events_count - LINES)
    # After that event, but from the first transition on.
    events = yield event_queries.find_job_events(job_id, event_queries.Position(earlier, -1, 0), LINES + _TRANSITIONS)
    logs: list[LogLine] = yield log_queries.get_logs(job_id)
    kept = logs if full else logs[-LINES:]
    errors = yield work.errors(job_id)
    steps = yield memory_queries.get_steps(job_id)
    audit = yield operate.find_audit(job_id)
    return Life(
        job=job,
        seen=seen[0],
        events=events,
        earlier_events=earlier,
        errors=errors,
        logs=kept,
        earlier_logs=len(logs) - len(kept),
        steps=[Step(name, None if result is None else decode(result)) for name, result in steps.values()],
        audit=audit[::-1],
    )
