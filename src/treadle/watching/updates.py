"""What is new of one job, for a page that shows it: its events, and between them how far it is."""

import time
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.snapshots import JobState
from treadle.watching.streams import BATCH, Ask, Pause, Script, Stream
from treadle.words.record import RecordedEvent
from treadle.words.status import FINISHED

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle

# Between two looks, at least: however often a job says how far it is, a page is told a few times a second.
SPACING_SECONDS = 0.25

News: TypeAlias = RecordedEvent | JobState


def job_news(app: "Treadle", job_id: UUID, after: str | None) -> Stream[News]:
    """The job's events after a cursor, in order, and its JobState whenever it changes, until it has finished."""
    position = event_queries.Position.read(after)
    return Stream(app, lambda: _of_job(job_id, position), [job_id], None)


def _of_job(job_id: UUID, position: event_queries.Position) -> Script[News]:
    look = snapshot_queries.get_job_states([job_id])
    told: JobState | None = None
    while True:
        # First listen, then look: what comes in between is not missed.
        yield Ask.LISTEN
        looked = time.monotonic()
        # The look before the events: once it has ended, all of its events are there.
        found: JobState | None = (yield look).get(job_id)
        while batch := (yield event_queries.find_job_events(job_id, position, BATCH)):
            for event in batch:
                position = event_queries.Position.read(event.cursor)
                yield event
        if found is None:
            return
        if told is None or _shown(told) != _shown(found):
            told = found
            yield found
        if found.status in FINISHED:
            return
        yield Ask.WAIT
        yield Pause(max(0.0, looked + SPACING_SECONDS - time.monotonic()))


def _shown(look: JobState) -> tuple[object, ...]:
    return look.status, look.progress, look.stage, look.pace
