"""What job functions and handles need from their application."""

from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.db.database import Database
from treadle.jobs.arguments import Arguments
from treadle.jobs.middleware import Middlewares
from treadle.watching.watch import Watch


@dataclass(frozen=True, slots=True)
class Backend:
    """Where jobs are stored and watched. All job functions and handles of an application share one."""

    database: Database
    watch: Watch
    payload_limit: int
    """The size limit of payloads, results and checkpoints, in bytes of JSON."""
    middlewares: Middlewares = field(default_factory=Middlewares)
    pools: Database | None = None
    """Our own connections, if `database` is a connection of the caller."""
    arguments_of: Callable[[str], Arguments | None] = lambda _: None
    """What the jobs of this type take and return, if the application has their function."""

    @property
    def own(self) -> Database:
        """For what must not be part of the caller's transaction: checkpoints, steps and transactions of handlers."""
        return self.pools or self.database
