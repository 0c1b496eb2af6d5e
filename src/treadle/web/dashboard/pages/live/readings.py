"""Reads what open pages show, once for all pages that show the same.

A hundred open pages cost as much as one. What a page shows is a topic: the overview of the last hour, the jobs that
match a filter. One task reads it again and again, for as long as somebody follows it. At most MAX_READS topics are read
at a time, so that pages never take all connections.

Once a second, one small query looks for what pages must show soon. When that changes, all of them are read at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from contextlib import nullcontext, suppress
from typing import Any, Generic, NamedTuple, TypeVar

from treadle.db.database import DatabaseError
from treadle.db.screen_limits import on_screen
from treadle.text.log import log
from treadle.words.errors import DatabaseUnreachable, TableLocked, TooSlow, TreadleError

# How often a topic is read, unless its page says otherwise.
SECONDS = 2.0
RETRY_SECONDS = 2.0
# Pages are told that what they show is old if it could not be read for this long. The read goes on.
SLOW_SECONDS = 2.0
MAX_READS = 3
# How often to look for what must be shown soon. That a look takes longer than SLOW_LOOK_SECONDS is shown soon, too.
LOOK_SECONDS = SLOW_LOOK_SECONDS = 1.0
# A database that is sometimes slow must not be read more often for that.
CHANGE_SECONDS = 2.0
# Pages that wait for their turn are told what has just kept another page from being read.
TROUBLE_SECONDS = 5.0
# For as long as a table is known to be locked, reads that need it do not keep others waiting.
KNOWN_LOCK_SECONDS = 0.2
# What somebody has asked for is forgotten after this time.
KEPT_SECONDS = 60.0
# A page that does not take this many updates is disconnected. Its browser reconnects.
MAX_UNREAD = 30
TASK_NAME = "dashboard read"
FINISH_SECONDS = 5.0

Value = TypeVar("Value")


class Unavailable(NamedTuple):
    """The database cannot be read at the moment."""

    reason: str = "the database does not answer"


class Reading(Generic[Value]):
    """What was read, and what was rendered from it for each kind of visitor."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self._rendered: dict[Hashable, Any] = {}

    def rendered(self, kind: Hashable, render: Callable[[Value], Any]) -> Any:
        if kind not in self._rendered:
            self._rendered[kind] = render(self.value)
        return self._rendered[kind]


class Topic(Generic[Value]):
    """Something that at least one page shows."""

    def __init__(self, read: Callable[[], Awaitable[Value]], seconds: Callable[[], float], takes_turns: bool) -> None:
        self.read = read
        self.seconds = seconds
        """How often it is read at the moment."""
        self.takes_turns = takes_turns
        self.trouble: Unavailable | None = None
        """Why it could not be read the last time."""
        self.rounds = 0
        self.inboxes: set[asyncio.Queue[Reading[Value] | Unavailable | None]] = set()
        self.latest: Reading[Value] | None = None
        """The newest reading, for a page that opens in between."""
        self.due = asyncio.Event()
        """Set when it is to be read at once, or nobody follows it any more."""

    def send(self, update: Reading[Value] | Unavailable) -> None:
        self.latest = update if isinstance(update, Reading) else None
        for inbox in self.inboxes:
            put(inbox, update)


class Readings:
    """The topics of all open pages of this process."""

    def __init__(self, look: Callable[[], Awaitable[object]] | None = None) -> None:
        """`look`: finds what pages must show soon. When its result changes, all topics are read."""
        self._look = look
        self._watching: asyncio.Task[None] | None = None
        self.topics: dict[Hashable, Topic[Any]] = {}
        self.interval = lambda: SECONDS
        """How often topics are read at the moment, unless a page says otherwise."""
        self.changes = 0
        """How often something has changed that pages must show soon."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._recent: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}
        self._turns: asyncio.Semaphore | None = None
        self._failing = False
        self._trouble: Unavailable | None = None
        self._trouble_until = self._locked_until = 0.0

    async def follow(
        self,
        key: Hashable,
        read: Callable[[], Awaitable[Value]],
        seconds: float | None = None,
        takes_turns: bool = True,
    ) -> AsyncGenerator[Reading[Value] | Unavailable, None]:
        """What `read` returns, every `seconds`. Pages with the same key share it. Without `takes_turns`, it does not
        wait for the reads of other pages: for what does not use the pool."""
        topic = self.topics.get(key)
        if topic is None:
            topic = self.topics[key] = Topic(read, self.interval if seconds is None else lambda: seconds, takes_turns)
            self._start(self._run(topic))
            if self._look is not None and len(self.topics) == 1:
                self._watching = asyncio.create_task(self._watch(self._look))
        inbox: asyncio.Queue[Reading[Value] | Unavailable | None] = asyncio.Queue(MAX_UNREAD)
        topic.inboxes.add(inbox)
        if topic.latest is not None:
            put(inbox, topic.latest)
        try:
            while (update := await inbox.get()) is not None:
                yield update
        finally:
            topic.inboxes.discard(inbox)
            if not topic.inboxes and self.topics.get(key) is topic:
                del self.topics[key]
                topic.due.set()
                if not self.topics and self._watching is not None:
                    self._watching.cancel()

    async def recent(self, key: Hashable, read: Callable[[], Awaitable[Value]], seconds: float) -> Value:
        """What `read` has returned at most `seconds` ago. Those who ask at the same time wait for one read."""
        now = asyncio.get_running_loop().time()
        for each, (at, task) in list(self._recent.items()):
            is_old = now - at >= (seconds if each == key else KEPT_SECONDS)
            if task.done() and (is_old or task.cancelled() or task.exception()):
                del self._recent[each]
        if key not in self._recent:
            self._recent[key] = now, asyncio.ensure_future(read())
        return await asyncio.shield(self._recent[key][1])

    def _start(self, work: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        task = asyncio.create_task(work, name=TASK_NAME)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, look: Callable[[], Awaitable[object]]) -> None:
        async def found() -> object:
            try:
                with on_screen(KNOWN_LOCK_SECONDS):
                    return await look()
            except Exception as error:  # of any kind: topics that are read then report it
                return type(error)

        clock = asyncio.get_running_loop().time
        known: object = None
        changed_at = 0.0
        while True:
            looking = self._start(found())
            for timeout in (SLOW_LOOK_SECONDS, None):
                await asyncio.wait({looking}, timeout=timeout)
                seen = looking.result() if looking.done() else TooSlow
                if known is None:
                    known = seen
                elif seen != known and clock() - changed_at >= CHANGE_SECONDS:
                    known, changed_at = seen, clock()
                    self.changes += 1
                    self._recent.clear()
                    for topic in self.topics.values():
                        topic.due.set()
            await asyncio.sleep(LOOK_SECONDS)

    async def _run(self, topic: Topic[Any]) -> None:
        # Created here because a semaphore belongs to the event loop that first waits for it.
        self._turns = self._turns or asyncio.Semaphore(MAX_READS)
        clock = asyncio.get_running_loop().time
        while topic.inboxes:
            topic.due.clear()
            reading = asyncio.create_task(self._read(topic, self._turns), name=TASK_NAME)
            # A read is not cancelled: its connection would not be back in the pool for a while.
            while not (await asyncio.wait({reading}, timeout=SLOW_SECONDS))[0]:
                topic.send(self._reason(topic))
            with suppress(TimeoutError):
                pause = RETRY_SECONDS if topic.trouble else seconds_until_next(topic.seconds(), clock())
                await asyncio.wait_for(topic.due.wait(), pause)

    async def _read(self, topic: Topic[Any], turns: asyncio.Semaphore) -> None:
        clock = asyncio.get_running_loop().time
        try:
            async with turns if topic.takes_turns else nullcontext():
                with on_screen(KNOWN_LOCK_SECONDS if clock() < self._locked_until else None):
                    value = await topic.read()
        except Exception as error:  # of any kind: a bug for one page must not stop the updates of all others
            expected = isinstance(error, TreadleError | DatabaseError | OSError)
            if not self._failing:
                log.warning("the dashboard cannot update open pages: %s", error, exc_info=not expected)
            self._failing = True
            topic.trouble = Unavailable(summary_of(error))
            if expected:
                self._trouble, self._trouble_until = topic.trouble, clock() + TROUBLE_SECONDS
            if isinstance(error, TableLocked):
                self._locked_until = clock() + TROUBLE_SECONDS
            topic.send(topic.trouble)
            return
        self._failing = False
        topic.trouble = None
        topic.rounds += 1
        topic.send(Reading(value))

    def _reason(self, topic: Topic[Any]) -> Unavailable:
        """Why a read takes so long, as far as it is known."""
        is_recent = asyncio.get_running_loop().time() < self._trouble_until
        return topic.trouble or (self._trouble if is_recent else None) or Unavailable()


async def finish_reads() -> None:
    """Wait for the reads of pages that are gone: they would open a pool again after it was closed."""
    reads = [each for each in asyncio.all_tasks() if each.get_name() == TASK_NAME]
    if reads:
        await asyncio.wait(reads, timeout=FINISH_SECONDS)


def seconds_until_next(interval: float, moment: float) -> float:
    """How long to wait before the next read. Topics are read at the same moments, so that they can share what they
    read; but there is a pause between two reads, also if they take long. A topic that is read less often from now on
    gets there in two steps: with a longer pause, its pages would look stale."""
    left, step = interval - moment % interval, min(interval, SECONDS)
    return left if left >= step / 2 else left + step


def summary_of(error: Exception) -> str:
    """What is wrong, in words that anybody may see. The details are in the log."""
    if isinstance(error, DatabaseUnreachable):
        return error.summary
    if isinstance(error, TableLocked):
        return "another session has locked a table in the database; the Health page shows which one"
    if isinstance(error, TooSlow):
        return "the database takes too long to answer; a table may be locked"
    if isinstance(error, DatabaseError | OSError):
        return "no connection to the database"
    return "the dashboard failed to read the database; see the server log"


def put(inbox: asyncio.Queue[Any], update: object) -> None:
    """Disconnects a page that does not keep up."""
    if inbox.full():
        with suppress(asyncio.QueueEmpty):
            while True:
                inbox.get_nowait()
        inbox.put_nowait(None)
    else:
        inbox.put_nowait(update)
