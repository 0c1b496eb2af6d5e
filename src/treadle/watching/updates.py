"""The events of a job, with or without its state whenever it changes, until it has finished."""

import time
from collections.abc import Generator
from typing import Any, TypeAlias
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.events import Position
from treadle.db.queries.snapshots import JobState
from treadle.db.query import Query
from treadle.watching.streams import BATCH, Listen, Script, Sleep, Stream, Wait
from treadle.watching.watch import Watch
from treadle.words.errors import JobNotFound
from treadle.words.record import RecordedEvent
from treadle.words.status import FINISHED

# The least time between two states, however often the job reports its progress.
SPACING_SECONDS = 0.25

Update: TypeAlias = RecordedEvent | JobState


def job_events(
    database: Database, watch: Watch, job_id: UUID, after: int | str | None = None, follow: bool = True
) -> Stream[RecordedEvent]:
    """The events and transitions of a job after a position; with `follow` also those to come, until it has finished."""
    position = Position.read(after)
    # Without a time limit: the watch also polls, so that a lost notification costs 0.5 s.
    return Stream(database, watch, lambda: _job_events(job_id, position, follow), [job_id], None)


def job_updates(database: Database, watch: Watch, job_id: UUID, after: str | None) -> Stream[Update]:
    """The job's events after a cursor, in order, and its JobState whenever it changes, until it has finished."""
    position = Position.read(after)
    return Stream(database, watch, lambda: _job_updates(job_id, position), [job_id], None)


def _job_events(job_id: UUID, position: Position, follow: bool) -> Script[Any]:
    if not (yield snapshot_queries.get_job_states([job_id])):
        raise JobNotFound(job_id)
    if follow:
        yield from _job_updates(job_id, position, with_states=False)
    else:
        yield from _stored_events(job_id, position)


def _job_updates(job_id: UUID, position: Position, *, with_states: bool = True) -> Script[Update]:
    states = snapshot_queries.get_job_states([job_id])
    sent: JobState | None = None
    while True:
        # Listen before the queries, or what comes in between would be missed.
        yield Listen()
        began = time.monotonic()
        # The state is read before the events: if the job has finished, all of its events are there.
        state: JobState | None = (yield states).get(job_id)
        position = yield from _stored_events(job_id, position)
        if state is None:
            return
        if with_states and (sent is None or _shown(sent) != _shown(state)):
            sent = state
            yield state
        if state.status in FINISHED:
            return
        yield Wait()
        if with_states:
            yield Sleep(max(0.0, began + SPACING_SECONDS - time.monotonic()))


def _stored_events(job_id: UUID, position: Position) -> Generator[Query[Any] | RecordedEvent, Any, Position]:
    """Returns the position of the last one."""
    while batch := (yield event_queries.find_job_events(job_id, position, BATCH)):
        for event in batch:
            position = Position.read(event.cursor)
            yield event
    return position


def _shown(state: JobState) -> tuple[object, ...]:
    return state.status, state.progress, state.stage, state.pace
