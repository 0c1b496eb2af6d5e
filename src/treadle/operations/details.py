"""Everything that is known about one job."""

from collections.abc import Generator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import events as event_queries
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import memory as memory_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.queries.listing import may_read_payloads
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.words.changes import AuditEntry
from treadle.words.errors import JobNotFound
from treadle.words.job import JobError, JobRow
from treadle.words.payload import Json, decode
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot

LINES = 100
# Enough for all of them: an attempt has three.
_TRANSITIONS = 1000
_BATCH = 1000


class Step(NamedTuple):
    """A finished step."""

    name: str
    result: Json


# Fields of the job, and of its steps.
HIDDEN = ("data", "result", "checkpoint", "headers", "steps.result")


class JobDetails(NamedTuple):
    job: JobRow
    snapshot: JobSnapshot
    """The same job, with the time by the database's clock."""
    events: list[RecordedEvent]
    """Including the job's transitions, oldest first."""
    earlier_events: int
    """How many earlier events were left out."""
    errors: list[JobError]
    logs: list[LogLine]
    earlier_logs: int
    """How many earlier log lines were left out."""
    steps: list[Step]
    audit: list[AuditEntry]
    """Changes made by operators, oldest first."""
    payloads: bool = True
    """Whether this reader may see payload, result, checkpoint, headers and the results of steps."""

    @property
    def hidden(self) -> list[str]:
        """What is None because the reader may not see it, whatever is stored."""
        return [] if self.payloads else list(HIDDEN)

    @property
    def at(self) -> datetime:
        return self.snapshot.at


def get_details(database: Database, job_id: UUID, *, full: bool = False) -> JobDetails:
    """The job with its last hundred events and log lines; with `full`, with all of them."""
    return drive(_details(job_id, full), database.read)


async def aget_details(database: Database, job_id: UUID, *, full: bool = False) -> JobDetails:
    return await adrive(_details(job_id, full), database.aread)


def _whole(job: JobRow) -> JobRow:
    """These columns may be null in rows that were written without Treadle's functions."""
    return job._replace(
        progress=job.progress or 0,
        attempts=job.attempts or 0,
        max_attempts=job.max_attempts or 0,
        events_count=job.events_count or 0,
        created_at=job.run_at if job.created_at is None else job.created_at,
    )


def _details(job_id: UUID, full: bool) -> Generator[Query[Any], Any, JobDetails]:
    payloads: bool = yield may_read_payloads()
    job: JobRow = _whole((yield job_queries.get_job(job_id, payloads=payloads)))
    snapshots: list[JobSnapshot] = yield snapshot_queries.find_snapshots([job_id])
    if not snapshots:
        raise JobNotFound(job_id)
    earlier = 0 if full else max(0, job.events_count - LINES)
    events = (yield from _all_events(job_id)) if full else (yield _events(job_id, earlier))
    logs: list[LogLine] = yield log_queries.get_logs(job_id)
    kept = logs if full else logs[-LINES:]
    errors = yield worker_queries.get_errors(job_id)
    steps = yield memory_queries.get_steps(job_id, results=payloads)
    audit = yield operation_queries.find_audit(job_id)
    return JobDetails(
        job=job,
        snapshot=snapshots[0],
        events=events,
        earlier_events=earlier,
        errors=errors,
        logs=kept,
        earlier_logs=len(logs) - len(kept),
        steps=[Step(name, None if result is None else decode(result)) for name, result in steps.values()],
        audit=audit[::-1],
        payloads=payloads,
    )


def _events(job_id: UUID, earlier: int) -> Query[list[RecordedEvent]]:
    # The events after that number, but all transitions.
    return event_queries.find_job_events(job_id, event_queries.Position(earlier, -1, 0), LINES + _TRANSITIONS)


def _all_events(job_id: UUID) -> Generator[Query[Any], Any, list[RecordedEvent]]:
    events: list[RecordedEvent] = []
    position = event_queries.Position()
    while batch := (yield event_queries.find_job_events(job_id, position, _BATCH)):
        events += batch
        position = event_queries.Position.read(batch[-1].cursor)
    return events
