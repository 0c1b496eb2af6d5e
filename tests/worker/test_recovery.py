"""Jobs of workers that missed their lease are given back."""

import threading
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.workers import auntil, count, lose_worker, one, run
from treadle import JobQueue, Treadle, events
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.worker.maintenance import recover_lost, services
from treadle.worker.server_clock import ServerClock
from treadle.worker.services import Delay
from treadle.worker.worker import Worker


def recovered(connection: Connection[Any], later: str = "0") -> int:
    found: int = one(
        connection, "select count(*) from recover_lost_workers(3, clock_timestamp() + %s::interval)", later
    )
    return found


def test_workers_recover_the_jobs_of_lost_workers(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    recovered: list[events.JobRecovered] = []
    app.on(events.JobRecovered)(recovered.append)

    @app.job
    async def hello() -> None: ...

    other = queue.enqueue("elsewhere")
    by_hand = queue.enqueue("by hand")
    connection.execute("select register_worker('gone', '1 second', '{elsewhere}')")
    connection.execute("update workers set seen_at = now() - interval '1 minute'")
    connection.execute("select claim_jobs('gone', '{elsewhere}')")
    connection.execute("select claim_jobs('somebody by hand', '{by hand}')")
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")

    async def body(worker: Worker) -> None:
        await auntil(lambda: recovered)
        await auntil(lambda: count(connection, "status = 'pending'") == 1)

    run(app, body, lease="1s", keeper_process=True)
    assert [(each.job_id, each.worker_id, each.status) for each in recovered] == [(other, "gone", "pending")]
    assert queue.get(by_hand).status == "claimed", "clients without a lease are left alone"


def test_workers_look_for_a_lost_one_when_its_lease_runs_out(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        opened, lease = worker.connections.maintenance, timedelta(seconds=60)
        clock = ServerClock(opened, "w", app.listeners)
        recover = services(opened, clock, worker.settings, {}, lease, worker.outage, app.listeners, time.monotonic)[1]
        assert await recover.function() == Delay(20), "a third of a lease, while all workers are alive"
        for name, age in (("gone", 55), ("lost before", 1000)):
            connection.execute("select register_worker(%s, '60 seconds', '{a}')", [name])
            silence = "update workers set seen_at = clock_timestamp() - make_interval(secs => %s) where worker_id = %s"
            connection.execute(silence, [age, name])
            delay = await recover.function()
            assert delay
            assert 2 < delay <= 5.05

    run(app, body, lease="60s")


def test_after_an_outage_no_worker_is_taken_for_lost_at_once(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    """Workers that are alive have to be able to renew their leases first."""

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        worker.unavailable(DatabaseUnavailable("for a while"))
        lose_worker(connection)
        connection.execute("update workers set seen_at = clock_timestamp() where worker_id <> 'gone'")
        queue.enqueue("a")
        connection.execute("select claim_jobs('gone', '{a}')")
        await recover_lost(worker.connections.maintenance, 3, worker.settings.lease, worker.outage, app.listeners)
        assert one(connection, "select status from jobs") == "claimed"
        worker.outage.last_failure -= 61
        await recover_lost(worker.connections.maintenance, 3, worker.settings.lease, worker.outage, app.listeners)
        assert one(connection, "select status from jobs") == "pending"

    run(app, body, lease="60s")


def test_a_client_that_sends_heartbeats_by_hand_has_no_lease_to_lose(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue("a")
    connection.execute("select claim_jobs('by hand', '{a}')")
    connection.execute("select heartbeat('by hand')")
    assert recovered(connection, "1 year") == 0
    assert one(connection, "select lost_at is null from workers")


def test_a_claim_of_a_lost_worker_that_arrives_late_is_given_back(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    assert recovered(connection) == 0
    assert one(connection, "select lost_at is not null from workers"), "it keeps its row"
    for later in ("0", "2 days"):
        queue.enqueue("a")
        connection.execute("select claim_jobs('gone', '{a}')")
        assert recovered(connection, later) == 1, "late claims have to be found, also after a day"
        connection.execute("delete from jobs")
    assert recovered(connection, "23 hours") == 0
    assert one(connection, "select count(*) from workers") == 1
    recovered(connection, "2 days")
    assert one(connection, "select count(*) from workers") == 0, "a row of a worker that is gone is not kept for ever"


@pytest.mark.fresh_database
def test_what_a_lost_worker_has_done_is_not_read_all_the_time(queue: JobQueue, connect: Connect) -> None:
    """While a snapshot is open, the index entries of all its claims are still there."""
    connection, reader = connect(), connect()
    losses = "select * from clock_and_losses()"
    with reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from jobs")
        lose_worker(connection)
        for _ in range(5):
            queue.enqueue_many("a", [{}] * 1000)
            connection.execute("select count(*) from claim_jobs('gone', '{a}', 1000)")
            connection.execute(
                "select count(*) from (select complete_job(id) from jobs where worker_id = 'gone') as done"
            )
        # 256 s is the period that belongs to 3,584 s.
        found = {}
        for seconds in (5, 3584 + 5, 3584 + 30):
            connection.execute("update workers set lost_at = now() - %s * interval '1 second'", [seconds])
            found[seconds] = buffers(connection, losses)
        assert found[3584 + 30] < 20
        assert min(found[5], found[3584 + 5]) > 100
    # A claim that arrives late is found in time.
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    for seconds, looks in ((5, True), (3584 + 5, True), (3584 + 30, False)):
        connection.execute("update workers set lost_at = now() - %s * interval '1 second'", [seconds])
        assert connection.execute("select losses from clock_and_losses()").fetchone() == (looks,)


def test_a_lost_worker_keeps_its_row_while_a_job_of_it_is_locked(queue: JobQueue, connect: Connect) -> None:
    connection, late = connect(), connect(autocommit=False)
    lose_worker(connection)
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    late.execute("select from jobs for update")
    connection.execute("set lock_timeout = '5s'")  # it waits for nobody
    connection.execute("select recover_worker('gone', 'gone', '{}', p_keep => false)")
    late.rollback()
    assert recovered(connection) == 1


def counts(connection: Connection[Any], job_id: UUID) -> tuple[str, int, int, int | None]:
    query = "select status, attempts, crashes, losses from jobs where id = %s"
    found: tuple[str, int, int, int | None] = connection.execute(query, [job_id]).fetchone() or ("", 0, 0, 0)
    return found


def lose_running(connection: Connection[Any], running: UUID) -> None:
    lose_worker(connection)
    connection.execute("select claim_jobs('gone', '{a}')")
    connection.execute("update jobs set status = 'running' where id = %s", [running])
    assert recovered(connection) > 0


def test_only_jobs_that_ran_on_a_lost_worker_count_as_lost(queue: JobQueue, connection: Connection[Any]) -> None:
    waiting, running = queue.enqueue("a"), queue.enqueue("a")
    lose_running(connection, running)
    assert counts(connection, waiting) == ("pending", 0, 0, None)
    assert counts(connection, running) == ("pending", 0, 0, 1)
    assert [error.error for error in queue.errors(running)] == ["worker gone did not renew its lease within 00:00:01"]
    assert queue.errors(waiting) == []


def test_a_job_that_loses_worker_after_worker_fails(queue: JobQueue, connection: Connection[Any]) -> None:
    """The first loss is free, and the others count as crashes do."""
    job_id = queue.enqueue("a")
    for losses in (1, 2, 3):
        lose_running(connection, job_id)
        assert counts(connection, job_id) == ("pending", 0, 0, losses)
    lose_running(connection, job_id)
    assert counts(connection, job_id) == ("failed", 0, 0, 4)
    assert "its worker was lost 4 times while it ran, which is the limit" in (queue.get(job_id).last_error or "")


def test_crashes_and_losses_have_one_limit(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a")
    connection.execute("update jobs set crashes = 2")
    lose_running(connection, job_id)
    assert counts(connection, job_id) == ("pending", 0, 2, 1)
    lose_running(connection, job_id)
    assert counts(connection, job_id) == ("failed", 0, 2, 2)


def test_losses_are_forgotten_when_an_attempt_fails_by_itself(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a")
    for _ in range(2):
        lose_running(connection, job_id)
    (row,) = queue.claim(["a"])
    queue.fail(row, "no", delay=0)
    assert counts(connection, job_id) == ("pending", 1, 0, None)


def test_the_row_of_a_worker_with_jobs_cannot_be_deleted(queue: JobQueue, connection: Connection[Any]) -> None:
    """Otherwise nobody would know that the worker had a lease, and its jobs would stay claimed."""
    job_id = queue.enqueue("a")
    lose_worker(connection)
    connection.execute("select claim_jobs('gone', '{a}')")
    assert connection.execute("delete from workers").rowcount == 0
    assert recovered(connection) == 1
    assert queue.get(job_id).status == "pending"
    assert connection.execute("delete from workers").rowcount == 1


def test_a_worker_that_registers_its_old_name_does_not_keep_the_jobs_of_the_dead_one(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    waiting, running = queue.enqueue("a"), queue.enqueue("a")
    for host, kept in (("'one', 1", 0), ("'two', 1", 0), ("'two', 2", 0), ("'two', 2", 2), ("null, null", 0)):
        connection.execute(f"select register_worker('js-1', '1 minute', '{{a}}', null, 5, {host})")
        assert count(connection, "worker_id is not null") == kept, host
        if not kept:
            assert counts(connection, waiting)[1:3] == (0, 0)
            connection.execute("select claim_jobs('js-1', '{a}')")
            connection.execute("update jobs set status = 'running' where id = %s", [running])
    connection.execute("select register_worker('js-1', '1 minute', '{a}')")
    assert counts(connection, waiting) == ("pending", 0, 0, None)
    assert counts(connection, running)[1:] == (0, 0, 4)
    assert "worker js-1 was started again" in (queue.get(running).last_error or "")


def test_a_worker_that_registers_again_waits_for_a_late_write_of_the_dead_one(
    queue: JobQueue, connect: Connect
) -> None:
    connection, late, third = connect(), connect(autocommit=False), connect()
    job_id = queue.enqueue("a")
    connection.execute("select register_worker('js-1', '1 minute', '{a}')")
    connection.execute("select claim_jobs('js-1', '{a}')")
    late.execute("select from jobs for update")
    timer = threading.Timer(0.12, late.rollback)
    timer.start()
    third.execute("select register_worker('js-1', '1 minute', '{a}')")
    timer.join()
    assert queue.get(job_id).status == "pending"


def unregistered(connection: Connection[Any], later: str) -> int:
    query = "select count(*) from recover_unregistered(p_now => clock_timestamp() + %s::interval)"
    found: int = one(connection, query, later)
    return found


def test_jobs_of_a_worker_without_a_row_are_given_back_after_a_day(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    """As after a restore without the table of workers."""
    for name in ("a", "b", "m", "z"):
        for _ in range(2):
            queue.enqueue(name)
        connection.execute("select register_worker(%s, '1 minute', '{a}')", [name])
        connection.execute("select claim_jobs(%s, array[%s])", [name, name])
    begun = one(connection, "update jobs set status = 'running' where job_type = 'z' returning id")
    connection.execute("alter table workers disable trigger keep_worker")
    connection.execute("delete from workers where worker_id in ('a', 'z')")
    connection.execute("alter table workers enable trigger keep_worker")
    assert recovered(connection) == 0
    assert unregistered(connection, "23 hours") == 0
    assert unregistered(connection, "25 hours") == 4
    assert count(connection, "status = 'pending' and job_type in ('a', 'z')") == 4
    assert count(connection, "status = 'claimed' and job_type in ('b', 'm')") == 4, "these workers are registered"
    assert counts(connection, begun) == ("pending", 0, 0, 1)
    assert "client z gave no sign for 1 day, and is not registered" in (queue.get(begun).last_error or "")


def test_a_client_that_gives_a_sign_keeps_its_jobs(queue: JobQueue, connection: Connection[Any]) -> None:
    """Through SQL alone: a claim, progress, a heartbeat."""
    for name in ("silent", "reports", "beats"):
        queue.enqueue(name)
        connection.execute("select claim_job_batch(%s, array[%s])", [name, name])
    connection.execute("update jobs set claimed_at = claimed_at - interval '2 days'")
    connection.execute("select report_progress(id, 50) from jobs where job_type = 'reports'")
    connection.execute("select heartbeat('beats')")
    assert unregistered(connection, "0") == 1
    assert [row.job_type for row in queue.list(status="pending").jobs] == ["silent"]


def test_looking_for_unregistered_clients_does_not_read_the_jobs_of_workers(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker(name, '1 minute', '{a}') from unnest('{one,two}'::text[]) as name")
    queue.enqueue_many("a", range(4000))
    for name in ("one", "two"):
        connection.execute("select claim_jobs(%s, '{a}', 2000)", [name])
    connection.execute("vacuum analyze jobs")
    assert buffers(connection, "select recover_unregistered()") < 60


def test_lost_workers_are_recovered_by_one_at_a_time(queue: JobQueue, connect: Connect) -> None:
    connection, first = connect(), connect(autocommit=False)
    assert recovered(first) == 0
    lose_worker(connection)
    connection.execute("update workers set seen_at = clock_timestamp() - lease - interval '0.1 s'")
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    assert recovered(connection) == 0, "somebody is at it"
    first.commit()
    assert recovered(connection) == 1


def test_a_worker_that_renews_its_lease_late_is_no_longer_lost(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    recovered(connection)
    connection.execute("select renew_workers('{gone}', '1 minute')")
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    assert recovered(connection) == 0


def test_a_lock_that_somebody_holds_does_not_stop_the_recovery(
    queue: JobQueue, connection: Connection[Any], connect: Connect
) -> None:
    """Any role can take it, and a forgotten transaction may have called the function."""
    connection.execute("select register_worker('dead', '10 s', '{a}', null, 1, '', 1)")
    queue.enqueue("a")
    assert connection.execute("select from claim_jobs('dead', '{a}', 1)").fetchall()
    holder = connect(autocommit=False)
    holder.execute("select pg_advisory_xact_lock(hashtext('treadle recover'), hashoid('workers'::regclass))")
    connection.execute("update workers set seen_at = clock_timestamp() - interval '11 s'")
    assert connection.execute("select from recover_lost_workers()").fetchall() == []  # whoever has the lock may do it
    connection.execute("update workers set seen_at = clock_timestamp() - interval '13 s'")
    assert len(connection.execute("select from recover_lost_workers()").fetchall()) == 1


def test_the_recovery_does_not_wait_for_a_locked_worker(
    queue: JobQueue, connection: Connection[Any], connect: Connect
) -> None:
    for name in ("one", "two"):
        connection.execute("select register_worker(%s, '10 s', '{a}', null, 1, '', 1)", [name])
        queue.enqueue("a")
        connection.execute("select from claim_jobs(%s, '{a}', 1)", [name])
    connection.execute("update workers set seen_at = clock_timestamp() - interval '20 s'")
    holder = connect(autocommit=False)
    holder.execute("select from workers where worker_id = 'one' for update")
    connection.execute("set lock_timeout = '2s'")
    assert connection.execute("select worker_id from recover_lost_workers()").fetchall() == [("two",)]
