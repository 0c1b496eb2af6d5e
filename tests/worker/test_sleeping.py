"""A worker without work sleeps, and wakes when there is something to do."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import WaitingJob, auntil, one, run
from treadle import Cron, Treadle
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker import maintenance, notifications, scheduler, sleeper
from treadle.worker.options import ASLEEP_LEASE
from treadle.worker.worker import Worker

NO_NOTIFICATION = "set treadle.notify = off"
# It does not look because its own lease could run out.
LONG = "10m"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps at once, and looks only when it is told to."""
    monkeypatch.setattr(sleeper, "AFTER_SECONDS", 0.1)
    monkeypatch.setattr(sleeper, "AWAKE_SECONDS", 0.1)
    monkeypatch.setattr(sleeper, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(sleeper, "LOOK_SECONDS", 3600.0)


@pytest.fixture
def hello(app: Treadle) -> Any:
    @app.job
    async def hello() -> str:
        return "hello"

    return hello


class Looks:
    """Counts the looks of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.number = 0
        self._ask = worker.notifications.listener.ask
        worker.notifications.listener.ask = self.ask  # type: ignore[method-assign]

    async def ask(self, query: Any) -> Any:
        found = await self._ask(query)
        self.number += 1
        return found


async def auntil_asleep(worker: Worker) -> None:
    """Until it sleeps and has looked."""
    await auntil(lambda: worker.sleeper.asleep)
    looks = Looks(worker)
    worker.sleeper.look()
    await auntil(lambda: looks.number)
    assert worker.sleeper.asleep


def test_a_worker_without_work_falls_asleep_and_its_row_says_so(
    app: Treadle, hello: Any, connection: Connection[Any]
) -> None:
    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        await auntil(lambda: one(connection, "select asleep_at is not null from workers"))
        assert one(connection, "select lease from workers") == ASLEEP_LEASE

    run(app, body, lease="3s")


def test_a_notification_wakes_it_and_its_lease_is_valid_before_it_claims(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job
    async def lease() -> list[Any]:
        row = connection.execute("select extract(epoch from lease)::int, asleep_at from workers").fetchone()
        return list(row or ())

    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        # As its keeper does, but now.
        connection.execute("select renew_workers(%s, '2 hours', true)", [[worker.worker_id]])
        assert await (await lease.aenqueue()).aresult(30) == [30, None]

    run(app, body, lease="30s", poll="60s")


def test_it_wakes_for_a_future_job_in_time(app: Treadle, hello: Any, connect: Connect) -> None:
    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        quiet = connect()
        quiet.execute(NO_NOTIFICATION)
        quiet.execute("insert into jobs (job_type, run_at) values ('hello', clock_timestamp() + interval '1 second')")
        assert worker.sleeper.asleep
        worker.sleeper.look()
        await auntil(lambda: one(quiet, "select status from jobs") == "completed")

    run(app, body, poll="60s", lease=LONG)


def test_a_lost_notification_is_found_by_the_next_look(
    app: Treadle, hello: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleeper, "LOOK_SECONDS", 0.3)

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.sleeper.asleep)
        quiet = connect()
        quiet.execute(NO_NOTIFICATION)
        quiet.execute("select enqueue('hello')")
        await auntil(lambda: one(quiet, "select status from jobs") == "completed")

    run(app, body, poll="0.3s", lease=LONG)


def test_it_wakes_for_a_schedule_in_time(app: Treadle, hello: Any, connection: Connection[Any]) -> None:
    async def body(worker: Worker) -> None:
        await asyncio.to_thread(app.schedules.add, "yearly", Cron("0 0 1 1 *"), hello, actor="ada")
        await auntil(lambda: one(connection, "select next_at is not null from schedules"))
        await auntil_asleep(worker)
        connection.execute("update schedules set next_at = clock_timestamp() + interval '1 second'")
        worker.sleeper.look()
        await auntil(lambda: one(connection, "select count(*) from jobs where status = 'completed'"))

    run(app, body, poll="60s", lease=LONG)


def test_it_wakes_when_a_limit_has_room_again(app: Treadle, hello: Any, connection: Connection[Any]) -> None:
    async def body(worker: Worker) -> None:
        connection.execute("select set_limit('slow', 1, '2 seconds', p_job_type => 'hello')")
        handles = [await hello.aenqueue() for _ in range(2)]
        await auntil(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 1)
        await auntil(lambda: worker.sleeper.asleep)
        assert [await handle.aresult(30) for handle in handles] == ["hello"] * 2

    run(app, body, poll="60s", lease=LONG)


@pytest.mark.parametrize("what", ["expires", "depends"])
def test_it_wakes_for_what_only_maintenance_does(
    app: Treadle, hello: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("treadle.worker.maintenance.EXPIRE_EVERY", 0.2)

    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        quiet = connect()
        quiet.execute(NO_NOTIFICATION)
        if what == "expires":
            quiet.execute(
                "insert into jobs (job_type, run_at, expires_at) values ('later', now() + interval '1 day', now())"
            )
            quiet.execute("insert into expiries select expires_at, id from jobs")
        else:
            quiet.execute("insert into dependency_checks (noted_at, jobs, ended) values (now(), '{}', false)")
        worker.sleeper.look()
        done = (
            "select status = 'cancelled' from jobs"
            if what == "expires"
            else "select count(*) = 0 from dependency_checks"
        )
        await auntil(lambda: one(quiet, done))

    run(app, body, lease=LONG)


def test_a_worker_that_receives_nothing_does_not_sleep(
    app: Treadle, hello: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "ARRIVE_SECONDS", 0.1)

    async def body(worker: Worker) -> None:
        # As behind a pooler: LISTEN succeeds, and nothing arrives.
        worker.notifications.listener.received = lambda _: None
        resets: list[bool] = []
        monkeypatch.setattr(worker.notifications.listener, "reset", lambda: resets.append(worker.sleeper.asleep))
        while len(resets) < 3:  # that the last probe arrived is not enough
            worker.notifications.listener.works = True
            await asyncio.sleep(0.01)
        assert not any(resets)

    run(app, body, lease=LONG)


@pytest.mark.parametrize("listen", [True, False])
def test_a_worker_that_only_polls_does_not_sleep(app: Treadle, hello: Any, listen: bool) -> None:
    async def body(worker: Worker) -> None:
        assert (worker.sleeper.run in worker._parts()) == listen

    run(app, body, listen=listen)


def test_it_wakes_when_the_connection_that_listens_breaks(
    app: Treadle, hello: Any, connection: Connection[Any]
) -> None:
    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        listener = worker.notifications.listener._connection
        assert listener is not None
        connection.execute("select pg_terminate_backend(%s)", [listener.info.backend_pid])
        await auntil(lambda: not worker.sleeper.asleep)

    run(app, body, lease=LONG)


def test_a_sleeping_worker_is_lost_only_after_its_long_lease(
    app: Treadle, hello: Any, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker('sleeper', '10 s', '{a}'), renew_workers('{sleeper}', '2 hours', true)")

    def lost(after: str) -> bool:
        connection.execute(f"select recover_lost_workers(3, clock_timestamp() + interval '{after}')".encode())
        return bool(one(connection, "select lost_at is not null from workers"))

    assert not lost("119 minutes")
    assert one(
        connection, "select count(*) from serving_workers('default', 'a', clock_timestamp() + interval '1 hour')"
    )
    # That others have watched the clock for an hour is not asked for.
    connection.execute("update workers set seen_at = seen_at - interval '2 hours'")
    connection.execute("select recover_lost_workers(3, clock_timestamp(), '1 minute')")
    assert one(connection, "select lost_at is not null from workers")


def test_a_sleeping_worker_recovers_the_jobs_of_a_lost_one(
    app: Treadle, hello: Any, connection: Connection[Any]
) -> None:
    async def body(worker: Worker) -> None:
        await auntil(lambda: one(connection, "select asleep_at is not null from workers"))
        await auntil_asleep(worker)  # it has looked: no lease runs out soon
        connection.execute(NO_NOTIFICATION)
        connection.execute("select register_worker('gone', '3 seconds', '{hello}')")
        connection.execute("insert into jobs (job_type) values ('later')")
        connection.execute("select claim_jobs('gone', '{later}', 1)")
        # What an awake worker sends every 15 seconds.
        await worker.connections.claims.run(worker_queries.notify_workers("probe gone"))
        await auntil(lambda: one(connection, "select status from jobs where job_type = 'later'") == "pending", 60)

    run(app, body, lease="6s")


def test_it_learns_of_a_new_concurrency_without_waking(app: Treadle, hello: Any, connection: Connection[Any]) -> None:
    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        assert one(connection, "select set_concurrency(%s, 7)", worker.worker_id) == "done"
        await auntil(lambda: worker.concurrency.current == 7)
        assert worker.sleeper.asleep

    run(app, body, lease=LONG)


def test_a_look_writes_nothing(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute(
        "insert into jobs (job_type, run_at) select 'a', now() + interval '1 day' from generate_series(1, 3)"
    )
    connection.execute("select next_due('{a}'), register_worker('w', '10 s', '{a}')")
    with connection.transaction():
        connection.execute("set transaction read only")
        assert one(connection, "select next_work('w', '{a}', '{default}')") > 86_000
        assert one(connection, "select pg_current_xact_id_if_assigned()") is None


def test_a_sleeping_worker_sends_nothing_but_looks(
    app: Treadle, hello: Any, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its services come due, because their intervals are short, and so do the renewals of its keeper. Looks are a
    minute apart: that makes one statement a minute."""
    for name in ("TICK", "PRUNE", "COUNT", "GROUP_ERRORS", "DEPTHS", "RECOVER_CLIENTS", "EXPIRE"):
        monkeypatch.setattr(maintenance, f"{name}_EVERY", 0.05)
    monkeypatch.setattr(scheduler, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(notifications, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(sleeper, "LOOK_SECONDS", 0.2)
    real, sent = ReconnectingConnection.run, list[str]()

    async def noted(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        sent.append(query.text)
        return await real(connection, query)

    monkeypatch.setattr(ReconnectingConnection, "run", noted)

    async def body(worker: Worker) -> None:
        await asyncio.to_thread(app.schedules.add, "yearly", Cron("0 0 1 1 *"), hello, actor="ada")
        await auntil(lambda: worker.sleeper.asleep)
        await auntil(lambda: one(connection, "select asleep_at is not null from workers"))
        looks = Looks(worker)
        for _ in range(50):
            sent.clear()
            seen = looks.number
            await auntil(lambda: looks.number >= seen + 10)  # noqa: B023 - it is awaited within the loop
            assert worker.sleeper.asleep
            if not sent:
                return
            # What was in progress when it fell asleep goes on for a while.
        pytest.fail(f"it goes on: {sent}")

    run(app, body, lease="1s", poll="0.1s")


def test_a_look_finds_what_was_committed_late(connect: Connect) -> None:
    """Without a tick, which would look for it below the floor, and make its lane active."""
    connection, late = connect(), connect(autocommit=False)
    connection.execute("select register_worker('w', '1 hour', '{a}')")
    connection.execute("insert into jobs (job_type) values ('a'), ('a')")
    late.execute(NO_NOTIFICATION)
    late.execute("insert into jobs (job_type, run_at) values ('a', now() - interval '1 hour')")
    connection.execute("select count(*) from claim_jobs('other', '{a}', 10)")
    for _ in range(2):
        connection.execute("select tick('0')")
    assert one(connection, "select max(floor) > now() - interval '1 minute' from floors"), "the floor is above the job"
    assert one(connection, "select next_work('w', '{a}')") is None
    late.commit()
    assert one(connection, "select next_work('w', '{a}')") <= 0


def test_a_look_finds_jobs_of_a_lane_that_has_just_become_idle(connect: Connect) -> None:
    connection, late = connect(), connect(autocommit=False)
    connection.execute("select register_worker('w', '1 hour', '{a}')")
    connection.execute("insert into jobs (job_type) values ('a')")
    connection.execute("select count(*) from claim_jobs('other', '{a}', 10)")
    connection.execute("delete from jobs")
    late.execute(NO_NOTIFICATION)
    late.execute("insert into jobs (job_type) values ('a')")
    connection.execute("update lanes set changed_at = changed_at - interval '1 hour'")
    connection.execute("update floors set floor = floor - interval '1 hour'")
    connection.execute("select tick('0')")
    assert one(connection, "select bool_and(dormant_xid is not null) from lanes")
    late.commit()
    assert one(connection, "select next_work('w', '{a}')") <= 0


@pytest.mark.parametrize("what", ["is lost", "has a job"])
def test_a_worker_that_is_taken_for_lost_or_has_a_job_does_not_sleep(connection: Connection[Any], what: str) -> None:
    connection.execute("select register_worker('w', '2 hours', '{a}')")
    assert one(connection, "select next_work('w', '{a}')") is None
    if what == "is lost":
        connection.execute("update workers set seen_at = seen_at - interval '3 hours'")
    else:
        connection.execute("insert into jobs (job_type) values ('b')")
        connection.execute("select count(*) from claim_jobs('w', '{b}', 1)")
    assert one(connection, "select next_work('w', '{a}')") == 0


def test_a_worker_with_a_job_does_not_sleep(
    app: Treadle, waiting_job: WaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, began, event = waiting_job

    async def body(worker: Worker) -> None:
        handle = await job.aenqueue(n=1)
        await auntil(lambda: began)
        checks: list[bool] = []
        real = worker.sleeper.may_sleep

        def may_sleep() -> bool:
            checks.append(real())
            return checks[-1]

        monkeypatch.setattr(worker.sleeper, "may_sleep", may_sleep)
        looks = Looks(worker)
        await auntil(lambda: len(checks) >= 20)  # so often in the time after which it sleeps
        assert looks.number == 0
        event.set()
        await handle.aresult(30)
        await auntil(lambda: worker.sleeper.asleep)

    run(app, body, lease=LONG)


def test_it_wakes_after_some_time_and_does_the_maintenance(
    app: Treadle, hello: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleeper, "MOST_SECONDS", 0.3)
    monkeypatch.setattr(sleeper, "AWAKE_SECONDS", 3600.0)
    monkeypatch.setattr(sleeper, "AFTER_SECONDS", 3600.0)
    monkeypatch.setattr(maintenance, "PRUNE_EVERY", 0.5)
    pruned: list[bool] = []

    async def body(worker: Worker) -> None:
        real = maintenance.prune

        async def prune(*arguments: Any) -> int:
            pruned.append(worker.sleeper.asleep)
            return await real(*arguments)

        monkeypatch.setattr(maintenance, "prune", prune)
        monkeypatch.setattr(sleeper, "AFTER_SECONDS", 0.0)
        await auntil(lambda: worker.sleeper.asleep)
        monkeypatch.setattr(sleeper, "AFTER_SECONDS", 3600.0)
        pruned.clear()
        await auntil(lambda: pruned)
        assert pruned == [False]

    run(app, body, lease=LONG)


def test_a_look_sees_jobs_that_are_due_later_and_not_those_that_are_paused(connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '1 hour', '{a}')")
    connection.execute("insert into jobs (job_type, run_at) values ('a', now() + interval '1 day')")
    later = "select next_work('w', '{a}') between 86000 and 86400, next_work('w', '{a}', '{other}')"
    assert connection.execute(later).fetchone() == (True, None)
    connection.execute("update lanes set changed_at = changed_at - interval '1 hour'")
    connection.execute("update floors set floor = floor - interval '1 hour'")
    for _ in range(2):  # the first one may have seen transactions of others
        connection.execute("select tick('0')")
    assert one(connection, "select bool_and(dormant_xid is not null and wakes_at > now()) from lanes")
    assert connection.execute(later).fetchone() == (True, None)
    connection.execute("insert into jobs (job_type) values ('a')")
    assert one(connection, "select next_work('w', '{a}')") <= 0
    connection.execute("select pause('a')")
    assert one(connection, "select next_work('w', '{a}')") is None
