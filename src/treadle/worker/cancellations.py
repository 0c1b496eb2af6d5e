"""Stops jobs that were cancelled. A notification says so, but it may be late, or anybody's: the database is asked."""

import asyncio
from collections.abc import Iterator, Sequence
from uuid import UUID

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.words.job import Claim
from treadle.words.outcome import Interrupt
from treadle.worker.claimer import Claimer
from treadle.worker.running_jobs import RunningJobs


class Cancellations:
    def __init__(self, connection: ReconnectingConnection, claimers: Sequence[Claimer], running: RunningJobs) -> None:
        self._connection = connection
        self._claimers = claimers
        self._running = running
        self._ids: set[UUID] = set()
        self.wake = asyncio.Event()

    def add(self, job_id: UUID) -> None:
        """A notification says that this job was cancelled."""
        self._ids.add(job_id)
        self.wake.set()

    async def check(self) -> None:
        """Stop those of the jobs that this worker has lost."""
        ids, self._ids = self._ids, set()
        claims = [claim for claim in self._claims() if claim.id in ids]
        if not claims:
            return
        lost = await self._connection.run(worker_queries.find_lost_claims(claims))
        for claim in claims:
            if lost.get(claim.id) is False:  # a job that has completed itself may continue
                for claimer in self._claimers:
                    claimer.forget(claim)
                self._running.interrupt(claim, Interrupt.CANCELLED)

    def _claims(self) -> Iterator[Claim]:
        yield from self._running.claims()
        for claimer in self._claimers:
            yield from claimer.claims()
