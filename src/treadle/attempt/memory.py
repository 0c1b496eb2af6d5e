"""What a job keeps for its next attempt: its checkpoint, and the results of its finished steps.

Every write is fenced by the claim: a handler that has lost its job is interrupted, and nothing is written. Statements
run on the application's connections, never on those of the worker.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pydantic_core import from_json

from treadle.attempt.environment import Environment
from treadle.attempt.step_results import ADVICE, StepResult, decode_result
from treadle.db.queries import memory as memory_queries
from treadle.db.query import Query
from treadle.words.errors import StepsChanged
from treadle.words.job import Claim
from treadle.words.naming import text_within
from treadle.words.payload import Json, encode

# A function's arguments, as they were given.
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
_NOT_LOADED = object()


class Memory:
    def __init__(
        self,
        claim: Claim,
        environment: Environment,
        check: Callable[[], None],
        require_accepted: Callable[[bool], None],
    ) -> None:
        self._claim = claim
        self._worker_id = environment.worker_id
        self._database = environment.database
        self._limit = environment.payload_limit
        self._check = check
        self._require_accepted = require_accepted
        self._checkpoint: Any = _NOT_LOADED
        self._finished: dict[int, tuple[str, str | None]] | None = None  # by position; None before it is loaded
        self._called = 0
        self._failed: list[tuple[_Call, int]] = []  # steps that raised in this attempt, and their positions
        self._stale = False  # a step failed, but its commit may have happened
        self._loading = asyncio.Lock()

    # The checkpoint

    @property
    def checkpoint(self) -> Any:
        if self._checkpoint is _NOT_LOADED:
            text = self._claim.checkpoint
            self._checkpoint = None if text is None else from_json(text)
        return self._checkpoint

    def save(self, state: Json) -> None:
        text = encode(state, self._limit, "checkpoint")
        self._require_accepted(self._database.persist(self._save(text)))
        self._checkpoint = from_json(text)

    async def asave(self, state: Json) -> None:
        text = encode(state, self._limit, "checkpoint")
        self._require_accepted(await self._database.apersist(self._save(text)))
        self._checkpoint = from_json(text)

    # Steps

    def step(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        self._load()
        call, position, found, value = self._next(name, function, args, kwargs)
        if found:
            return value
        with self._trying(call, position):
            result = StepResult(function, function(*args, **kwargs), self._limit, name)
            self._require_accepted(self._database.persist(self._finish(position, name, result.text)))
        return result.value

    async def astep(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        await self._aload()
        call, position, found, value = self._next(name, function, args, kwargs)
        if found:
            return value
        with self._trying(call, position):
            if inspect.iscoroutinefunction(function):
                returned = await function(*args, **kwargs)
            else:
                returned = await asyncio.to_thread(function, *args, **kwargs)
            result = StepResult(function, returned, self._limit, name)
            self._require_accepted(await self._database.apersist(self._finish(position, name, result.text)))
        return result.value

    def transact(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        self._load()
        call, position, found, value = self._next(name, function, args, kwargs)
        if found:
            return value
        with self._trying(call, position), self._database.transaction() as connection:
            result = StepResult(function, function(connection, *args, **kwargs), self._limit, name)
            self._require_accepted(self._database.run_in(connection, self._finish(position, name, result.text)))
        return result.value

    async def atransact(self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        await self._aload()
        call, position, found, value = self._next(name, function, args, kwargs)
        if found:
            return value
        with self._trying(call, position):
            async with self._database.atransaction() as connection:
                returned = await function(connection, *args, **kwargs)
                result = StepResult(function, returned, self._limit, name)
                finish = self._finish(position, name, result.text)
                self._require_accepted(await self._database.arun_in(connection, finish))
        return result.value

    def check_all_called(self) -> None:
        for position, (name, _) in (self._finished or {}).items():
            if position > self._called:
                raise StepsChanged(
                    f"step {position} of an earlier attempt, {name!r}, was not called in this one; {ADVICE}"
                )

    def _load(self) -> None:
        """Read which steps are finished: at the first step, and again after one has failed."""
        if self._finished is None or self._stale:
            if self._stale:
                # A commit that is still under way has locked the job: this waits for it.
                self._require_accepted(self._database.persist(self._lock()))
            self._finished = self._database.persist(memory_queries.get_steps(self._claim.id))
            self._stale = False

    async def _aload(self) -> None:
        async with self._loading:
            if self._finished is None or self._stale:
                if self._stale:
                    self._require_accepted(await self._database.apersist(self._lock()))
                self._finished = await self._database.apersist(memory_queries.get_steps(self._claim.id))
                self._stale = False

    @contextmanager
    def _trying(self, call: "_Call", position: int) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # If the handler makes the same call again, it has the same position. Its commit may have happened although
            # it raised, so the finished steps have to be read again.
            self._failed.append((call, position))
            self._stale = True
            raise

    def _next(
        self, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs
    ) -> tuple["_Call", int, bool, Any]:
        """This call, its position, whether an earlier attempt has finished it, and its result then."""
        call = _Call(text_within(name, 200, "step"), function, args, kwargs)
        again = next((each for each in self._failed if each[0].is_same(call)), None)
        if again is not None:
            self._failed.remove(again)
            position = again[1]
        else:
            self._called += 1
            position = self._called
        known = (self._finished or {}).get(position)
        if known is None:
            return call, position, False, None
        known_name, text = known
        if known_name != name:
            raise StepsChanged(
                f"step {position} was {known_name!r} in an earlier attempt and is {name!r} now; {ADVICE}"
            )
        return call, position, True, decode_result(function, text, name)

    # Queries

    def _save(self, text: str) -> Query[bool]:
        return memory_queries.save_checkpoint(self._worker_id, self._claim, text)

    def _finish(self, position: int, name: str, result: str | None) -> Query[bool]:
        self._check()
        return memory_queries.finish_step(self._worker_id, self._claim, position, name, result)

    def _lock(self) -> Query[bool]:
        return memory_queries.lock_claimed(self._worker_id, self._claim)


class _Call(NamedTuple):
    name: str
    function: Callable[..., Any]
    args: Args
    kwargs: Kwargs

    def is_same(self, other: "_Call") -> bool:
        try:
            return bool(tuple(self) == tuple(other))
        except Exception:  # arguments that cannot be compared
            return False
