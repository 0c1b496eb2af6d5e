"""What several open pages show, read once for all of them; and what changes slowly, read less often than the rest."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from treadle.app.treadle import Treadle
from treadle.operations.state import QueueState, aread_state
from treadle.web.dashboard.pages.live import readings as live
from treadle.web.dashboard.pages.live.readings import Reading, Readings

# Pages are read at the same moments, so that they share what was read this long ago.
SHARED_SECONDS = 1.0
# If reading the state takes longer than this, it is read less often, but before pages look stale, after 5 seconds. On a
# busy machine a single read may take long, so the shortest of some counts.
LONG_SECONDS, READS = 0.02, 5
LONG_INTERVAL = 4.0
# Charts are the most expensive part of a page, to read and to render. By the length of their spans, in seconds.
CHART_SECONDS = {60: 10.0, 300: 10.0, 900: 15.0, 7200: 30.0}

Value = TypeVar("Value")


class SharedReads:
    def __init__(self, app: Treadle, readings: Readings) -> None:
        self._app = app
        self._readings = readings
        readings.interval = self.seconds
        self._took: deque[float] = deque(maxlen=READS)
        """How long the last reads of the state took."""

    def seconds(self) -> float:
        """How often pages are read: most of them show a part of the state."""
        is_long = len(self._took) == READS and min(self._took) > LONG_SECONDS
        return max(live.SECONDS, LONG_INTERVAL) if is_long else live.SECONDS

    async def state(self) -> QueueState:
        return await self._readings.recent("state", self._read_state, SHARED_SECONDS)

    async def _read_state(self) -> QueueState:
        clock = asyncio.get_running_loop().time
        began = clock()
        state = await aread_state(self._app.database)
        self._took.append(clock() - began)
        return state

    async def slowly(self, key: Hashable, seconds: float, read: Callable[[], Awaitable[Value]]) -> Reading[Value]:
        """What `read` has returned at most `seconds` ago. What is rendered from it is kept for as long."""

        async def reading() -> Reading[Value]:
            return Reading(await read())

        return await self._readings.recent(key, reading, seconds)
