"""The state of the whole queue."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.words.changes import Pause
from treadle.words.refusal import Refusal
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck


class Lane(NamedTuple):
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
    """How many jobs it runs at once: what an operator has set, or else what it was started with."""
    started_at: datetime
    seen_at: datetime
    alive: bool
    """Its lease is valid. It may be stuck or asleep."""
    lost_at: datetime | None
    """When it was declared lost and its jobs were recovered."""
    holds: int
    """How many jobs it has claimed or is running."""
    initial_concurrency: int | None = None
    """What it was started with."""
    state: str = "alive"
    """`alive`; `asleep`: it has no jobs, and sends no heartbeats until there are some; `stuck`: its lease is renewed,
    but its event loop does not run; `silent`: its lease was not renewed in time; `lost`: it was declared lost."""
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
    ran_most: float | None
    waited_p50: float | None = None
    """A percentile, from a histogram: see words/percentiles.py. None: none has completed."""
    waited_p95: float | None = None
    waited_p99: float | None = None
    ran_p50: float | None = None
    ran_p95: float | None = None
    ran_p99: float | None = None


class Total(NamedTuple):
    jobs: int
    exact: bool
    counted_at: datetime | None = None
    """If it is not exact: when a worker counted them; None: nobody has, and there are at least so many."""


class Overview(NamedTuple):
    at: datetime
    """By the database's clock."""
    lanes: list[Lane]
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
