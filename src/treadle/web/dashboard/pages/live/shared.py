"""What several open pages show, read once for all of them; and what changes slowly, read less often than the rest."""

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from treadle.app import Treadle
from treadle.operations.state import QueueState, aread_state
from treadle.web.dashboard.pages.live.readings import Reading, Readings

# Pages are read at the same moments, so that they share what was read this long ago.
SHARED_SECONDS = 1.0
# Charts are the most expensive part of a page, to read and to render. By the length of their spans, in seconds.
CHART_SECONDS = {60: 5.0, 300: 10.0, 900: 15.0, 7200: 30.0}

Value = TypeVar("Value")


class SharedReads:
    def __init__(self, app: Treadle, readings: Readings) -> None:
        self._app = app
        self._readings = readings

    async def state(self) -> QueueState:
        return await self._readings.recent("state", lambda: aread_state(self._app.database), SHARED_SECONDS)

    async def slowly(self, key: Hashable, seconds: float, read: Callable[[], Awaitable[Value]]) -> Reading[Value]:
        """What `read` has returned at most `seconds` ago. What is rendered from it is kept for as long."""

        async def reading() -> Reading[Value]:
            return Reading(await read())

        return await self._readings.recent(key, reading, seconds)
