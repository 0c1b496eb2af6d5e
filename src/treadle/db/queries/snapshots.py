"""The state of jobs for display: snapshots, and the columns that change while a job is watched."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.db.query import Query, Rows, statement
from treadle.words.payload import decode
from treadle.words.snapshot import JobSnapshot, Progress
from treadle.words.status import Status

_PACE = ("done", "total", "rate", "left")


class JobState(NamedTuple):
    """The columns of a job that change while it is watched."""

    status: str
    lease: int
    events_count: int
    progress: int
    stage: str | None
    pace: str | None
    started_at: datetime | None


def get_job_states(ids: Sequence[UUID]) -> Query[dict[UUID, JobState]]:
    return Query(
        statement("get_job_states"),
        {"ids": list(ids)},
        lambda rows: {row[0]: JobState._make(row[1:]) for row in rows},
    )


def find_snapshots(ids: Sequence[UUID], running: int = 0) -> Query[list[JobSnapshot]]:
    """Snapshots of these jobs, and of up to `running` other jobs that are running."""
    params = {"ids": list(ids), "running": running > 0, "limit": running}
    return Query(statement("get_snapshots"), params, _snapshots, pinned=True)


def find_failed_jobs(seconds: float, limit: int) -> Query[list[JobSnapshot]]:
    """The jobs that failed within the last `seconds`, the newest first."""
    return Query(statement("find_failed_jobs"), {"seconds": seconds, "limit": limit}, _snapshots)


def _snapshots(rows: Rows) -> list[JobSnapshot]:
    return [
        JobSnapshot(job_id, job_type, Status(status), _progress(percent, stage, pace), *rest)
        for job_id, job_type, status, percent, stage, pace, *rest in rows
    ]


def _progress(percent: int, stage: str | None, pace: str | None) -> Progress:
    """Unknown values in `pace` are ignored: rows may have been written by hand."""
    counted = decode(pace) if pace else None
    known = {key: value for key, value in counted.items() if key in _PACE} if isinstance(counted, dict) else {}
    return Progress(percent, stage, **known)
