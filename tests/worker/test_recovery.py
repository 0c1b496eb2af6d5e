"""Jobs of workers that missed their lease are given back."""

from typing import Any

from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import auntil, count, lose_worker, one, run
from treadle import JobQueue, Treadle, events
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.worker import Worker
from treadle.worker.maintenance import recover_lost


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


def test_only_jobs_that_ran_on_a_lost_worker_count_as_crashed(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    waiting, running = queue.enqueue("a"), queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    connection.execute("update jobs set status = 'running' where id = %s", [running])
    assert recovered(connection) == 2
    assert [(queue.get(each).crashes, queue.get(each).attempts) for each in (waiting, running)] == [(0, 0), (1, 0)]


def test_lost_workers_are_recovered_by_one_at_a_time(queue: JobQueue, connect: Connect) -> None:
    connection, first = connect(), connect(autocommit=False)
    assert recovered(first) == 0
    lose_worker(connection)
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
