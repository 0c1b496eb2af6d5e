"""A handler's transactions on the application's database, which commit only while the job is still claimed.

With job.complete(), the transaction also completes the job.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

from treadle.attempt.environment import Environment
from treadle.db.database import AsyncTransaction, Transaction
from treadle.db.queries import memory as memory_queries
from treadle.db.queries import stored as stored_queries
from treadle.db.query import Query
from treadle.words.errors import InvalidArgument
from treadle.words.job import Claim
from treadle.words.stored import Noted
from treadle.words.work import Replacement

_NOTHING = object()


class Transactions:
    def __init__(
        self,
        claim: Claim,
        environment: Environment,
        check: Callable[[], None],
        require_accepted: Callable[[bool], None],
        check_steps: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        self._claim = claim
        self._environment = environment
        self._database = environment.database
        self._check = check
        self._require_accepted = require_accepted
        self._check_steps = check_steps
        self._flush = flush
        self._is_open = False
        # The result to commit with the open transaction: JSON, or None for no result.
        self._result: Any = _NOTHING
        self._used: list[tuple[UUID, UUID]] = []
        self.completed = False

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self._begin()
        try:
            with self._database.transaction() as connection:
                yield connection
                self._check()
                if self._result is not _NOTHING:
                    self._flush()  # once the job is completed, nothing more of it is accepted
                if self._used:
                    self._database.run_in(connection, stored_queries.use(self._used))
                self._require_accepted(self._database.run_in(connection, self._fence()))
            self.completed = self._result is not _NOTHING
        finally:
            self._end()

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncTransaction]:
        self._begin()
        try:
            async with self._database.atransaction() as connection:
                yield connection
                self._check()
                if self._result is not _NOTHING:
                    await asyncio.to_thread(self._flush)
                if self._used:
                    await self._database.arun_in(connection, stored_queries.use(self._used))
                self._require_accepted(await self._database.arun_in(connection, self._fence()))
            self.completed = self._result is not _NOTHING
        finally:
            self._end()

    def complete(self, result: Any) -> None:
        if not self._is_open:
            raise InvalidArgument(
                "job.complete() works only inside job.transaction(); elsewhere return the result from the handler"
            )
        if isinstance(result, Replacement):
            raise InvalidArgument("job.complete() needs a result: return job.replace_with(…) from the handler instead")
        self._check_steps()
        with Noted() as used:
            self._result = self._environment.encode_result(result)
        self._used = [(self._claim.id, each) for each in used]

    def _begin(self) -> None:
        if self._is_open:
            raise InvalidArgument("a job can have only one transaction at a time; end the open one first")
        if self.completed:
            raise InvalidArgument("the job is already completed, so it cannot have another transaction")
        self._is_open = True

    def _end(self) -> None:
        self._is_open, self._result, self._used = False, _NOTHING, []

    def _fence(self) -> Query[bool]:
        """The last statement of a transaction: locks the job until the commit, if it is still claimed."""
        worker_id, claim = self._environment.worker_id, self._claim
        if self._result is _NOTHING:
            return memory_queries.lock_claimed(worker_id, claim)
        return memory_queries.complete_claimed(worker_id, claim, self._result)
