"""What a job remembers from one attempt to the next, and how its effects happen once: checkpoint, steps, transactions.

Every write is fenced by the claim: whoever lost the job is told so, and nothing of it is written. These run on
connections of the application, never on those of the worker.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints
from uuid import UUID

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import from_json

from treadle.db.database import AsyncTransaction, Transaction
from treadle.db.queries import memory as memory_queries
from treadle.db.queries import stored
from treadle.db.query import Query
from treadle.words.errors import InvalidArgument, JobInterrupted, StepsChanged
from treadle.words.naming import text_within
from treadle.words.outcome import Interrupt
from treadle.words.payload import Json, encode, encode_any
from treadle.words.stored import Noted

if TYPE_CHECKING:
    from treadle.attempt.job import Job

# A function's arguments, as they were given.
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
_NOTHING = object()


class Memory:
    def __init__(self, job: "Job") -> None:
        self._job = job
        self._app = job.function.backend
        self._checkpoint: Any = _NOTHING
        self._done: dict[int, tuple[str, str | None]] | None = None
        self._called = 0
        self._failed: list[tuple[_Call, int]] = []  # steps that raised in this attempt, and their places
        self._doubtful = False
        self._loading = asyncio.Lock()
        # The end that is to be committed with the open transaction: JSON, or None for no result.
        self._in_transaction = False
        self._ending: Any = _NOTHING
        self._used: list[tuple[UUID, UUID]] = []
        self.completed = False

    # The checkpoint

    @property
    def checkpoint(self) -> Any:
        if self._checkpoint is _NOTHING:
            text = self._job.claim.checkpoint
            self._checkpoint = None if text is None else from_json(text)
        return self._checkpoint

    def save(self, state: Json) -> None:
        text = encode_any(state, self._app.payload_limit, "checkpoint")
        self._held(self._app.database.persist(self._saving(text)))
        self._checkpoint = from_json(text)

    async def asave(self, state: Json) -> None:
        text = encode_any(state, self._app.payload_limit, "checkpoint")
        self._held(await self._app.database.apersist(self._saving(text)))
        self._checkpoint = from_json(text)

    # Steps

    def step(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        self._load()
        call, position, found, remembered = self._next(name, function, args, kwargs)
        if found:
            return remembered
        with self._trying(call, position):
            result = _Result(function, function(*args, **kwargs), self._app.payload_limit, name)
            self._held(self._app.database.persist(self._finished(position, name, result.text)))
        return result.value

    async def astep(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        await self._aload()
        call, position, found, remembered = self._next(name, function, args, kwargs)
        if found:
            return remembered
        with self._trying(call, position):
            if inspect.iscoroutinefunction(function):
                returned = await function(*args, **kwargs)
            else:
                returned = await asyncio.to_thread(function, *args, **kwargs)
            result = _Result(function, returned, self._app.payload_limit, name)
            self._held(await self._app.database.apersist(self._finished(position, name, result.text)))
        return result.value

    def transact(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        self._load()
        call, position, found, remembered = self._next(name, function, args, kwargs)
        if found:
            return remembered
        with self._trying(call, position), self._app.database.transaction() as connection:
            result = _Result(function, function(connection, *args, **kwargs), self._app.payload_limit, name)
            self._held(self._app.database.run_in(connection, self._finished(position, name, result.text)))
        return result.value

    async def atransact(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        await self._aload()
        call, position, found, remembered = self._next(name, function, args, kwargs)
        if found:
            return remembered
        with self._trying(call, position):
            async with self._app.database.atransaction() as connection:
                returned = await function(connection, *args, **kwargs)
                result = _Result(function, returned, self._app.payload_limit, name)
                self._held(await self._app.database.arun_in(connection, self._finished(position, name, result.text)))
        return result.value

    def check_all_called(self) -> None:
        for position, (name, _) in (self._done or {}).items():
            if position > self._called:
                raise StepsChanged(
                    f"step {position} of an earlier attempt, {name!r}, was not called in this one; {_ADVICE}"
                )

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self._begin()
        try:
            with self._app.database.transaction() as connection:
                yield connection
                self._job.check()
                if self._ending is not _NOTHING:
                    self._job.flush()  # afterwards the job is not held any more
                if self._used:
                    self._app.database.run_in(connection, stored.use(self._used))
                self._held(self._app.database.run_in(connection, self._fence()))
            self.completed = self._ending is not _NOTHING
        finally:
            self._in_transaction, self._ending, self._used = False, _NOTHING, []

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncTransaction]:
        self._begin()
        try:
            async with self._app.database.atransaction() as connection:
                yield connection
                self._job.check()
                if self._ending is not _NOTHING:
                    await asyncio.to_thread(self._job.flush)
                if self._used:
                    await self._app.database.arun_in(connection, stored.use(self._used))
                self._held(await self._app.database.arun_in(connection, self._fence()))
            self.completed = self._ending is not _NOTHING
        finally:
            self._in_transaction, self._ending, self._used = False, _NOTHING, []

    def complete(self, result: Any) -> None:
        if not self._in_transaction:
            raise InvalidArgument(
                "job.complete() is for the inside of job.transaction(); elsewhere return the result from the handler"
            )
        self.check_all_called()
        with Noted() as used:
            self._ending = self._job.function.encode_result(result)
        self._used = [(self._job.id, each) for each in used]

    # The rest

    def _begin(self) -> None:
        if self._in_transaction:
            raise InvalidArgument("a job has one transaction at a time: end the one before")
        if self.completed:
            raise InvalidArgument("the job is completed already: nothing can be added to it")
        self._in_transaction = True

    def _fence(self) -> Query[bool]:
        """The last statement of a transaction: it holds the job until the commit, if it is still ours."""
        worker_id, claim = self._job.worker_id, self._job.claim
        if self._ending is _NOTHING:
            return memory_queries.lock_claimed(worker_id, claim)
        return memory_queries.complete_claimed(worker_id, claim, self._ending)

    def _held(self, held: bool) -> None:
        if not held:
            self._job.interrupt(Interrupt.LEASE_LOST)
            raise JobInterrupted(Interrupt.LEASE_LOST)

    def _saving(self, text: str) -> Query[bool]:
        return memory_queries.save_checkpoint(self._job.worker_id, self._job.claim, text)

    def _finished(self, position: int, name: str, result: str | None) -> Query[bool]:
        self._job.check()
        return memory_queries.finish_step(self._job.worker_id, self._job.claim, position, name, result)

    def _load(self) -> None:
        if self._done is None or self._doubtful:
            database = self._app.database
            if self._doubtful:
                # Whatever is still being committed holds the job; wait for it.
                self._held(database.persist(self._settling()))
            self._done, self._doubtful = database.persist(memory_queries.get_steps(self._job.id)), False

    async def _aload(self) -> None:
        async with self._loading:
            if self._done is None or self._doubtful:
                database = self._app.database
                if self._doubtful:
                    self._held(await database.apersist(self._settling()))
                self._done = await database.apersist(memory_queries.get_steps(self._job.id))
                self._doubtful = False

    def _settling(self) -> Query[bool]:
        return memory_queries.lock_claimed(self._job.worker_id, self._job.claim)

    @contextmanager
    def _trying(self, call: "_Call", position: int) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # The same call once more has the same place. Its commit may have happened all the same: look again.
            self._failed.append((call, position))
            self._doubtful = True
            raise

    def _next(
        self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs
    ) -> tuple["_Call", int, bool, Any]:
        """This step, its position, whether it is done, and what came of it then."""
        call = _Call(text_within(name, 200, "step"), function, args, kwargs)
        again = next((each for each in self._failed if each[0].is_same(call)), None)
        if again is not None:
            self._failed.remove(again)
            position = again[1]
        else:
            self._called += 1
            position = self._called
        known = (self._done or {}).get(position)
        if known is None:
            return call, position, False, None
        before_name, text = known
        if before_name != name:
            raise StepsChanged(
                f"step {position} was {before_name!r} in an earlier attempt and is {name!r} now; {_ADVICE}"
            )
        return call, position, True, _decoded(function, text, name)


class _Call(NamedTuple):
    """A step as it was called."""

    name: str
    function: Callable[..., Any]
    args: Args
    kwargs: Kwargs

    def is_same(self, other: "_Call") -> bool:
        try:
            return bool(tuple(self) == tuple(other))
        except Exception:  # arguments that cannot be compared
            return False


class _Result:
    """What a step returned, as every attempt sees it: the first one, too, gets what was written down."""

    def __init__(self, function: Callable[..., Any], returned: Any, limit: int, name: str) -> None:
        value = None if returned is None else _adapter(function).dump_python(returned, mode="json", warnings="error")
        self.text = None if value is None else encode(value, limit, f"the result of step {name}")
        self.value = _decoded(function, self.text, name)


def _decoded(function: Callable[..., Any], text: str | None, name: str) -> Any:
    if text is None:
        return None
    try:
        return _adapter(function).validate_json(text)
    except ValidationError as error:
        raise StepsChanged(
            f"step {name!r} returned something else in an earlier attempt than it promises now: {error}; {_ADVICE}"
        ) from None


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        return _known_adapter(function)
    except TypeError:  # cannot be hashed
        return _known_adapter.__wrapped__(function)


@lru_cache(512)
def _known_adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(get_type_hints(function).get("return", Any))
    except (TypeError, NameError, AttributeError, PydanticUserError):  # a partial, or something that is not JSON
        return TypeAdapter(Any)


_ADVICE = (
    "a job that is tried again has to have the same steps in the same order: put the old code back, "
    "or cancel the job and enqueue it anew"
)
