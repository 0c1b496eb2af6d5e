"""The options of a worker, their defaults and their checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, Unpack

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.naming import MOST_CONCURRENCY, text_within
from treadle.worker.job_slots import MOST_ENDED

# How long handlers that were interrupted may take to stop, and the last outcomes to be written.
STOP_SECONDS = 3.0
FLUSH_SECONDS = 5.0
LEASE_SECONDS = 10


class WorkerOptions(TypedDict, total=False):
    concurrency: int
    """How many jobs run at once, on the event loop and on threads. The default is 50."""
    children: int
    """How many child processes run jobs with process=True. The default is the number of cores."""
    types: Sequence[str] | None
    """The job types to work on. The default is all types of the application."""
    queues: Sequence[str] | None
    """The queues to work on. The default is all."""
    drain: bool
    """Stop when no job is left to run."""
    grace: Duration
    """How long running jobs may take to finish when the worker stops. The default is 25 seconds."""
    lease: Duration
    """A worker that does not renew its lease within this time loses its jobs. The default is 10 seconds."""
    poll: Duration
    """How often to check for jobs without a notification. The default is every second. A worker that sleeps checks
    every minute, or less often if this is longer."""
    listen: bool
    """Whether to listen for notifications of new jobs. With False the worker only polls, and does not sleep."""
    prefetch: int | None
    """How many jobs to claim ahead of those that run. The default follows the speed of the worker."""
    crash_limit: int
    """A job fails when it has crashed its process this many times. The default is 3."""


@dataclass(frozen=True)
class Settings:
    """WorkerOptions after the checks, with their defaults."""

    concurrency: int
    children: int
    types: tuple[str, ...]
    queues: list[str] | None
    drain: bool
    grace: float
    lease: timedelta
    poll: float
    listen: bool
    prefetch: int | None
    crash_limit: int

    @property
    def slots(self) -> int:
        """For as many jobs as an operator can let it run, and some that have ended. A slot takes memory only when it is
        used."""
        return MOST_CONCURRENCY + self.children + MOST_ENDED

    # A worker that cannot renew its lease stops its handlers before the lease runs out, and is killed if it does not.
    @property
    def renew_every(self) -> float:
        return renew_every(self.lease)

    @property
    def fence_after(self) -> float:
        return self.lease.total_seconds() * 0.8

    @property
    def kill_after(self) -> float:
        return self.lease.total_seconds() * 0.93


# Of a worker that sleeps, and renews it each hour (sleeper.py). If its machine is lost meanwhile, it is shown as asleep
# until then.
ASLEEP_LEASE = timedelta(hours=2)


def renew_every(lease: timedelta) -> float:
    """A lease is renewed three times before it runs out."""
    return lease.total_seconds() / 3


def settings(known: Sequence[str], cores: int, **options: Unpack[WorkerOptions]) -> Settings:
    """The options with their defaults, for an application with these job types."""
    if not options.keys() <= WorkerOptions.__annotations__.keys():
        from treadle.words.options import Options  # supervisors and keepers need it only then

        Options("worker()", WorkerOptions.__annotations__).check(options)
    types = options.get("types")
    if isinstance(types, str) or isinstance(options.get("queues"), str):
        raise InvalidArgument("types and queues must be lists of strings")
    for name in types or ():
        if name not in known:
            raise InvalidArgument(f"there is no job type {name!r} here; known types: {', '.join(known) or 'none'}")
    chosen = tuple(types if types is not None else known)
    if not chosen:
        raise InvalidArgument("the application has no jobs: decorate a function with @app.job")
    queues = options.get("queues")
    lease = duration(options.get("lease", LEASE_SECONDS), "lease")
    if lease < timedelta(seconds=1):
        raise InvalidArgument(f"lease must be at least a second, got {options.get('lease')!r}")
    poll = duration(options.get("poll", 1), "poll").total_seconds()
    if poll < 0.01:
        raise InvalidArgument(f"poll must be at least 10 milliseconds, got {options.get('poll')!r}")
    prefetch = options.get("prefetch")
    return Settings(
        concurrency=_count(options.get("concurrency", 50), "concurrency", 1),
        children=_count(options.get("children", cores), "children", 1),
        types=chosen,
        queues=None if queues is None else [text_within(name, 50, "queue") for name in queues],
        drain=options.get("drain", False),
        grace=duration(options.get("grace", 25), "grace").total_seconds(),
        lease=lease,
        poll=poll,
        listen=options.get("listen", True),
        prefetch=None if prefetch is None else _count(prefetch, "prefetch", 0),
        crash_limit=_count(options.get("crash_limit", 3), "crash_limit", 1),
    )


def _count(value: int, name: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MOST_CONCURRENCY:
        raise InvalidArgument(f"{name} must be an integer from {low} to {MOST_CONCURRENCY:,}, got {value!r}")
    return value
