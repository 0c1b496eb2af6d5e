"""What wakes a worker: a notification, a timer, a poll."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.workers import auntil, auntil_resting, one, run
from treadle import Treadle
from treadle.worker import Worker, intake


def test_a_job_for_later_starts_by_a_timer(app: Treadle) -> None:
    """With a poll of a minute, only a timer can do it."""

    @app.job
    async def late() -> float:
        return time.time()

    async def body(worker: Worker) -> None:
        due = datetime.now(UTC) + timedelta(seconds=1.2)
        handles = [await late.using(delay=0.6).aenqueue(), await late.using(run_at=due).aenqueue()]
        for handle in handles:
            started = await handle.aresult(30)
            row = await handle.ajob()
            # Bounds for a busy machine; the benchmark has the figures.
            assert 0 <= started - row.run_at.timestamp() < 10

    run(app, body, poll="60s")


def test_a_job_is_picked_up_by_a_notification(app: Treadle) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(30) == "hello"
        for _ in range(20):
            await auntil_resting(worker)
            assert await (await hello.aenqueue()).aresult(30) == "hello"

    run(app, body, poll="60s")


def test_who_commits_just_after_the_bell_was_answered_is_found(
    app: Treadle, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that saw that somebody else had just rung, it does not ring itself."""
    monkeypatch.setattr(intake, "LOOK_AGAIN", (4.0, 1.0))

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        connection, late = connect(), connect(autocommit=False)
        await auntil(lambda: worker.hears)
        await auntil_resting(worker)
        late.execute("set local treadle.notify = off")
        late.execute("select enqueue('hello')")
        connection.execute("select setval('wake_clock', 1), pg_notify(channel('work'), '')")
        await auntil(lambda: one(connection, "select last_value = 0 from wake_clock"))
        await auntil_resting(worker)
        late.commit()
        await auntil(lambda: one(connection, "select status = 'completed' from jobs"))

    run(app, body, poll="10m")


def test_polling_alone_is_enough(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(30) == "hello"
        names = connection.execute(
            "select query from pg_stat_activity where datname = current_database() and query ilike 'listen%%work%%'"
        ).fetchall()
        assert names == []

    run(app, body, poll="50ms", listen=False)


def test_a_deaf_listener_is_noticed(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a pooler: LISTEN succeeds and nothing ever arrives."""
    from treadle.db import work
    from treadle.db.query import Query

    real = work.channel
    deaf = True

    def elsewhere(schema: str, kind: str) -> Query[str]:
        query = real(schema, kind)
        return Query(query.text, query.params, lambda rows: "nobody_talks_here") if deaf else query

    monkeypatch.setattr(work, "channel", elsewhere)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        nonlocal deaf
        app.watch._database  # noqa: B018 - the other listener is polled, too
        handle = await hello.aenqueue()
        assert await handle.aresult(30) == "hello", "it has to poll faster while it cannot hear"
        assert not worker.hears
        deaf = False
        await auntil(lambda: worker.hears)

    run(app, body, poll="60s")
