"""What runs in each slot of each live worker."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.db.queries.dashboard import MAX_CLAIMED, ClaimedJob
from treadle.words.overview import WorkerRow


class Slot(NamedTuple):
    """A job in a slot."""

    id: UUID
    job_type: str
    running: bool
    """False: it was claimed, and has not reported that it runs. Jobs of less than 0.2 s never do."""
    since: datetime | None


class WorkerSlots(NamedTuple):
    worker: WorkerRow
    slots: list[Slot]
    """Those in use; the longest first."""
    capacity: int | None
    """None: it has not reported how many it has."""
    ahead: int
    """Jobs that it has prefetched, and that have no slot yet."""

    @property
    def free(self) -> int:
        """A worker that is stuck or lost starts nothing."""
        return max(0, (self.capacity or 0) - len(self.slots)) if self.worker.state == "alive" else 0


class SlotMap(NamedTuple):
    workers: list[WorkerSlots]
    running: int
    claimed: int
    capacity: int
    complete: bool
    """False: more jobs are claimed than were read."""


def make_slot_map(workers: Sequence[WorkerRow], claimed: Sequence[ClaimedJob]) -> SlotMap:
    jobs: dict[str, list[ClaimedJob]] = {}
    for each in claimed[:MAX_CLAIMED]:
        jobs.setdefault(each.worker_id, []).append(each)
    # A worker that is lost is shown as long as it has jobs: they have not been given to others yet.
    shown = [each for each in workers if each.alive or each.worker_id in jobs]
    made = [_worker_slots(each, jobs.get(each.worker_id, [])) for each in shown]
    running = sum(each.status == "running" for each in claimed)
    return SlotMap(
        made,
        running,
        len(claimed) - running,
        sum(each.capacity or 0 for each in made if each.worker.alive),
        len(claimed) <= MAX_CLAIMED,
    )


def _worker_slots(worker: WorkerRow, jobs: Sequence[ClaimedJob]) -> WorkerSlots:
    capacity = worker.slots
    slots = [
        Slot(each.id, each.job_type, each.status == "running", each.started_at or each.claimed_at) for each in jobs
    ]
    # In this order a job keeps its place while others end: those that have run for the longest time come first.
    slots.sort(key=lambda each: (not each.running, each.since is None, each.since, each.id))
    running = sum(each.running for each in slots)
    in_use = len(slots) if capacity is None else max(running, min(len(slots), capacity))
    return WorkerSlots(worker, slots[:in_use], capacity, len(slots) - in_use)
