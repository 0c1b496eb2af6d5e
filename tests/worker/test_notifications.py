"""The notifications that a worker receives, and probes that find out whether they arrive."""

import logging
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, run
from treadle import Treadle
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.worker import notifications
from treadle.worker.worker import Worker


def test_notifications_that_stop_arriving_are_noticed(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(notifications, "ARRIVE_SECONDS", 0.5)
    resets: list[bool] = []

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        monkeypatch.setattr(worker.notifications.listener, "reset", lambda: resets.append(True))
        worker.notifications.listener.received = lambda _: None
        await auntil(lambda: resets)
        assert not worker.receives_notifications

    run(app, body)


def test_notifications_that_never_arrive_are_noticed(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """As through a pooler: LISTEN succeeds and nothing ever arrives."""

    for name in ("ARRIVE_SECONDS", "RECONNECT_SECONDS"):
        monkeypatch.setattr(notifications, name, 0.5)
    real = worker_queries.get_channel
    deaf = True

    def elsewhere(kind: str) -> Query[str]:
        query = real(kind)
        return Query(query.text, query.params, lambda rows: "nobody_talks_here") if deaf else query

    monkeypatch.setattr(worker_queries, "get_channel", elsewhere)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        nonlocal deaf
        app.watch._database  # noqa: B018 - the other listener is polled, too
        handle = await hello.aenqueue()
        assert await handle.aresult(30) == "hello", "it has to poll faster while it cannot hear"
        assert not worker.receives_notifications
        deaf = False
        await auntil(lambda: worker.receives_notifications)

    run(app, body, poll="60s")


def test_only_its_own_probe_shows_that_notifications_arrive(app: Treadle) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        worker.notifications.listener.works = False
        worker.notifications.received("probe somebody-else")
        assert not worker.receives_notifications
        worker.notifications.received(f"probe {worker.worker_id}")
        assert worker.receives_notifications

    run(app, body)


def test_a_worker_knows_which_notification_it_answers(app: Treadle) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        heard = worker.notifications
        heard.received("jobs 5")
        assert heard.answered == 5, "it is alone"
        for nth in range(3):
            heard.peers.hear(f"peer-{nth}", heard.peers.group)
        for number in range(100):
            heard.received(f"jobs {number}")
            # The first in the order looks, and the second checks that it has.
            assert heard.answered == (number if heard.peers.rank(number) < 2 else 0)
            heard.received(f"jobs {number} 1 {heard.peers.group}")
            assert heard.answered == (number if heard.peers.rank(number) < 3 else 0), "the first had no room"
        # All look, or a worker is full without a notification.
        for message in ("", f"jobs 7 all {heard.peers.group}", f"jobs -7 0 {heard.peers.group}"):
            heard.received("jobs 5")
            heard.received(message)
            assert heard.answered is None, message

    run(app, body)


def test_messages_of_others_break_no_listener(
    app: Treadle, connection: Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        assert await (await hello.aenqueue()).aresult(30) == "hello"
        waiting = app.watch.finished(app.queue.enqueue("never"))
        for kind in ("work", "ends"):
            for message in ("cancelled nonsense", "nonsense"):
                connection.execute("select pg_notify(channel(%s), %s)", [kind, message])
        # What comes after them is heard.
        worker.notifications.listener.works = False
        connection.execute("select pg_notify(channel('work'), %s)", [f"probe {worker.worker_id}"])
        await auntil(lambda: worker.receives_notifications)
        app.queue.cancel(next(iter(app.watch.until_finished.futures)))
        await auntil(waiting.done)

    with caplog.at_level(logging.DEBUG, "treadle"):
        run(app, body)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_messages_of_others_are_ignored(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        for kind in ("work", "ends"):
            for message in ("cancelled nonsense", "cancelled", "probe", "nonsense", "\u2603"):
                connection.execute("select pg_notify(channel(%s), %s)", [kind, message])
        for _ in range(3):
            assert await (await hello.aenqueue()).aresult(30) == "hello"
            connection.execute("select pg_notify(channel('ends'), 'nonsense')")

    run(app, body)
