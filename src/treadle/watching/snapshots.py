"""Snapshots of several jobs until they have finished: one query for all of them, at most every 0.25 s."""

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.watching.streams import Listen, Script, Sleep, Stream, Wait
from treadle.watching.watch import ANY, Watch
from treadle.words.record import RecordedEvent
from treadle.words.snapshot import JobSnapshot, Snapshot

# The least and the longest time between two snapshots.
SPACING_SECONDS = 0.25
WAIT_SECONDS = 1.0
# The newest events of each job that one snapshot contains, at most.
NEWEST = 20
# More than fit on a screen.
RUNNING_LIMIT = 500


def snapshots(
    database: Database,
    watch: Watch,
    ids: Sequence[UUID] | None,
    unavailable: Callable[[bool], None] = lambda _: None,
) -> Stream[Snapshot]:
    """Snapshots of these jobs until all have finished; with None, of all running jobs until none is left."""
    watched = [ANY] if ids is None else ids
    return Stream(database, watch, lambda: _snapshots(ids), watched, WAIT_SECONDS, unavailable)


def _snapshots(ids: Sequence[UUID] | None) -> Script[Snapshot]:
    wanted = ids or ()
    counted: dict[UUID, int] = {}
    while True:
        # Listen before the queries, or what comes in between would be missed.
        yield Listen()
        began = time.monotonic()
        jobs: list[JobSnapshot] = yield snapshot_queries.find_snapshots(wanted, RUNNING_LIMIT if ids is None else 0)
        new = {each.id: counted.get(each.id, 0) for each in jobs if each.events_count > counted.get(each.id, 0)}
        events: list[RecordedEvent] = (yield event_queries.find_newest_events(new, NEWEST)) if new else []
        counted |= {each.id: each.events_count for each in jobs}
        for event in events:  # some may be newer than the count
            counted[event.job_id] = max(counted[event.job_id], event.number or 0)
        yield Snapshot(jobs, events)
        unfinished = [each.id for each in jobs if not each.status.finished]
        if not unfinished:
            return
        if ids is None:
            wanted = unfinished
        yield Wait()
        yield Sleep(max(0.0, began + SPACING_SECONDS - time.monotonic()))
