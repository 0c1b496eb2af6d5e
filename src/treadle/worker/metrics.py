"""The metrics of the queue, which a supervisor answers on its port for probes."""

import asyncio
from typing import TYPE_CHECKING

from treadle.worker.health import Answer

# Imported with the first request: a supervisor has to start quickly, and most are never asked.
if TYPE_CHECKING:
    from treadle.operations.metrics import MetricsPage


class MetricsEndpoint:
    def __init__(self) -> None:
        self.database: tuple[str, str] | None = None
        """The URL and the schema, known once a worker process has started."""
        self._page: MetricsPage | None = None

    async def answer(self) -> Answer:
        if self.database is None:
            return Answer(503, "no worker process has started yet\n")
        if self._page is None:
            self._page = await asyncio.to_thread(_open, *self.database)  # importing takes a while
        return Answer(200, await self._page.text(), self._page.content_type)

    async def close(self) -> None:
        if self._page is not None:
            await self._page.database.aclose()


def _open(url: str, schema: str) -> "MetricsPage":
    from treadle.db.database import Database
    from treadle.operations.metrics import MetricsPage
    from treadle.words.connections import Connections

    return MetricsPage(Database(url, schema, Connections(pool_size=1)))
