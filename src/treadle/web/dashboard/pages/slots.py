"""The map of slots: a row for each worker, a cell for each slot."""

from typing import NamedTuple

from treadle.db.queries.dashboard import MAX_DRAWN, ClaimedJob
from treadle.operations.slots import SlotMap, WorkerSlots

# With more slots than this, cells have no text.
MAX_LABELLED = 60
# With free slots, of all workers together. Workers after that are shown by numbers.
MAX_CELLS = MAX_DRAWN
MAX_ROWS = 100
# The states of workers that run jobs, or would if there were any.
WELL = ("alive", "asleep")


class SlotRow(NamedTuple):
    worker: WorkerSlots
    cells: list[ClaimedJob]
    """Empty if there are too many: then only numbers are shown."""
    free: int
    """Free slots that are drawn."""
    hidden: int
    """Slots that are not drawn."""
    summary: str
    """For screen readers, and where there are no cells."""


class DrawnSlots(NamedTuple):
    rows: list[SlotRow]
    labelled: bool
    more: int
    """Workers that are not listed."""


def draw_slots(found: SlotMap) -> DrawnSlots:
    left = MAX_CELLS
    rows = []
    # Those that are stuck or lost first: they are what somebody looks for.
    for each in sorted(found.workers, key=lambda each: (each.worker.state in WELL, each.worker.worker_id))[:MAX_ROWS]:
        cells = each.slots[:left]
        left -= len(cells)
        free = min(each.free, left)
        left -= free
        hidden = each.in_use + each.free - len(cells) - free
        rows.append(SlotRow(each, cells, free, hidden, _summary(each)))
    total = sum(each.in_use + each.free for each in found.workers)
    return DrawnSlots(rows, total <= MAX_LABELLED, max(0, len(found.workers) - MAX_ROWS))


def _summary(each: WorkerSlots) -> str:
    parts = [f"{each.running} running"]
    if each.starting:
        parts.append(f"{each.starting} starting")
    if each.capacity is not None and each.worker.state in WELL:
        parts.append(f"{each.free} free")
    if each.ahead:
        parts.append(f"{each.ahead} prefetched")
    return ", ".join(parts)
