"""What runs in each slot of each live worker."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from treadle.db.queries.dashboard import MAX_CLAIMED, ClaimedJob
from treadle.words.overview import WorkerRow


class WorkerSlots(NamedTuple):
    worker: WorkerRow
    running: int
    starting: int
    """Slots whose job was claimed, and has not reported that it runs."""
    slots: list[ClaimedJob]
    """The first of those in use; the longest first."""
    capacity: int | None
    """None: it has not reported how many it has."""
    ahead: int
    """Jobs that it has prefetched, and that have no slot yet."""

    @property
    def in_use(self) -> int:
        return self.running + self.starting

    @property
    def free(self) -> int:
        """A worker that is stuck or lost starts nothing."""
        return max(0, (self.capacity or 0) - self.in_use) if self.worker.state == "alive" else 0


class SlotMap(NamedTuple):
    workers: list[WorkerSlots]
    running: int
    claimed: int
    capacity: int
    complete: bool
    """False: more jobs are claimed than were counted."""


def make_slot_map(workers: Sequence[WorkerRow], claimed: Sequence[ClaimedJob]) -> SlotMap:
    """Of the jobs, those of a worker are together."""
    jobs = {worker_id: list(some) for worker_id, some in groupby(claimed, lambda each: each.worker_id)}
    # A worker that is lost is shown as long as it has jobs: they have not been given to others yet.
    shown = [each for each in workers if each.alive or each.worker_id in jobs]
    made = [_worker_slots(each, jobs.get(each.worker_id, [])) for each in shown]
    running = sum(some[0].all_running for some in jobs.values())
    counted = sum(some[0].all_claimed for some in jobs.values())
    return SlotMap(
        made,
        running,
        counted - running,
        sum(each.capacity or 0 for each in made if each.worker.alive),
        counted <= MAX_CLAIMED,
    )


def _worker_slots(worker: WorkerRow, jobs: list[ClaimedJob]) -> WorkerSlots:
    capacity = worker.slots
    running, claimed = (jobs[0].all_running, jobs[0].all_claimed) if jobs else (0, 0)
    in_use = claimed if capacity is None else max(running, min(claimed, capacity))
    return WorkerSlots(worker, running, in_use - running, jobs[:in_use], capacity, claimed - in_use)
