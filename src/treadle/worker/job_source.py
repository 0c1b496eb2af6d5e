"""Where the claimers of a worker get jobs: the statements that claim them, and that ask when the next one is due."""

import time
from collections.abc import Callable, Sequence

from treadle.db.queries import worker as worker_queries
from treadle.db.queries.worker import Claimed
from treadle.db.query import Query, Result
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.jobs.listeners import Listeners
from treadle.words import events
from treadle.words.job import Claim

CONCURRENCY_SECONDS = 1.0
"""How often a worker that claims asks what an operator has set for it."""


class JobSource:
    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        queues: Sequence[str] | None,
        listeners: Listeners,
        *,
        drain: bool = False,
        unavailable: Callable[[DatabaseUnavailable | None], None] = lambda _: None,
        reply_lost: Callable[[], None] = lambda: None,
        concurrency: Callable[[int | None], None] = lambda _: None,
        answered: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`unavailable` is called after each statement: with the error, or None. `concurrency` is told what an operator
        has set for the worker: each check says it. `answered` says which notification this worker answers: see
        Notifications."""
        self.connection = connection
        self.drain = drain
        self._worker_id = worker_id
        self._queues = queues
        self._listeners = listeners
        self._unavailable = unavailable
        self._reply_lost = reply_lost
        self._concurrency = concurrency
        self._answered = answered
        self._checked_at = -CONCURRENCY_SECONDS

    @property
    def may_listen(self) -> bool:
        """Whether a claim can say when the next job is due. What else a check is for is done once a second; and a
        worker that drains wants to be sure."""
        return not self.drain and time.monotonic() - self._checked_at < CONCURRENCY_SECONDS

    async def claim(self, types: Sequence[str], number: int, listen: bool) -> Claimed:
        try:
            return await self._run(
                worker_queries.claim(
                    self._worker_id, types, number, self._queues, listen=listen, answered=self._answered()
                )
            )
        except DatabaseUnavailable:
            # The claim may have been carried out.
            self._reply_lost()
            raise

    async def next_due(self, types: Sequence[str]) -> float | None:
        """Seconds until a job of these types is due; None: there is none."""
        due = await self._run(
            worker_queries.next_due(self._worker_id, types, self._queues, self.drain, self._answered())
        )
        self._checked_at = time.monotonic()
        self._concurrency(due.concurrency)
        return due.seconds

    async def is_child_free_elsewhere(self, claims: Sequence[Claim]) -> bool:
        """Whether another worker could start one of these jobs in a child process."""
        return await self._run(worker_queries.is_child_free_elsewhere(self._worker_id, claims))

    def announce(self, claims: Sequence[Claim]) -> None:
        """Tell the listeners that this worker has claimed these jobs."""
        if self._listeners.wants(events.JobClaimed):
            for claim in claims:
                self._listeners.emit(events.about(claim, self._worker_id, events.JobClaimed))

    async def _run(self, query: Query[Result]) -> Result:
        try:
            result = await self.connection.run(query)
        except DatabaseUnavailable as error:
            self._unavailable(error)
            raise
        self._unavailable(None)
        return result
