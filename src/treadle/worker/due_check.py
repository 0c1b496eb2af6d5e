"""Asks when the next job is due, in one query for all claimers of a worker that want to know at the same time."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection

CONCURRENCY_SECONDS = 1.0
"""How often a worker that claims asks what an operator has set for it."""


class DueCheck:
    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        queues: Sequence[str] | None,
        sure: bool,
        concurrency: Callable[[int | None], None] = lambda _: None,
        answered: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`concurrency` is told what an operator has set for the worker: each reply says it. `answered` says which
        notification this worker answers: see Notifications."""
        self._worker_id = worker_id
        self._concurrency = concurrency
        self.answered = answered
        self._checked_at = -CONCURRENCY_SECONDS
        self._connection = connection
        self._queues = queues
        self._sure = sure
        self._claims = 0
        self._asking: list[tuple[Sequence[str], asyncio.Future[float | None]]] = []
        self._answers: set[asyncio.Task[None]] = set()

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """While a claim runs, a check waits: it would have to wait for the connection anyway, and the claimer may ask,
        too, when its claim has ended."""
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            if self._asking:
                # Even if another claim has begun by then: there may be one after the other.
                asyncio.get_running_loop().call_soon(self._answer_all)

    def is_recent(self) -> bool:
        return time.monotonic() - self._checked_at < CONCURRENCY_SECONDS

    async def next_due(self, types: Sequence[str]) -> float | None:
        """Seconds until a job of these types is due; if others ask as well and no job is due yet, of theirs, too."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[float | None] = loop.create_future()
        self._asking.append((types, answer))
        if not self._claims:
            loop.call_soon(self._answer_all)
        return await answer

    def _answer_all(self) -> None:
        if self._asking:
            asking, self._asking = self._asking, []
            task = asyncio.get_running_loop().create_task(self._answer(asking))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    async def _answer(self, asking: list[tuple[Sequence[str], asyncio.Future[float | None]]]) -> None:
        try:
            found = await self._query([name for types, _ in asking for name in types])
            if len(asking) == 1 or found is None or found > 0:
                for _, answer in asking:
                    if not answer.done():
                        answer.set_result(found)
                return
            # Which of them it is for decides who claims.
            for types, answer in asking:
                found = await self._query(types)
                if not answer.done():
                    answer.set_result(found)
        except Exception as error:
            for _, answer in asking:
                if not answer.done():
                    answer.set_exception(error)

    async def _query(self, types: Sequence[str]) -> float | None:
        query = worker_queries.next_due(self._worker_id, types, self._queues, self._sure, self.answered())
        due = await self._connection.run(query)
        self._checked_at = time.monotonic()
        self._concurrency(due.concurrency)
        return due.seconds
