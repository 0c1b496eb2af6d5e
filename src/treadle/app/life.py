"""The whole life of a job, as an operator looks at it."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from treadle.app.handle import Handle
from treadle.db import jobs, operate, telling, work
from treadle.words.errors import JobNotFound
from treadle.words.job import JobError, JobRow
from treadle.words.operator import Audited
from treadle.words.payload import Json, decode
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.sight import Seen

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
    seen: Seen
    """The same in short, with the database's clock."""
    events: list[RecordedEvent]
    """With the transitions among them, oldest first."""
    earlier_events: int
    """So many were left out."""
    errors: list[JobError]
    logs: list[LogLine]
    earlier_logs: int
    steps: list[Step]
    audit: list[Audited]
    """Oldest first."""

    @property
    def at(self) -> datetime:
        return self.seen.at


def life(app: "Treadle", job_id: UUID, *, full: bool = False) -> Life:
    """Of the events and log lines the last hundred, unless it is to be `full`."""
    look, schema = app.database.look, app.schema
    job = look(jobs.get(schema, job_id))
    seen = look(telling.see_jobs(schema, [job_id]))
    if not seen:
        raise JobNotFound(job_id)
    earlier = 0 if full else max(0, job.events_count - LINES)
    if full:
        events = list(Handle[object](app, job_id).events(follow=False))
    else:
        # After that event, but from the first transition on.
        position = telling.Position(earlier, -1, 0)
        events = look(telling.job_events(schema, job_id, position, LINES + _TRANSITIONS))
    logs = look(telling.logs(schema, job_id))
    kept = logs if full else logs[-LINES:]
    return Life(
        job=job,
        seen=seen[0],
        events=events,
        earlier_events=earlier,
        errors=look(work.errors(schema, job_id)),
        logs=kept,
        earlier_logs=len(logs) - len(kept),
        steps=[
            Step(name, None if result is None else decode(result))
            for name, result in look(telling.steps(schema, job_id)).values()
        ],
        audit=look(operate.audit(schema, job_id))[::-1],
    )
