"""Live updates of one job, for a page that shows it: its events and, between them, its state."""

import time
from typing import TypeAlias
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.snapshots import JobState
from treadle.watching.streams import BATCH, Listen, Script, Sleep, Stream, Wait
from treadle.watching.watch import Watch
from treadle.words.record import RecordedEvent
from treadle.words.status import FINISHED

# The least time between two updates, however often the job reports its progress.
SPACING_SECONDS = 0.25

Update: TypeAlias = RecordedEvent | JobState


def job_updates(database: Database, watch: Watch, job_id: UUID, after: str | None) -> Stream[Update]:
    """The job's events after a cursor, in order, and its JobState whenever it changes, until it has finished."""
    position = event_queries.Position.read(after)
    return Stream(database, watch, lambda: _job_updates(job_id, position), [job_id], None)


def _job_updates(job_id: UUID, position: event_queries.Position) -> Script[Update]:
    states = snapshot_queries.get_job_states([job_id])
    sent: JobState | None = None
    while True:
        # Listen before the queries, or what comes in between would be missed.
        yield Listen()
        began = time.monotonic()
        # The state is read before the events: if the job has finished, all of its events are there.
        state: JobState | None = (yield states).get(job_id)
        while batch := (yield event_queries.find_job_events(job_id, position, BATCH)):
            for event in batch:
                position = event_queries.Position.read(event.cursor)
                yield event
        if state is None:
            return
        if sent is None or _shown(sent) != _shown(state):
            sent = state
            yield state
        if state.status in FINISHED:
            return
        yield Wait()
        yield Sleep(max(0.0, began + SPACING_SECONDS - time.monotonic()))


def _shown(state: JobState) -> tuple[object, ...]:
    return state.status, state.progress, state.stage, state.pace
