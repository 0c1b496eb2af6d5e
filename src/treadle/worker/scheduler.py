"""Enqueues the jobs of schedules when they are due. Every worker does this; the database makes sure that each time is
enqueued once, so it does not matter how many of them try, or which of them dies.

To save work, whoever enqueued last goes first, and the others look a little later. All times are by the server's clock.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from treadle.db.queries import schedules as schedule_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.jobs.schedules import Schedules
from treadle.text.log import log
from treadle.words.errors import TreadleError
from treadle.words.schedule import DueSchedule, Plan, plan
from treadle.worker.services import within
from treadle.worker.tasks import idle

DECLARE_SECONDS = 60.0
# How often to look although nothing is known to be due: the notification of a new schedule may be lost.
POLL_SECONDS = 5.0
RETRY_SECONDS = 0.5
# The shortest pause after jobs were enqueued. It bounds the number of statements, however many moments are due.
PAUSE_SECONDS = 0.05
# Schedules per statement: claims, which share the connection, wait for it.
LIMIT = 20
# Declarations per statement, which locks the schedules that it renews.
DECLARE_LIMIT = 1000
# How much later the others look than the one that goes first.
FOLLOW_SECONDS = (0.03, 0.07)

Part = TypeVar("Part")


class Scheduler:
    def __init__(
        self,
        connection: ReconnectingConnection,
        schedules: Schedules,
        unavailable: Callable[[DatabaseUnavailable | None], None],
        awake: asyncio.Event | None = None,
    ) -> None:
        """`awake` is cleared while the worker sleeps."""
        self._connection = connection
        self._awake = awake
        self._declarations = {each.name: each for each in schedules.declared()}
        self._digests = {name: each.digest for name, each in self._declarations.items()}
        self._unavailable = unavailable
        self._in_force: frozenset[str] | None = None
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
        in_force: set[str] = set()
        for digests in _parts(list(self._digests.items())):
            renewed = await self._connection.run(schedule_queries.renew(dict(digests)))
            in_force |= renewed
        others = [each for name, each in self._declarations.items() if name not in in_force]
        for declarations in _parts(others):
            added = await self._connection.run(schedule_queries.declare(declarations))
            in_force |= added
        found = frozenset(self._digests[name] for name in in_force)
        if found == self._in_force:
            return
        self._in_force = found
        self.wake.set()
        if missing := [name for name in self._declarations if name not in in_force]:
            log.warning(
                "schedules that are not enqueued as declared here: %s; a newer version of the code declares them, or "
                "they were added at run time",
                ", ".join(missing),
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
            if self._awake is not None:
                with idle():
                    await self._awake.wait()
            self.wake.clear()

    @property
    def in_force(self) -> frozenset[str]:
        """The digests of those declared here that are enqueued as declared."""
        return self._in_force or frozenset()

    async def enqueue_due(self) -> float:
        """Enqueue what is due. Returns the seconds until the next look."""
        found = await self._find_due()
        found_at = time.monotonic()
        due = {each: _planned(each) for each in found if _is_due(each)}
        if not due:
            return self._delay([each.seconds for each in found])
        done = await self._connection.run(schedule_queries.enqueue(due))
        # If several were at it at once, then whoever has the first of them.
        self._first = next(iter(due)).name in {each.name for each in done}
        for each in done:
            if each.error is not None:
                log.warning("schedule %s: %s; it is tried again", each.name, each.error)
        if not done:
            return random.uniform(*FOLLOW_SECONDS)  # noqa: S311 - jitter, not a secret
        if len(done) < len(due) or len(due) >= LIMIT:
            return 0.0  # there may be more
        later = [each.seconds for each in found if each not in due]
        later += [_seconds(each, planned) for each, planned in due.items()]
        return max(PAUSE_SECONDS, self._delay(later) - (time.monotonic() - found_at))

    async def _find_due(self) -> list[DueSchedule]:
        """What is due and declared here or added at run time, and the next. The digests of all that is declared here
        would be a large parameter, so the database is asked for them only if schedules of others are in the way."""
        found = await self._connection.run(schedule_queries.find_due(LIMIT))
        mine = [each for each in found if each.digest is None or each.digest in self.in_force or not _is_due(each)]
        if len(mine) < len(found) and len(found) >= LIMIT:
            return await self._connection.run(schedule_queries.find_due(LIMIT, self.in_force))
        return mine

    def _delay(self, seconds: Iterable[float | None]) -> float:
        """How long to wait if these are the times until schedules are due."""
        soonest = min((each for each in seconds if each is not None), default=POLL_SECONDS)
        if soonest >= POLL_SECONDS:
            return POLL_SECONDS
        return soonest if self._first else soonest + random.uniform(*FOLLOW_SECONDS)  # noqa: S311


def _parts(declared: list[Part]) -> Iterator[list[Part]]:
    return (declared[begin : begin + DECLARE_LIMIT] for begin in range(0, len(declared), DECLARE_LIMIT))


def _is_due(schedule: DueSchedule) -> bool:
    return schedule.seconds is None or schedule.seconds <= 0


def _seconds(schedule: DueSchedule, planned: Plan | str) -> float | None:
    """How long after it was found a schedule is due again."""
    if isinstance(planned, str) or planned.next_at is None:
        return None
    return (planned.next_at - schedule.clock).total_seconds()


def _planned(due: DueSchedule) -> Plan | str:
    try:
        return plan(due)
    except TreadleError as error:
        return str(error)
