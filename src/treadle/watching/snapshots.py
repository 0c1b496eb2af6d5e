"""Snapshots of several jobs: one query for all of them. Terminals get one at most every 0.25 s until the jobs have
finished; the dashboard reads one a second for all open pages."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.query import Query
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
    seen: dict[UUID, int] = {}
    while True:
        # Listen before the queries, or what comes in between would be missed.
        yield Listen()
        began = time.monotonic()
        snapshot = yield from read_snapshot(wanted, seen, NEWEST, RUNNING_LIMIT if ids is None else 0)
        seen |= {each.id: each.events_count for each in snapshot.jobs}
        for event in snapshot.events:  # some may be newer than the count
            seen[event.job_id] = max(seen[event.job_id], event.number or 0)
        yield snapshot
        unfinished = [each.id for each in snapshot.jobs if not each.status.finished]
        if not unfinished:
            return
        if ids is None:
            wanted = unfinished
        yield Wait()
        yield Sleep(max(0.0, began + SPACING_SECONDS - time.monotonic()))


def read_snapshot(
    ids: Sequence[UUID], seen: Mapping[UUID, int], newest: int, running: int = 0
) -> Generator[Query[Any], Any, Snapshot]:
    """These jobs, and up to `running` that run, with the events after those that were seen: of each job the `newest`.

    The jobs are read before the events: if one has finished, all of its events are there."""
    jobs: list[JobSnapshot] = yield snapshot_queries.find_snapshots(ids, running)
    new = {each.id: seen.get(each.id, 0) for each in jobs if each.events_count > seen.get(each.id, 0)}
    events: list[RecordedEvent] = (yield event_queries.find_newest_events(new, newest)) if new else []
    return Snapshot(jobs, events)
