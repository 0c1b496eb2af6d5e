"""Finds claims that were committed although their reply was lost, and starts their jobs."""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.job import Claim
from treadle.worker.claimer import Claimer
from treadle.worker.completer import Completer
from treadle.worker.running_jobs import RunningJobs
from treadle.worker.services import Delay

RETRY_SECONDS = 1.0


class LostReplies:
    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        claimers: Sequence[Claimer],
        running: RunningJobs,
        completer: Completer,
        may_start: Callable[[], bool],
    ) -> None:
        """The connection is that of the claimers, so that no claim is in progress during its queries."""
        self._connection = connection
        self._worker_id = worker_id
        self._claimers = claimers
        self._running = running
        self._completer = completer
        self._may_start = may_start
        self.wake = asyncio.Event()
        """Set when a reply was lost."""

    async def check(self) -> Delay | None:
        try:
            await self.take_unknown()
        except DatabaseUnavailable:
            return Delay(RETRY_SECONDS)
        return None

    async def take_unknown(self) -> None:
        """Take the jobs that this worker has claimed and does not know.

        It queries twice: a job that finished while the first reply was in transit seems unknown, but is not in the
        second result.
        """
        unknown = {(claim.id, claim.lease) for claim in await self.find_unknown()}
        if unknown and self._may_start():
            for claim in await self.find_unknown():
                for claimer in self._claimers:
                    if (claim.id, claim.lease) in unknown and claim.job_type in claimer.types:
                        claimer.take([claim])

    async def find_unknown(self) -> list[Claim]:
        known = self._known()
        claimed = await self._connection.run(worker_queries.find_claimed(self._worker_id))
        known |= self._known()
        return [claim for claim in claimed if claim.id not in known]

    def _known(self) -> set[UUID]:
        """The jobs that this worker has: ready, running, or finished and not yet written."""
        return self._running.known().union(self._completer.unwritten(), *(each.known() for each in self._claimers))
