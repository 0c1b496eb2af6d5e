"""Enqueues the jobs of schedules when they are due. Every worker does this; the database makes sure that each time is
enqueued once, so it does not matter how many of them try, or which of them dies.

To save work, whoever enqueued last goes first, and the others look a little later. All times are by the server's clock.
"""

import asyncio
import logging
import random
from collections.abc import Callable

from treadle.app.schedules import Schedules
from treadle.db.queries import schedules as schedule_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.errors import TreadleError
from treadle.words.schedule import DueSchedule, Plan, plan
from treadle.worker.services import within

log = logging.getLogger("treadle")

DECLARE_SECONDS = 60.0
# How often to look although nothing is known to be due: the notification of a new schedule may be lost.
POLL_SECONDS = 5.0
RETRY_SECONDS = 0.5
# Schedules per statement: claims, which share the connection, wait for it.
LIMIT = 20
# How much later the others look than the one that goes first.
FOLLOW_SECONDS = (0.03, 0.07)


class Scheduler:
    def __init__(
        self,
        connection: ReconnectingConnection,
        schedules: Schedules,
        unavailable: Callable[[DatabaseUnavailable | None], None],
    ) -> None:
        self._connection = connection
        self._declarations = {each.name: each for each in schedules.declared()}
        self._unavailable = unavailable
        self._digests: list[str] | None = None
        self._first = True
        self.wake = asyncio.Event()

    async def start(self) -> None:
        """Declare for the first time. If that fails, it is tried again in a minute, and the worker runs jobs."""
        try:
            await self.declare()
        except DatabaseUnavailable as error:
            self._unavailable(error)
        except Exception:
            log.exception("the schedules could not be declared; retrying in a minute")

    async def declare(self) -> None:
        """Declare what the code declares: at the start, and every minute, to say that it still does."""
        if not self._declarations:
            return
        in_force = await self._connection.run(schedule_queries.declare(list(self._declarations.values())))
        digests = [each.digest for name, each in self._declarations.items() if name in in_force]
        if digests == self._digests:
            return
        self._digests = digests
        self.wake.set()
        if others := [name for name in self._declarations if name not in in_force]:
            log.warning(
                "schedules that are not enqueued as declared here: %s; a newer version of the code declares them, or "
                "they were added at run time",
                ", ".join(others),
            )

    async def run(self) -> None:
        """Enqueue what is due until cancelled."""
        while True:
            try:
                delay = await self.enqueue_due()
            except DatabaseUnavailable as error:
                self._unavailable(error)
                delay = RETRY_SECONDS
            except Exception:
                log.exception("schedules cannot be enqueued by this worker; retrying in a minute")
                delay = DECLARE_SECONDS
            await within(self.wake.wait(), delay)
            self.wake.clear()

    async def enqueue_due(self) -> float:
        """Enqueue what is due. Returns the seconds until the next look."""
        found = await self._connection.run(schedule_queries.find_due(self._digests or [], LIMIT))
        due = {each: _planned(each) for each in found if each.seconds is None or each.seconds <= 0}
        if due:
            done = await self._connection.run(schedule_queries.enqueue(due))
            self._first = bool(done)
            for each in done:
                if each.error is not None:
                    log.warning("schedule %s: %s; it is tried again", each.name, each.error)
            # There may be more, and the next time is known only now.
            return 0.0 if done else random.uniform(*FOLLOW_SECONDS)  # noqa: S311 - jitter, not a secret
        if not found:
            return POLL_SECONDS
        seconds = min(each.seconds for each in found if each.seconds is not None)
        if seconds > POLL_SECONDS:
            return POLL_SECONDS
        return seconds if self._first else seconds + random.uniform(*FOLLOW_SECONDS)  # noqa: S311


def _planned(due: DueSchedule) -> Plan | str:
    try:
        return plan(due)
    except TreadleError as error:
        return str(error)
