"""Workers that are stuck, and child processes that were stopped. text/stuck.py describes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID


class Stuck(NamedTuple):
    since: datetime
    """When its event loop last ran, or when it claimed the job that it does not begin."""
    kind: str
    """`stopped`: its process was stopped, by a signal or a debugger; `blocked`: something blocks its event loop;
    `unbegun`: it has claimed a job and does not begin it although it has room."""
    job_id: UUID | None
    """The job that blocks it, if it is known, or that it does not begin."""
    job_type: str | None
    stack: str | None
    """Where it is blocked, if it is known."""

    @classmethod
    def read(cls, columns: Sequence[Any]) -> "Stuck | None":
        """From stuck_since, stuck_kind, stuck_job, stuck_job_type and stuck_stack of treadle.workers."""
        since, kind, *rest = columns
        return None if since is None else cls(since, kind or "blocked", *rest)


class StoppedChild(NamedTuple):
    """A child process of a worker that was stopped, by a signal or a debugger, or has been starting for long."""

    process: int
    job_id: UUID
    job_type: str | None
    since: datetime
    starting: bool = False
    """Its job has not begun, and the number of its process is not known."""

    @classmethod
    def read(cls, value: Sequence[Mapping[str, Any]] | None) -> "tuple[StoppedChild, ...]":
        """From stopped_children of treadle.workers."""
        return tuple(
            cls(
                each["process"],
                UUID(each["job_id"]),
                each["job_type"],
                datetime.fromisoformat(each["since"]),
                each["starting"],
            )
            for each in value or ()
        )
