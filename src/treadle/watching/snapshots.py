"""How several jobs look, until they have ended: one look for all of them, a few times a second at most."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.watching.streams import Ask, Pause, Script, Stream
from treadle.watching.watch import ANY
from treadle.words.record import RecordedEvent
from treadle.words.snapshot import JobSnapshot, Snapshot

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle

# Between two looks, at least and at most.
SPACING_SECONDS = 0.25
PATIENCE_SECONDS = 1.0
# How many of the newest events of each job are looked up at once.
NEWEST = 20
# As many as fit on no screen.
RUNNING_LIMIT = 500


def snapshots(
    app: "Treadle", ids: Sequence[UUID] | None, away: Callable[[bool], None] = lambda _: None
) -> Stream[Snapshot]:
    """Of these jobs until all have ended; or, for None, of whatever runs, until all that was seen has ended."""
    watched = [ANY] if ids is None else ids
    return Stream(app, lambda: _look(ids), watched, PATIENCE_SECONDS, away)


def _look(ids: Sequence[UUID] | None) -> Script[Snapshot]:
    asked = ids or ()
    counted: dict[UUID, int] = {}
    while True:
        # First listen, then look: what comes in between is not missed.
        yield Ask.LISTEN
        looked = time.monotonic()
        seen: list[JobSnapshot] = yield snapshot_queries.find_snapshots(asked, RUNNING_LIMIT if ids is None else 0)
        told = {each.id: counted.get(each.id, 0) for each in seen if each.events_count > counted.get(each.id, 0)}
        events: list[RecordedEvent] = (yield event_queries.find_newest_events(told, NEWEST)) if told else []
        counted |= {each.id: each.events_count for each in seen}
        for event in events:  # some may have come after the count
            counted[event.job_id] = max(counted[event.job_id], event.number or 0)
        yield Snapshot(seen, events)
        left = [each.id for each in seen if not each.status.finished]
        if not left:
            return
        if ids is None:
            asked = left
        yield Ask.WAIT
        yield Pause(max(0.0, looked + SPACING_SECONDS - time.monotonic()))
