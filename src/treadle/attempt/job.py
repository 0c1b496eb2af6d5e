"""The job as its handler sees it. The state behind it is in attempt.py."""

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload
from uuid import UUID

from treadle.attempt.attempt import Attempt, running_attempt
from treadle.db.database import AsyncTransaction, Transaction
from treadle.words.errors import InvalidArgument
from treadle.words.event_loop import on_event_loop, refuse_to_wait
from treadle.words.headers import read_headers
from treadle.words.payload import Json
from treadle.words.work import Replacement, Work

P = ParamSpec("P")
R = TypeVar("R")
Item = TypeVar("Item")


class Job:
    """One attempt of a job. A handler gets it in a parameter with this annotation; all threads may use it.

    Methods that wait for the database have an async twin with an `a` in front.
    """

    __slots__ = ("_attempt",)

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def id(self) -> UUID:
        return self._attempt.claim.id

    @property
    def type(self) -> str:
        return self._attempt.claim.job_type

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._attempt.claim.attempts

    @property
    def max_attempts(self) -> int:
        return self._attempt.claim.max_attempts

    @property
    def queue(self) -> str:
        return self._attempt.claim.queue

    @property
    def priority(self) -> int:
        return self._attempt.claim.priority

    @property
    def key(self) -> str | None:
        return self._attempt.claim.key

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp(self._attempt.claim.created, UTC)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the handler by name, validated, without the job itself."""
        given = self._attempt.arguments or {}
        return {name: value for name, value in given.items() if not isinstance(value, Job)}

    @property
    def headers(self) -> dict[str, str]:
        """The named strings that were stored with the job, by using(headers=…) or by enqueue middleware."""
        return {} if self._attempt.claim.headers is None else read_headers(self._attempt.claim.headers)

    @property
    def scheduled_for(self) -> datetime | None:
        """The time for which a schedule enqueued this job; None if none did."""
        origin = self._attempt.origin
        return None if origin is None else origin.scheduled_for

    @property
    def previously_scheduled_for(self) -> datetime | None:
        """The time for which the schedule enqueued the job before this one; None if this is the first."""
        origin = self._attempt.origin
        return None if origin is None else origin.before

    @property
    def worker_id(self) -> str:
        """The worker that has claimed the job."""
        return self._attempt.environment.worker_id

    @property
    def fence(self) -> int:
        """The lease number: it grows with every claim of this job, so external systems can reject an older attempt.
        A promoted standby gives higher numbers, also if it lacks the last claims of its primary."""
        return self._attempt.claim.lease

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: the job is cancelled or out of time, or the worker has to give it up."""
        self._attempt.noticed = self._attempt.interrupted_by is not None
        return self._attempt.noticed

    def check(self) -> None:
        """Raise JobInterrupted if the handler should stop."""
        self._attempt.check()

    # Progress and events. These return at once; the worker writes them.

    def progress(self, percent: float | None = None, stage: str | None = None, *, back: bool = False) -> None:
        """Report how far the job is, from 0 to 100, and what it is doing. It never goes back, unless `back` is true."""
        self._attempt.check()
        self._attempt.progress.set(percent, stage, back)

    def stage(self, name: str, weight: float | None = None) -> AbstractContextManager[None]:
        """`with job.stage("resizing", weight=0.3):` inside, 0 to 100 is the progress of that part of the job.

        A weight is the share of the job, or of the stage around it. The default is all that is left of it.
        """
        self._attempt.check()
        return self._attempt.progress.stage(name, weight)

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
        """Iterate over the items and report percentage, rate and time left. An earlier attempt has done `done` items.

        Without a total (and without a length) they are counted, and the percentage does not change.
        """
        self._attempt.check()
        progress = self._attempt.progress
        if isinstance(items, AsyncIterable):
            return progress.atrack(items, total, stage, weight, done)
        return progress.track(items, total, stage, weight, done)

    def event(self, name: str, /, **data: Json) -> None:
        """Publish an event: it is stored with a number, and sent to everything that follows the job's events."""
        self._attempt.check()
        self._attempt.outbox.add_event(name, data, may_wait=not on_event_loop())

    # State for the next attempt

    @property
    def checkpoint(self) -> Any:
        """The state that was saved last, by this attempt or an earlier one; None if there is none."""
        return self._attempt.memory.checkpoint

    def save(self, state: Json) -> None:
        """Keep this state for the next attempt. It is in the database when this returns."""
        _check_off_event_loop(self._attempt, "asave")
        self._attempt.memory.save(state)

    async def asave(self, state: Json) -> None:
        self._attempt.check()
        await self._attempt.memory.asave(state)

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[R]: ...
    @overload
    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function once over all attempts. If an earlier attempt has finished this step, return its result.

        With an async function, await it. In an async handler, use `astep` for a sync function.
        """
        if inspect.iscoroutinefunction(function):
            return self.astep(name, function, *args, **kwargs)
        _check_off_event_loop(self._attempt, "astep")
        return self._attempt.memory.step(name, function, args, kwargs)

    async def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `step`, in an async handler. A sync function runs on a thread."""
        self._attempt.check()
        return await self._attempt.memory.astep(name, function, args, kwargs)

    # Transactions

    def transact(
        self, name: str, function: Callable[Concatenate[Transaction, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """A step in a transaction. The function receives the connection first; what it writes there and its result are
        committed together, exactly once."""
        _check_off_event_loop(self._attempt, "atransact")
        result: R = self._attempt.memory.transact(name, function, args, kwargs)
        return result

    async def atransact(
        self,
        name: str,
        function: Callable[Concatenate[AsyncTransaction, P], Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        self._attempt.check()
        result: R = await self._attempt.memory.atransact(name, function, args, kwargs)
        return result

    def transaction(self) -> AbstractContextManager[Transaction]:
        """`with job.transaction() as connection:` commits only if the job is still claimed by this attempt, otherwise
        it rolls back. With `job.complete(result)` inside, it also completes the job."""
        _check_off_event_loop(self._attempt, "atransaction")
        return self._attempt.transactions.transaction()

    def atransaction(self) -> AbstractAsyncContextManager[AsyncTransaction]:
        self._attempt.check()
        return self._attempt.transactions.atransaction()

    def complete(self, result: Any = None) -> None:
        """Inside `job.transaction()`: complete the job, with this result, when the transaction commits."""
        self._attempt.check()
        self._attempt.transactions.complete(result)

    def replace_with(self, work: Work[R]) -> R:
        """`return job.replace_with(other.call(7))` makes the result of that call the result of this job: whoever waits
        for this job waits for that one. It can be a call, a chain, a group or a workflow, which is enqueued when this
        attempt ends, in the same transaction."""
        self._attempt.check()
        if not isinstance(work, Work):
            raise InvalidArgument(
                f"replace_with() needs a call, such as pay.call(order=7), a chain, a group or a workflow, got {work!r}"
            )
        return cast(R, Replacement(work))

    def __repr__(self) -> str:
        return f"<Job {self.type} {self.id} attempt {self.attempt}>"


def job_of(attempt: Attempt) -> Job:
    """The Job of this attempt. It is created on first use: many handlers never need it."""
    job: Job | None = attempt.job
    if job is None:
        job = attempt.job = Job(attempt)
    return job


def current_job() -> Job:
    """The job that is running here, for code below a handler. Raises LookupError if there is none."""
    return job_of(running_attempt.get())


def _check_off_event_loop(attempt: Attempt, twin: str) -> None:
    attempt.check()
    refuse_to_wait(f"await job.{twin}(…)")
