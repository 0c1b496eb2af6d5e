"""The stream of the events of all jobs: each event comes once, however late it is committed."""

import itertools
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import one
from treadle import InvalidArgument, JobQueue, RecordedEvent, Treadle
from treadle.db.queries import events as event_queries
from treadle.words.job import Claim
from treadle.words.record import OutgoingEvent


def first_events(app: Treadle, number: int, **options: Any) -> list[RecordedEvent]:
    """The first events of the stream. It follows, because transactions of other tests may delay the events."""
    return list(itertools.islice(app.events(**options), number))


def test_all_events_can_be_followed(app: Treadle, queue: JobQueue) -> None:
    for job_type in ("a", "b", "a", "c"):
        queue.event(queue.enqueue(job_type), f"of {job_type}")
    events = first_events(app, 4)
    assert [event.name for event in events] == ["of a", "of b", "of a", "of c"]
    assert [event.name for event in first_events(app, 2, types=["b", "c"])] == ["of b", "of c"]
    assert [event.name for event in first_events(app, 3, names=["of a", "of c"])] == ["of a", "of a", "of c"]
    assert first_events(app, 3, after=events[0].cursor) == events[1:]
    assert list(app.events(after=events[-1].cursor, follow=False)) == []


@pytest.mark.parametrize("after", ["x", "1.2.3", 7])
def test_an_invalid_cursor_is_refused(app: Treadle, after: Any) -> None:
    with pytest.raises(InvalidArgument, match="cursor"):
        app.events(after=after)


def test_a_single_text_is_refused_as_a_list_of_types(app: Treadle) -> None:
    with pytest.raises(InvalidArgument, match="list of strings"):
        app.events(types="a")


def test_a_late_commit_is_not_skipped(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    """The first event is committed after the second: the reader waits for the first instead of skipping it."""
    early, late = queue.enqueue("a"), queue.enqueue("a")
    slow = connect(autocommit=False)
    slow.execute("select record_event(%s, 'first')", [early])
    queue.event(late, "second")
    assert list(app.events(follow=False)) == []
    slow.commit()
    assert [event.name for event in first_events(app, 2)] == ["first", "second"]


def test_events_with_other_names_are_skipped(app: Treadle, queue: JobQueue) -> None:
    """A page full of other events does not stop the reader."""
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    claim = Claim(job.id, job.lease, "a", "{}", 1, 3, 0, "default", 100, None, None, 0.0)
    lines = [OutgoingEvent(n, 0.0, "noise", "{}") for n in range(1, 2501)]
    app.database.run(event_queries.record_events(queue.worker_id, [(claim, lines)], 0.0))
    queue.event(job_id, "signal")
    assert [event.name for event in first_events(app, 1, names=["signal"])] == ["signal"]


def test_events_are_removed_with_their_job(queue: JobQueue, connection: Connection[Any]) -> None:
    for _ in range(2):
        queue.event(queue.enqueue("a"), "one")
    jobs = queue.claim(["a"])
    queue.complete(jobs[0])
    assert queue.prune("completed", 0) == 1
    assert one(connection, "select array_agg(job_id) from events") == [jobs[1].id]
