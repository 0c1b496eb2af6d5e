"""The job that a handler is given while it runs."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from treadle.attempt.memory import Memory
from treadle.attempt.outbox import Outbox
from treadle.attempt.progress import Meter, Said
from treadle.db.database import AsyncTransaction, Transaction
from treadle.words.claim import Claim
from treadle.words.clock import now
from treadle.words.errors import InvalidArgument, JobInterrupted
from treadle.words.naming import text_within
from treadle.words.outcome import Interrupt
from treadle.words.payload import EVENT_LIMIT, Json, clean_error, encode_any
from treadle.words.record import Logged, Told

if TYPE_CHECKING:
    from treadle.app.function import JobFunction

P = ParamSpec("P")
R = TypeVar("R")
Item = TypeVar("Item")

LINE_LIMIT = 8 * 1024
LOGGER_LIMIT = 1000
LEVEL_LIMIT = 2**15 - 1  # of its column


class Scribe(Protocol):
    """Writes what jobs tell, or passes it on to who does."""

    def came(self, job: "Job") -> None:
        """There is something in its outbox. From any thread."""

    def flush_now(self, job: "Job") -> None:
        """Wait until everything of it is written. From any thread but the event loop's."""


class Job:
    """One attempt of a job. Asked for by a parameter with this annotation; calls on it may be made from any thread.

    What takes time has an async twin with an `a` in front.
    """

    __slots__ = (
        "_claim",
        "_function",
        "_interrupt",
        "_memory",
        "_meter",
        "_outbox",
        "_said",
        "_scribe",
        "_told",
        "started",
        "worker_id",
    )

    def __init__(
        self,
        claim: Claim,
        worker_id: str,
        function: "JobFunction[..., Any, ..., Any]",
        scribe: "Scribe",
    ) -> None:
        self._claim = claim
        self._function = function
        self._scribe = scribe
        self.started = time.monotonic()
        self.worker_id = worker_id
        self._interrupt: Interrupt | None = None
        # Made when they are needed: most jobs need none of them.
        self._meter: Meter | None = None
        self._outbox: Outbox | None = None
        self._memory: Memory | None = None
        self._said: Said | None = None
        self._told = True

    @property
    def id(self) -> UUID:
        return self._claim.id

    @property
    def type(self) -> str:
        return self._claim.job_type

    @property
    def attempt(self) -> int:
        """1 at the first."""
        return self._claim.attempts

    @property
    def max_attempts(self) -> int:
        return self._claim.max_attempts

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def priority(self) -> int:
        return self._claim.priority

    @property
    def key(self) -> str | None:
        return self._claim.key

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp(self._claim.created, UTC)

    @property
    def fence(self) -> int:
        """A number that grows with every claim of this job, to hand to systems outside."""
        return self._claim.lease

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: cancelled, out of time, or the worker has to let go of the job."""
        return self._interrupt is not None

    def check(self) -> None:
        """Raise JobInterrupted if the handler has to stop."""
        if self._interrupt is not None:
            raise JobInterrupted(self._interrupt)

    # How far it is. Returns at once, however often it is called: written a few times a second.

    def progress(self, percent: float | None = None, stage: str | None = None, *, back: bool = False) -> None:
        """How far the job is, 0 to 100, and a word for what it is doing. It never goes back, unless `back` says so."""
        self.check()
        self._metered().set(percent, stage, back)

    def stage(self, name: str, weight: float | None = None) -> AbstractContextManager[None]:
        """`with job.stage("resizing", weight=0.3):` progress inside goes from 0 to 100 of that part of the whole.

        The whole is the job, or the stage around it. Left out, the weight is all that is left of that.
        """
        self.check()
        return self._metered().stage(name, weight)

    @overload
    def track(
        self,
        items: Iterable[Item],
        total: int | None = ...,
        *,
        stage: str | None = ...,
        weight: float | None = ...,
        done: int = ...,
    ) -> Iterator[Item]: ...
    @overload
    def track(
        self,
        items: AsyncIterable[Item],
        total: int | None = ...,
        *,
        stage: str | None = ...,
        weight: float | None = ...,
        done: int = ...,
    ) -> AsyncIterator[Item]: ...
    def track(
        self,
        items: Any,
        total: int | None = None,
        *,
        stage: str | None = None,
        weight: float | None = None,
        done: int = 0,
    ) -> Any:
        """The same items, counted: percent, rate and time left follow. `done` were done before, by an earlier attempt.

        Without a total (and without a length) they are counted all the same, and the percentage stays.
        """
        self.check()
        meter = self._metered()
        if isinstance(items, AsyncIterable):
            return meter.atrack(items, total, stage, weight, done)
        return meter.track(items, total, stage, weight, done)

    def event(self, name: str, /, **data: Json) -> None:
        """Something happened: kept for good, numbered, and told to everybody who listens. Returns at once."""
        self.check()
        name = text_within(name, 100, "event")
        text = encode_any(data, EVENT_LIMIT, name)
        self.outbox.tell(now(), name, text, may_wait=not _on_a_loop())

    # What the next attempt finds

    @property
    def checkpoint(self) -> Any:
        """What was saved last, by this attempt or an earlier one; None if nothing was."""
        return self._remembering().checkpoint

    def save(self, state: Json) -> None:
        """Keep this for the next attempt. It is in the database when this returns."""
        self._off_the_loop("asave")
        self._remembering().save(state)

    async def asave(self, state: Json) -> None:
        self.check()
        await self._remembering().asave(state)

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[R]: ...
    @overload
    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function, once over all attempts: where an earlier attempt came this far, what it returned then.

        With an async function it is to be awaited. A sync one in an async handler is called with `astep`.
        """
        if inspect.iscoroutinefunction(function):
            return self.astep(name, function, *args, **kwargs)
        self._off_the_loop("astep")
        return self._remembering().step(name, function, args, kwargs)

    async def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `step`, in an async handler. A sync function runs on a thread."""
        self.check()
        return await self._remembering().astep(name, function, args, kwargs)

    def transact(
        self, name: str, function: Callable[Concatenate[Transaction, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """A step with a transaction: the function gets its connection first, and what it writes there, its result and
        that the step is done are committed together. It happens exactly once."""
        self._off_the_loop("atransact")
        result: R = self._remembering().transact(name, function, args, kwargs)
        return result

    async def atransact(
        self,
        name: str,
        function: Callable[Concatenate[AsyncTransaction, P], Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        self.check()
        result: R = await self._remembering().atransact(name, function, args, kwargs)
        return result

    def transaction(self) -> AbstractContextManager[Transaction]:
        """`with job.transaction() as connection:` what is written there is committed if the job is still ours, else
        nothing is. With `job.complete(result)` inside, the job's end is part of it."""
        self._off_the_loop("atransaction")
        return self._remembering().transaction()

    def atransaction(self) -> AbstractAsyncContextManager[AsyncTransaction]:
        self.check()
        return self._remembering().atransaction()

    def complete(self, result: Any = None) -> None:
        """Inside `job.transaction()`: commit that the job is completed, with this result, together with the rest."""
        self.check()
        self._remembering().complete(result)

    def __repr__(self) -> str:
        return f"<Job {self.type} {self.id} attempt {self.attempt}>"

    # For the worker

    def interrupt(self, reason: Interrupt) -> None:
        """Ask the handler to stop."""
        self._interrupt = self._interrupt or reason

    @property
    def interrupted_by(self) -> Interrupt | None:
        return self._interrupt

    @property
    def remembers(self) -> bool:
        """Whether it has steps, transactions or checkpoints: most jobs have none."""
        return self._memory is not None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is left to pass on of what it said, told, logged and printed."""
        return self._told and self._outbox is None

    @property
    def completed(self) -> bool:
        """Whether its end is committed already."""
        return self._memory is not None and self._memory.completed

    @property
    def outbox(self) -> Outbox:
        """What was told and logged."""
        if self._outbox is None:
            self._outbox = Outbox(partial(self._scribe.came, self))
        return self._outbox

    def flush(self) -> None:
        """Wait until everything is written that the handler said, told and logged. Not on the event loop."""
        self._scribe.flush_now(self)

    def check_steps(self) -> None:
        """Raise StepsChanged if an earlier attempt did steps that this one left out."""
        if self._memory is not None:
            self._memory.check_all_called()

    def log(self, level: int, logger: str, message: str) -> None:
        """A line that the handler logged or printed."""
        level = max(-LEVEL_LIMIT, min(LEVEL_LIMIT, level))
        self.outbox.log(now(), level, clean_error(logger, LOGGER_LIMIT), clean_error(message, LINE_LIMIT))

    def printed(self, text: str) -> None:
        """What the handler printed, line by line: print() writes a line and its end apart."""
        *lines, rest = text.split("\n")
        for line in lines:
            self.log(logging.INFO, "print", self.outbox.finished(line))
        if self.outbox.unfinished(rest) > LINE_LIMIT // 2:
            # What never ends its line, such as a bar that is drawn: kept in pieces that fit a line.
            self.log(logging.INFO, "print", self.outbox.finished(""))

    def end_line(self) -> None:
        """Nothing more will be printed."""
        if self._outbox is not None and self._outbox.unfinished(""):
            self.printed("\n")

    def news(self) -> Said | None:
        """How far it is, if that has changed since this was last asked."""
        if self._told:
            return None
        self._told = True
        return self._said if self._meter is None else self._meter.say()

    def hear(self, said: Said | None, events: Iterable[Told], logs: Iterable[Logged]) -> None:
        """What the handler said, told and logged in another process."""
        if said is not None:
            self._said, self._told = said, False
        if events or logs:
            self.outbox.hear(events, logs)

    def untold(self) -> None:
        """What was said last could not be passed on."""
        self._told = False

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def function(self) -> "JobFunction[..., Any, ..., Any]":
        return self._function

    def _metered(self) -> Meter:
        if self._meter is None:
            self._meter = Meter(self.untold, self.check)
        return self._meter

    def _remembering(self) -> Memory:
        if self._memory is None:
            self._memory = Memory(self)
        return self._memory

    def _off_the_loop(self, twin: str) -> None:
        self.check()
        if _on_a_loop():
            raise InvalidArgument(f"this would keep the event loop waiting for the database: use await job.{twin}(…)")


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


running_job: ContextVar[Job] = ContextVar("treadle_job")


def current_job() -> Job:
    """The job that is running here, for code below a handler. LookupError where none is."""
    return running_job.get()
