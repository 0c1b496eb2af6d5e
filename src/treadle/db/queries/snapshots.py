"""Jobs as somebody who watches them needs them: their state, and how they are drawn."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.db.query import Query, Rows, statement
from treadle.words.payload import decode
from treadle.words.progress import Progress
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

_PACE = ("done", "total", "rate", "left")


class JobState(NamedTuple):
    """As much of a job as changes while somebody watches."""

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
    """These jobs as they are drawn, and up to so many others that run."""
    params = {"ids": list(ids), "running": running > 0, "limit": running}
    return Query(statement("get_snapshots"), params, _snapshots)


def find_failed(seconds: float, limit: int) -> Query[list[JobSnapshot]]:
    """Those that failed within so many seconds, the newest first."""
    return Query(statement("find_failed_jobs"), {"seconds": seconds, "limit": limit}, _snapshots)


def _snapshots(rows: Rows) -> list[JobSnapshot]:
    return [
        JobSnapshot(job_id, job_type, Status(status), _progress(percent, stage, pace), *rest)
        for job_id, job_type, status, percent, stage, pace, *rest in rows
    ]


def _progress(percent: int, stage: str | None, pace: str | None) -> Progress:
    """Whoever writes to the table by hand may have counted something else."""
    counted = decode(pace) if pace else None
    known = {key: value for key, value in counted.items() if key in _PACE} if isinstance(counted, dict) else {}
    return Progress(percent, stage, **known)
