"""The state of the whole queue."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from treadle.words.changes import Pause
from treadle.words.refusal import Refusal
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck

WorkerState: TypeAlias = Literal["alive", "asleep", "stuck", "silent", "lost"]


class Backlog(NamedTuple):
    """The pending jobs of one queue, type and priority."""

    queue: str
    job_type: str
    priority: int
    depth: int
    """How many can be claimed, now or later."""
    exact: bool
    """False: too many to count whenever somebody looks."""
    due_since: datetime | None
    """Since when the first of them could run; None: none is due yet."""
    due_next: datetime | None
    """When the first will be due, if none is."""
    paused: bool
    served: bool
    """A live worker claims from it."""
    counted_at: datetime | None = None
    """If `depth` is not exact: when a worker counted it; None: nobody has, and there are at least so many."""


class WorkerRow(NamedTuple):
    worker_id: str
    host: str | None
    pid: int | None
    version: str | None
    job_types: list[str] | None
    """None: not reported, because it is a client without a worker process."""
    queues: list[str] | None
    """None: all."""
    concurrency: int | None
    """How many jobs it runs at once: what an operator has set, or else what it was started with. 0: it claims nothing;
    None: unknown."""
    started_at: datetime
    seen_at: datetime
    """The last heartbeat."""
    alive: bool
    """Its lease is valid. It may be stuck or asleep."""
    lost_at: datetime | None
    """When it was declared lost and its jobs were recovered."""
    holds: int
    """How many jobs it has claimed or is running."""
    initial_concurrency: int | None = None
    """What it was started with."""
    state: WorkerState = "alive"
    """`asleep`: it has no jobs, and sends no heartbeats until there are some; `stuck`: its lease is renewed, but its
    event loop does not run; `silent`: its lease was not renewed in time; `lost`: it was declared lost."""
    running: int = 0
    """How many of the jobs take up its slots."""
    prefetched: int = 0
    """How many it has prefetched and not started."""
    slots: int | None = None
    """How many jobs run at once, with those in child processes."""
    lease: float | None = None
    """Seconds; None: a client without a worker process."""
    stuck: Stuck | None = None
    lost_because: str | None = None
    jobs_given_back: int | None = None
    """Of a lost worker: how many of its jobs were pending again."""
    jobs_failed: int | None = None
    """Of a lost worker: how many of its jobs failed with it."""
    at: datetime | None = None
    """When this was read, by the database's clock."""
    stopped_children: Sequence[StoppedChild] = ()
    """Its child processes that were stopped, by a signal or a debugger. The longest time first."""
    asleep_at: datetime | None = None
    """When it fell asleep; it sends no heartbeats meanwhile."""

    @property
    def state_text(self) -> str:
        """The state as people read it, everywhere."""
        return "no heartbeat" if self.state == "silent" else self.state


class Span(NamedTuple):
    """What finished from `at` on, during one step of the chart."""

    at: datetime
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Failed attempts, those that were retried included."""
    waited: float | None
    """Seconds from due to claimed, on average; None: none has completed."""
    waited_most: float | None
    ran: float | None
    """Seconds that they ran, on average."""
    ran_most: float | None
    waited_p50: float | None = None
    """Percentiles are exact to the bucket of a histogram, and interpolated in it. None: none has completed."""
    waited_p95: float | None = None
    waited_p99: float | None = None
    ran_p50: float | None = None
    ran_p95: float | None = None
    ran_p99: float | None = None


class Total(NamedTuple):
    jobs: int
    exact: bool
    """False: an estimate."""
    counted_at: datetime | None = None
    """If it is not exact: when a worker counted them; None: nobody has, and there are at least so many."""


class Overview(NamedTuple):
    at: datetime
    """By the database's clock."""
    lanes: list[Backlog]
    """The deepest first."""
    workers: list[WorkerRow]
    pauses: list[Pause]
    spans: list[Span]
    """Oldest first, without gaps; the last one is still running."""
    step: float
    """Seconds of a span."""
    totals: dict[Status, Total]
    rate: float
    """Finished jobs per second, over the last minute that was counted."""
    running: Sequence[JobSnapshot] = ()
    """Running jobs, in the order in which they started; at most as many as were asked for."""
    refusal: Refusal | None = None
    """Why the server refuses what workers write, for example because its disk is full."""


class Mark(NamedTuple):
    at: datetime
    kind: str
    """pause, resume, deploy or start."""
    job_type: str | None
    """Of a pause: only this type. None: all."""
    queue: str | None
    by: str
    """Who paused or resumed; of a deployment, the version of the application; of a start, that of Treadle."""
    workers: int | None
    """How many started within the minute."""

    @property
    def text(self) -> str:
        if self.kind == "deploy":
            return f"Deployed {self.by}"
        if self.kind == "start":
            return f"{self.workers} {'worker' if self.workers == 1 else 'workers'} started"
        what = self.job_type or ("All jobs" if self.queue is None else "All types")
        where = f" in queue {self.queue}" if self.queue else ""
        by = f" by {self.by}" if self.by else ""
        return f"{what}{where} {'paused' if self.kind == 'pause' else 'resumed'}{by}"

    def concerns(self, job_type: str | None, queue: str | None) -> bool:
        """Whether it concerns jobs of this type, or in this queue; None: any."""
        is_type = self.job_type is None or job_type is None or self.job_type == job_type
        return is_type and (self.queue is None or queue is None or self.queue == queue)
