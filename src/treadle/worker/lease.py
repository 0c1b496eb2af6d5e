"""The lease of a worker: how a worker registers, and how it stops before its lease runs out.

The lease is renewed by another process (keeper.py or supervisor.py), which notes the time in the worker's job slots.
"""

import os
import socket
from collections.abc import Callable
from importlib.metadata import version

from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots
from treadle.worker.options import Settings


def registration(
    worker_id: str, chosen: Settings, process_types: list[str], handlers: list[str | None]
) -> worker_queries.Worker:
    return worker_queries.Worker(
        worker_id,
        chosen.lease,
        list(chosen.types),
        chosen.queues,
        chosen.concurrency,
        socket.gethostname(),
        os.getpid(),
        version("treadle"),
        process_types,
        chosen.children,
        handlers,
    )


async def register(
    connection: ReconnectingConnection,
    worker: worker_queries.Worker,
    app_version: str | None,
    unavailable: Callable[[DatabaseUnavailable | None], None],
) -> None:
    """Register the worker, and the version of the application that it runs."""
    await connection.persist(worker_queries.register(worker), unavailable)
    if app_version is not None:
        await connection.persist(group_queries.register_version(worker.worker_id, app_version), unavailable)


class LeaseWatch:
    def __init__(self, slots: JobSlots, fence_after: float, fence: Callable[[], None]) -> None:
        """`fence` is called when the lease has not been renewed for `fence_after` seconds. It stops the handlers; a
        process that cannot even do that is killed."""
        self._slots = slots
        self._fence_after = fence_after
        self._fence = fence
        self.fenced = False
        """Until the lease is renewed nothing may be started."""

    async def check(self) -> None:
        late = now() - self._slots.renewed_at > self._fence_after and not self._slots.asleep
        if late and not self.fenced:
            self.fenced = True
            self._fence()
        elif not late:
            self.fenced = False
