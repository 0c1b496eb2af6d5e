"""The findings of the doctor, shared by all visitors for some seconds."""

import asyncio
import time
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.app.treadle import Treadle
from treadle.doctor import Finding, Severity, worst
from treadle.doctor.examine import aexamine, afind_signs
from treadle.web.dashboard.redaction import redact_finding

# An examination runs many queries, so reloading the page must not start another one each time.
HEALTH_SECONDS = 10.0
# An examination that takes longer than this is repeated half as often.
LONG_SECONDS = 0.15
# When a table is locked, or a worker is stuck or lost, and when that ends, it is examined again after this time.
CHANGED_SECONDS = 2.0
# While nobody looks at the page, for the overview.
KNOWN_SECONDS = 60.0
# An examination that takes longer is abandoned, and the next visitor starts another one.
LONGEST_SECONDS = 30.0


class HealthReport(NamedTuple):
    findings: list[Finding]
    """Worst first."""
    examined_at: datetime
    """At most 20 seconds ago."""

    @property
    def level(self) -> Severity:
        """The level of the worst finding."""
        return worst(self.findings)


class HealthCheck:
    """Examines the database every HEALTH_SECONDS, and when a table is locked, or a worker is stuck or lost."""

    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._latest: HealthReport | None = None
        self._began = self._took = 0.0
        self._signs: frozenset[object] = frozenset()
        """Those that were known when the last examination began."""
        self._task: asyncio.Task[HealthReport] | None = None

    async def report(self, patience: float | None = None) -> HealthReport:
        """At most 2 * HEALTH_SECONDS old. With `patience`, an examination that takes longer goes on, and the last one
        is returned meanwhile: it says when it was made. Raises an error if the database does not answer now."""
        signs = await afind_signs(self._app.database)
        task = self._current(signs) or self._start(signs)
        if patience is not None and self._latest is not None:
            done, _ = await asyncio.wait({task}, timeout=patience)
            if not done:
                return self._latest
        return await asyncio.shield(task)

    def known(self) -> list[Finding]:
        """What the last examination found. It does not wait: after KNOWN_SECONDS the next one begins."""
        task = self._task
        is_ours = task is not None and task.get_loop() is asyncio.get_running_loop()
        if not is_ours or time.monotonic() - self._began >= KNOWN_SECONDS:
            self._start(self._signs)
        return self._latest.findings if self._latest else []

    def _current(self, signs: frozenset[object]) -> asyncio.Task[HealthReport] | None:
        """The examination that is running, or that is not yet too old."""
        task = self._task
        # A task belongs to its event loop.
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return None
        age = time.monotonic() - self._began
        usual = HEALTH_SECONDS * (2 if self._took > LONG_SECONDS else 1)
        valid_for = usual if signs == self._signs else min(HEALTH_SECONDS, CHANGED_SECONDS)
        is_over = age >= LONGEST_SECONDS or (task.done() and (_failed(task) or age >= valid_for))
        return None if is_over else task

    def _start(self, signs: frozenset[object]) -> asyncio.Task[HealthReport]:
        self._signs = signs
        self._began = time.monotonic()
        self._task = asyncio.create_task(self._examine())
        # Otherwise asyncio logs an error for which nobody waits any more.
        self._task.add_done_callback(_failed)
        return self._task

    async def _examine(self) -> HealthReport:
        began = time.monotonic()
        found = [redact_finding(each) for each in await aexamine(self._app.database)]
        self._took = time.monotonic() - began
        self._latest = HealthReport(found, datetime.now(UTC))
        return self._latest


def _failed(task: asyncio.Task[HealthReport]) -> bool:
    return task.cancelled() or task.exception() is not None
