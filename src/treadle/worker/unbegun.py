"""Notices, from another process, that a worker has claimed jobs and does not begin them although it has room.

Then a part of it has failed in a way that nobody has foreseen. Jobs that wait behind others, or for a child process,
are no sign of that.
"""

from uuid import UUID

from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots, State
from treadle.worker.pulse import Kind, Stuck

CHECK_SECONDS = 2.0
# A job that was claimed so long ago, while no other began, is looked at again: it is reported after five seconds.
SUSPECTED_SECONDS = 3.0


class ClaimWatch:
    """Watches the jobs that one worker has claimed."""

    def __init__(self, worker_id: str, slots: JobSlots) -> None:
        self._worker_id = worker_id
        self._slots = slots
        self._suspected: UUID | None = None
        self.stuck: Stuck | None = None

    async def check(self, connection: ReconnectingConnection) -> bool:
        """Returns whether `stuck` has changed. While jobs begin, it sends no statement."""
        before, oldest = self.stuck, None
        if not self._slots.asleep and now() - self._slots.begun_at >= SUSPECTED_SECONDS:
            oldest = await connection.run(self._find())
        if oldest is None:
            self.stuck = self._suspected = None
        elif self._suspected == oldest.id and (self.stuck is None or self.stuck.job != oldest.id):
            self.stuck = Stuck(Kind.UNBEGUN, now() - oldest.seconds, oldest.id)
        if oldest is not None:
            self._suspected = oldest.id
        return self.stuck != before

    def _find(self) -> Query[worker_queries.Unbegun | None]:
        entries = self._slots.all_entries()
        here = [each for each in entries if each.state is State.RUNNING and not each.process]
        ended = [each for each in entries if each.state is State.ENDED]
        in_children = len(entries) - len(here) - len(ended)
        begun = [each.id for each in entries]
        return worker_queries.find_unbegun(self._worker_id, begun, len(here), in_children, SUSPECTED_SECONDS)
