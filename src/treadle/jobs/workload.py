"""What a worker runs: the job functions of an application, and what belongs to them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from treadle.db.database import Database
from treadle.jobs.declared_limits import DeclaredLimits
from treadle.jobs.group import JobGroup
from treadle.jobs.listeners import Listeners
from treadle.jobs.middleware import Middlewares
from treadle.jobs.schedules import Schedules
from treadle.words.duration import Duration
from treadle.words.status import Status


@dataclass(slots=True)
class Workload:
    """Every application has one, as `app.workload`; workers and their child processes know nothing else of it."""

    functions: JobGroup
    """The application itself: what it has declared and included."""
    database: Database
    listeners: Listeners
    middlewares: Middlewares
    schedules: Schedules
    declared_limits: DeclaredLimits
    keep: Mapping[Status, Duration | None]
    """How long finished jobs are kept, by status."""
    store_grace: timedelta
    """How long stored content that no job uses is kept."""
    version: str | None
    """That of the user's code."""
    close: Callable[[], Awaitable[None]]
    spec: str | None = None
    """How another process imports the application, if it is known: `module:attribute`."""
