"""What some worker has to do now and then, so that nobody needs to. Each is harmless when two do it at once: the SQL
functions let one at a time, and the others find nothing left to do."""

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from treadle.app.listeners import Listeners
from treadle.db.queries import jobs, stored
from treadle.db.queries import operations as operate
from treadle.db.queries import worker as work
from treadle.db.reconnecting import Line
from treadle.store.places import remove_files
from treadle.words import events
from treadle.words.duration import Duration
from treadle.words.status import Status

PRUNE_BATCH = 2000
PRUNE_SECONDS = 5.0
SWEEP_BATCH = 100


async def move_floors(line: Line) -> int:
    return await line.run(jobs.tick())


async def recover_lost(line: Line, crash_limit: int, listeners: Listeners) -> int:
    """Give back what workers hold that went silent."""
    recovered = await line.run(work.recover_lost(crash_limit))
    for each in recovered:
        listeners.emit(events.JobRecovered(each.id, each.job_type, each.worker_id, each.status))
    return len(recovered)


async def prune(line: Line, keep: Mapping[Status, Duration | None]) -> int:
    """Delete ended jobs that were kept long enough: in batches, for a few seconds at a time."""
    total, end = 0, time.monotonic() + PRUNE_SECONDS
    for status, age in keep.items():
        reached: datetime | None = None
        while age is not None and time.monotonic() < end:
            pruned, reached = await line.run(jobs.prune(status, age, PRUNE_BATCH, reached))
            total += pruned
            if pruned < PRUNE_BATCH:
                break
    return total


async def count(line: Line) -> int:
    """Count what has ended lately, for charts."""
    return await line.run(operate.count_minutes())


async def sweep(line: Line, grace: timedelta) -> int:
    """Remove what is stored and used by no job: in batches, for a few seconds at a time."""
    total, end = 0, time.monotonic() + PRUNE_SECONDS
    while time.monotonic() < end:
        swept = await line.run(stored.sweep(grace, SWEEP_BATCH))
        total += swept.removed
        if swept.files:
            gone = await asyncio.to_thread(remove_files, swept.files)
            total += await line.run(stored.forget(gone))
        if not swept.more:
            break
    return total
