"""Jobs that a live worker has claimed and does not begin: who notices, what people see, and what is no sign of it."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.doctor import get_finding
from tests.support.workers import auntil, one, run
from treadle import JobQueue, Treadle
from treadle.cli.stats import worker_row
from treadle.db.reconnecting import ReconnectingConnection
from treadle.doctor import Severity
from treadle.operations.metrics import exposition, metrics
from treadle.operations.overview import overview
from treadle.operations.verdict import VerdictReader
from treadle.why.explain import why
from treadle.worker import unbegun
from treadle.worker.job_slots import JobSlots, State
from treadle.worker.keeper import Keeper
from treadle.worker.pulse import Kind, Stuck
from treadle.worker.unbegun import ClaimWatch
from treadle.worker.worker import Worker

Change = Callable[[Connection[Any], JobSlots, list[UUID]], Any]


def claim(connection: Connection[Any], queue: JobQueue) -> list[UUID]:
    """Two jobs, claimed ten seconds ago by a worker that runs two at once, and one in a child process."""
    connection.execute("select register_worker('me', '1 minute', '{a}', null, 2, null, null, null, null, 1)")
    queue.enqueue_many("a", range(2))
    rows = connection.execute("select id from claim_jobs('me', '{a}', 2) order by id").fetchall()
    connection.execute("update jobs set claimed_at = now() - interval '10 seconds'")
    return [row[0] for row in rows]


def found(url: str, slots: JobSlots) -> UUID | None:
    async def body() -> UUID | None:
        connection = ReconnectingConnection(url, "treadle", "test")
        watch = ClaimWatch("me", slots)
        assert not await watch.check(connection), "one look is not enough"
        is_news = await watch.check(connection)
        await connection.close()
        assert is_news == (watch.stuck is not None)
        assert watch.stuck is None or watch.stuck.kind is Kind.UNBEGUN
        return watch.stuck and watch.stuck.job

    return asyncio.run(body())


def test_a_job_that_does_not_begin_is_found(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    slots = JobSlots.create(10)
    first = claim(connection, queue)[0]
    assert found(url, slots) == first
    slots.add(first, 1, 0.0)
    assert found(url, slots) is None, "a job has just begun"
    slots.close()


def occupy(number: int, process: int = 0) -> Change:
    def change(connection: Connection[Any], slots: JobSlots, ids: list[UUID]) -> None:
        for _ in range(number):
            slots.add(UUID(int=0), 1, 0.0, process)

    return change


def note(state: State) -> Change:
    return lambda _, slots, ids: [slots.add(each, 1, 0.0, state=state) for each in ids]


def are_suspects(connection: Connection[Any], slots: JobSlots, ids: list[UUID]) -> None:
    connection.execute("update jobs set crashes = 1")
    slots.add(UUID(int=0), 1, 0.0, 7)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(occupy(2), id="claimed ahead"),
        pytest.param(note(State.RUNNING), id="running"),
        pytest.param(note(State.ENDED), id="not stored"),
        pytest.param(note(State.STARTING), id="its child process starts"),
        pytest.param(are_suspects, id="no free child process"),
        pytest.param(lambda c, *_: c.execute("select set_concurrency('me', 0)"), id="concurrency 0"),
        pytest.param(lambda c, *_: c.execute("update jobs set claimed_at = clock_timestamp()"), id="just claimed"),
        pytest.param(lambda c, *_: c.execute("update jobs set status = 'running'"), id="reported"),
        pytest.param(lambda _, slots, __: setattr(slots, "asleep", True), id="asleep"),
    ],
)
def test_a_job_that_waits_for_others_is_not(
    url: str, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    slots = JobSlots.create(10)
    ids = claim(connection, queue)
    change(connection, slots, ids)
    # As if what has just begun had begun long ago.
    monkeypatch.setattr(JobSlots, "begun_at", 0.0)
    assert found(url, slots) is None
    slots.close()


def test_while_the_event_loop_does_not_run_that_is_the_reason(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    slots = JobSlots.create(10)
    claim(connection, queue)

    async def body() -> None:
        keeper = Keeper(url, "treadle", timedelta(seconds=30), 3)
        worker = keeper.add("me", slots)
        worker._pulse.stuck = Stuck(Kind.BLOCKED, 0.0)
        checks = [await worker.check_claims(keeper.connection) for _ in range(3)]
        worker._pulse.stuck = None
        checks += [await worker.check_claims(keeper.connection) for _ in range(2)]
        assert checks == [False] * 4 + [True]
        await keeper.close()

    asyncio.run(body())
    slots.close()


def test_people_see_it(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    first, second = claim(connection, queue)
    connection.execute("select report_stuck('me', 'unbegun', 12, %s)", [first])
    app = Treadle(url)
    reason = why(app.database, first)
    assert reason.name == "worker_stuck"
    assert re.fullmatch(
        r"The job was claimed \d+s ago by me, which has not begun it although it has room for it\.", reason.sentence
    )
    assert "kill -9" in reason.remedy
    assert f"is stuck: it has not begun job {first} (a), which it claimed" in why(app.database, second).sentence
    connection.execute("update jobs set status = 'running', started_at = clock_timestamp() where id = %s", [second])
    assert why(app.database, second).name == "running"
    finding = get_finding(url, "stuck_workers")
    assert finding.level is Severity.WARNING
    assert finding.title == "A worker has claimed jobs and does not begin them, although there is room."
    assert f"it has not begun job {first} (a)" in finding.detail
    (verdict,) = VerdictReader(app.database).read()
    assert re.fullmatch(
        r"Worker me is stuck: it has not begun a job that it claimed \d+s ago, although it has room\.", verdict.sentence
    )
    now = overview(app.database)
    assert f"it has not begun job {first} (a)" in " ".join(map(str, worker_row(now.workers[0], now.at)))
    assert 'treadle_workers{state="stuck"} 1' in exposition(metrics(app.database))
    app.close()


def test_a_worker_that_loses_a_claim_is_noticed_until_it_begins_the_job(
    app: Treadle,
    url: str,
    connection: Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(unbegun, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(unbegun, "SUSPECTED_SECONDS", 0.1)

    @app.job
    async def hello() -> int:
        return 3

    async def body(worker: Worker) -> None:
        (claimer,) = worker.claimers
        with monkeypatch.context() as patch:
            lost: list[Any] = []
            patch.setattr(claimer, "take", lost.append)
            handle = await hello.aenqueue()
            await auntil(lambda: lost)
        keeper = Keeper(url, "treadle", timedelta(seconds=30), 3)
        keeper.add(worker.worker_id, worker.slots)
        tasks = [asyncio.create_task(each()) for each in (keeper.renew, keeper.watch_claims)]
        await auntil(lambda: one(connection, "select stuck_kind from workers") == "unbegun")
        assert one(connection, "select stuck_job from workers") == handle.id
        worker.lost_replies.wake.set()
        assert await handle.aresult(30) == 3
        await auntil(lambda: one(connection, "select stuck_kind from workers") is None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await keeper.close()

    run(app, body)
    assert "has not begun job" in caplog.text
    assert "begins its jobs again" in caplog.text
