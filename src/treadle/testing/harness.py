"""What a test of an application uses: the fixture `treadle`."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any

from treadle.app.treadle import Treadle
from treadle.db.database import Source
from treadle.db.queries import jobs as job_queries
from treadle.db.query import Query, Result
from treadle.jobs.function import JobFunction
from treadle.testing.calling_thread import CallingThread, LoopThread
from treadle.testing.clock import Clock, ahead, between
from treadle.testing.databases import Emptied, prepare
from treadle.testing.drained import Drained, DrainLimit
from treadle.testing.draining import Drain
from treadle.testing.matching import Wanted, difference
from treadle.testing.redirection import Redirection
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument, SchemaError
from treadle.words.event_loop import calling_thread, on_event_loop
from treadle.words.job import JobRow

# Attempts that one drain runs at most.
LIMIT = 1000
# How deep jobs that run inline may enqueue others.
DEEPEST = 50
PAGE = 10_000


class Harness:
    """The queue of one test. Methods that use the database have an async twin with an `a` in front."""

    def __init__(self, app: Treadle, redirection: Redirection, loop: LoopThread, emptied: Emptied | None) -> None:
        self.app = app
        self._redirection = redirection
        self._loop = loop
        self._emptied = emptied
        self._clock = Clock()
        self._depth = 0

    # Running jobs

    def drain(
        self,
        *,
        until: Duration | datetime | None = None,
        follow: bool = False,
        raise_errors: bool = True,
        limit: int = LIMIT,
    ) -> Drained:
        """Run the jobs that are due, in this process, until none is, and return how many attempts ended how.

        The exception of a handler is raised here, after its attempt was written; jobs that are left stay due. With
        `raise_errors=False` it is not, and the drain continues, as a worker would.

        `until="1h"` also moves the clock ahead by an hour (or to a datetime), and stops at each time at which a job or
        a schedule is due, as if a worker ran meanwhile. `follow=True` moves the clock for as long as a job has still to
        run: to the end of all delays and retries.

        After `limit` attempts it raises DrainLimit.
        """
        if on_event_loop():
            raise InvalidArgument("an event loop is running on this thread: use await treadle.adrain()")
        return self._loop.run(lambda caller: self._drain(caller, until, follow, raise_errors, limit))

    async def adrain(
        self,
        *,
        until: Duration | datetime | None = None,
        follow: bool = False,
        raise_errors: bool = True,
        limit: int = LIMIT,
    ) -> Drained:
        caller = calling_thread.get()
        if caller is None and self._redirection.has_thread:
            drain = partial(self.drain, until=until, follow=follow, raise_errors=raise_errors, limit=limit)
            return await self._redirection.acall(drain)
        return await self._drain(caller, until, follow, raise_errors, limit)

    @contextmanager
    def inline(self) -> Iterator[None]:
        """While the block runs, whatever makes a job due also runs it, at once: `enqueue()` returns when it has ended.

        Errors of handlers are raised there. Jobs with a delay wait for the clock, as always.
        """
        self._redirection.follow(self._run_inline, self._arun_inline)
        try:
            yield
        finally:
            self._redirection.unfollow()

    # Time

    def now(self) -> datetime:
        """The time of the queue."""
        return self._run(self._clock.read())

    async def anow(self) -> datetime:
        return await self._arun(self._clock.read())

    def travel(self, by: Duration) -> None:
        """Move the clock ahead: `treadle.travel("1d")`. Nothing runs until the next drain()."""
        self._run(self._clock.move(ahead(by)))

    async def atravel(self, by: Duration) -> None:
        await self._arun(self._clock.move(ahead(by)))

    def travel_to(self, moment: datetime) -> None:
        """Set the clock, from where it runs on. It can be set back only before the first job is enqueued."""
        seconds = between(self.now(), moment)
        if seconds < 0:
            _require_none(self._run(_first_job()))
            self._begin_again()
        self._run(self._clock.move(between(self.now(), moment)))
        if seconds < 0:
            self.declare()

    async def atravel_to(self, moment: datetime) -> None:
        seconds = between(await self.anow(), moment)
        if seconds < 0:
            _require_none(await self._arun(_first_job()))
            await asyncio.to_thread(self._begin_again)
        await self._arun(self._clock.move(between(await self.anow(), moment)))
        if seconds < 0:
            await self.adeclare()

    # What was enqueued

    def enqueued(self, function: "JobFunction[..., Any, ..., Any] | str", /, *args: Any, **wanted: Any) -> list[JobRow]:
        """The jobs of this function with these arguments and options, oldest first, whether or not they have run.

        Arguments that are left out match anything. Options are priority, queue, key, delay, run_at, max_attempts,
        unique_key, headers (some of them) and status: `treadle.enqueued(welcome, user_id=7, status="pending")`.
        """
        found = Wanted(self.app, function, args, wanted)
        return [job for job in self._jobs() if found.differences(job) == []]

    async def aenqueued(
        self, function: "JobFunction[..., Any, ..., Any] | str", /, *args: Any, **wanted: Any
    ) -> list[JobRow]:
        found = Wanted(self.app, function, args, wanted)
        return [job for job in await self._ajobs() if found.differences(job) == []]

    def assert_enqueued(
        self, function: "JobFunction[..., Any, ..., Any] | str", /, *args: Any, **wanted: Any
    ) -> JobRow:
        """Fail unless such a job was enqueued; return the first of them. The arguments are those of enqueued()."""
        __tracebackhide__ = True
        return _first(Wanted(self.app, function, args, wanted), self._jobs())

    async def aassert_enqueued(
        self, function: "JobFunction[..., Any, ..., Any] | str", /, *args: Any, **wanted: Any
    ) -> JobRow:
        __tracebackhide__ = True
        return _first(Wanted(self.app, function, args, wanted), await self._ajobs())

    def assert_not_enqueued(
        self, function: "JobFunction[..., Any, ..., Any] | str", /, *args: Any, **wanted: Any
    ) -> None:
        """Fail if such a job was enqueued. The arguments are those of enqueued()."""
        __tracebackhide__ = True
        _none(Wanted(self.app, function, args, wanted), self._jobs())

    async def aassert_not_enqueued(
        self, function: "JobFunction[..., Any, ..., Any] | str", /, *args: Any, **wanted: Any
    ) -> None:
        __tracebackhide__ = True
        _none(Wanted(self.app, function, args, wanted), await self._ajobs())

    # What workers declare when they start

    def declare(self) -> None:
        """Declare the limits and schedules of the application again, if the test has added some."""
        self._loop.run(lambda caller: self._new_drain(caller, True, LIMIT).declare())

    async def adeclare(self) -> None:
        caller = calling_thread.get()
        if caller is None and self._redirection.has_thread:
            await self._redirection.acall(self.declare)
        else:
            await self._new_drain(caller, True, LIMIT).declare()

    async def _drain(
        self,
        caller: CallingThread | None,
        until: Duration | datetime | None,
        follow: bool,
        raise_errors: bool,
        limit: int,
    ) -> Drained:
        drain = self._new_drain(caller, raise_errors, limit)
        calling_thread.set(caller)
        if self.is_async:
            _require_clock(await self._arun(self._clock.exists()), self.app)
        if until is not None and follow:
            raise InvalidArgument("give either until or follow")
        seconds = None
        if isinstance(until, datetime):
            seconds = between(await self._arun(self._clock.read()), until)
        elif until is not None:
            seconds = ahead(until)
        return await drain.run(seconds, follow)

    def _new_drain(self, caller: CallingThread | None, raise_errors: bool, limit: int) -> Drain:
        return Drain(self.app, self._redirection.arun, self._clock, caller, limit, raise_errors, self._emptied is None)

    def _run_inline(self) -> None:
        if self._loop.is_here():
            return  # an async handler that calls enqueue(): the drain that runs it goes on with that job
        with self._deeper():
            if on_event_loop():
                _on_new_thread(self.drain)
            else:
                self.drain()

    async def _arun_inline(self) -> None:
        with self._deeper():
            await self.adrain()

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        if self._depth >= DEEPEST:
            raise DrainLimit(f"jobs that run inline have enqueued each other {DEEPEST} deep; use drain() instead")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def reset_clock(self) -> None:
        """Let the clock show the real time."""
        for query in self._clock.reset():
            self._run(query)

    async def areset_clock(self) -> None:
        for query in self._clock.reset():
            await self._arun(query)

    def _begin_again(self) -> None:
        if self._emptied is not None:
            self._emptied.empty()
        else:
            self.reset_clock()

    @property
    def is_async(self) -> bool:
        """Whether the test's connection is an async one: then only the methods with an `a` in front work."""
        return self._redirection.is_async

    def _jobs(self) -> list[JobRow]:
        return self._run(job_queries.find_newest_jobs(limit=PAGE)).jobs[::-1]

    async def _ajobs(self) -> list[JobRow]:
        return (await self._arun(job_queries.find_newest_jobs(limit=PAGE))).jobs[::-1]

    def _run(self, query: Query[Result]) -> Result:
        return self._redirection.run(query)

    async def _arun(self, query: Query[Result]) -> Result:
        return await self._redirection.arun(query)


class Stage:
    """An application on a test database, for one test after the other."""

    def __init__(self, app: Treadle, url: str) -> None:
        self.app = app
        prepare(url, app.schema)
        self._loop = LoopThread()
        self._emptied = Emptied(url, app.schema)
        self._emptied.empty()
        self._redirection = Redirection(app, url)
        app.database.use(url)

    @contextmanager
    def test(self) -> Iterator[Harness]:
        """For one test, with an empty queue."""
        harness = Harness(self.app, self._redirection, self._loop, self._emptied)
        harness.reset_clock()  # a test on another connection may have left it moved
        try:
            yield _started(harness)
        finally:
            self._redirection.unfollow()
            # Not only before the next one, which may work in a transaction on the same database.
            self._emptied.empty()

    def close(self) -> None:
        self._loop.close(self.app.database.aclose)
        self.app.close()
        self._redirection.restore()
        self._emptied.close()


@contextmanager
def rolled_back(app: Treadle, connection: Source) -> Iterator[Harness]:
    """For one test that works in one transaction, on this connection, and rolls it back. prepare() has to have been
    called for its database."""
    loop = LoopThread()
    redirection = Redirection(app, connection)
    try:
        harness = Harness(app, redirection, loop, None)
        if harness.is_async:
            yield harness
            return
        _require_clock(redirection.run(Clock().exists()), app)
        harness.reset_clock()
        yield _started(harness)
        with suppress(Exception):  # if its transaction has failed, the next test does this
            harness.reset_clock()
    finally:
        loop.close(_nothing)
        redirection.restore()


def _started(harness: Harness) -> Harness:
    """As if a worker had been started: schedules have their next times."""
    app = harness.app
    if app.declared_limits() or app.schedules.declared():
        harness.declare()
    return harness


def _first(wanted: Wanted, jobs: list[JobRow]) -> JobRow:
    __tracebackhide__ = True
    for job in jobs:
        if wanted.differences(job) == []:
            return job
    raise AssertionError(difference(wanted, jobs))


def _none(wanted: Wanted, jobs: list[JobRow]) -> None:
    __tracebackhide__ = True
    found = [job for job in jobs if wanted.differences(job) == []]
    if found:
        lines = "\n".join(f"  {wanted.shown(job)}" for job in found[:5])
        raise AssertionError(f"expected no job {wanted}, but {len(found)} were enqueued:\n{lines}")


def _first_job() -> Query[Any]:
    return job_queries.find_newest_jobs(limit=1)


def _require_clock(exists: bool, app: Treadle) -> None:
    if not exists:
        raise SchemaError(
            f"the schema {app.schema} of this connection's database is not prepared for tests; call "
            "treadle.testing.prepare(url) once, before the first test"
        )


def _require_none(page: Any) -> None:
    if page.jobs:
        raise InvalidArgument(
            "the clock can be set back only before the first job is enqueued: travel_to() comes first"
        )


def _on_new_thread(function: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(copy_context().run, function).result()


async def _nothing() -> None:
    return None
