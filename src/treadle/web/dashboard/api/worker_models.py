"""The responses of the API about workers."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from treadle.web.dashboard.api.model import ResponseModel


class StuckWorker(ResponseModel):
    since: datetime
    """When its event loop last ran."""
    kind: str
    """`stopped`: its process was stopped, by a signal or a debugger; `blocked`: something blocks its event loop."""
    job_id: UUID | None
    """The job that blocks it, if it is known."""
    job_type: str | None
    stack: str | None
    """Where it is blocked, if it is known."""


class StoppedChild(ResponseModel):
    process: int
    job_id: UUID
    job_type: str | None
    since: datetime
    starting: bool
    """It was not stopped, but has been starting since then. The number of its process is not known."""


class Worker(ResponseModel):
    worker_id: str
    host: str | None
    pid: int | None
    version: str | None
    job_types: list[str] | None
    """Null: unknown."""
    queues: list[str] | None
    """Null: all queues."""
    concurrency: int | None
    """How many jobs it runs at once. Null: unknown; 0: it claims nothing."""
    started_at: datetime
    seen_at: datetime
    """The last heartbeat."""
    alive: bool
    lost_at: datetime | None
    holds: int
    """Jobs that the worker has claimed or is running."""
    initial_concurrency: int | None
    """What it was started with."""
    state: Literal["alive", "asleep", "stuck", "silent", "lost"]
    """`asleep`: it has no jobs, and sends no heartbeats until there are some; `stuck`: its lease is renewed, but its
    event loop does not run; `silent`: its lease was not renewed in time; `lost`: it was declared lost."""
    running: int
    """Those of the jobs that take up its slots."""
    prefetched: int
    """Those of the jobs that it has prefetched and not started."""
    slots: int | None
    """How many jobs run at once, with those in child processes."""
    lease: float | None
    """Seconds. Null: a client without a worker process."""
    stuck: StuckWorker | None
    lost_because: str | None
    jobs_given_back: int | None
    """Of a lost worker: how many of its jobs were pending again."""
    jobs_failed: int | None
    """Of a lost worker: how many of its jobs failed with it."""
    at: datetime | None
    """When this was read, by the clock of the database."""
    stopped_children: list[StoppedChild]
    """Its child processes that were stopped, by a signal or a debugger."""
    asleep_at: datetime | None
    """When it fell asleep."""
