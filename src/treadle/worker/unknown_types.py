"""Warns of due jobs that no worker will run, because neither this application nor another one that works here knows
their type: a module that was not imported, or a function that was renamed."""

from collections.abc import Iterable

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.jobs.listeners import Listeners
from treadle.words import events
from treadle.words.graph import SIGNAL, WORKFLOW

CHECK_SECONDS = 60.0


class UnknownTypes:
    def __init__(
        self, connection: ReconnectingConnection, worker_id: str, known: Iterable[str], listeners: Listeners
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        # Workflows and signals are jobs that nobody runs.
        self._quiet = {*known, WORKFLOW, SIGNAL}
        self._listeners = listeners

    async def check(self) -> None:
        """Each type is reported once."""
        found = await self._connection.run(worker_queries.find_unknown_types(sorted(self._quiet)))
        if found:
            self._quiet.update(found)
            self._listeners.emit(events.UnknownTypesFound(self._worker_id, tuple(found)))
