"""The worker role can do everything that workers do."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import claim, limit
from tests.support.roles import Roles
from tests.support.workers import count, one, run, until, worker_process
from treadle import Backoff, Handle, Job, JobQueue, Retries, Status, Stored, Treadle
from treadle.worker.worker import Worker


def test_the_worker_role_can_do_everything_that_workers_do(roles: Roles, owner: Connection[Any]) -> None:
    app = Treadle(roles.url_of("worker"))
    owner.execute("create table public.orders (id int)")
    owner.execute(f"grant insert on public.orders to {roles.prefix}_user_worker")
    log = logging.getLogger("shop")

    @app.job(retry=Retries(2, backoff=Backoff(first=0)))
    def everything(job: Job, picture: Stored) -> Stored:
        with job.stage("counting"):
            for n in job.track(range(10)):
                job.event("counted", n=n)
        log.warning("attempt %s", job.attempt)
        job.save({"attempt": job.attempt})
        job.step("once", lambda: 1)
        if job.attempt == 1:
            raise ValueError("not yet")
        assert app.read(picture) == b"large"
        return app.store(b"larger")

    @app.job
    def debit(job: Job) -> None:
        with job.transaction() as transaction:
            transaction.execute("insert into public.orders values (1)")
            follow.using(connection=transaction).enqueue()
            job.complete()

    @app.job(retry=Retries(0))
    async def follow() -> None:
        raise RuntimeError("as planned")

    async def body(worker: Worker) -> Any:
        picture = await app.astore(b"large")
        handle: Handle[Stored] = await everything.using(key="one").aenqueue(picture=picture)
        debited = await debit.aenqueue()
        result = await handle.aresult(60)
        await debited.aresult(60)
        assert await app.aread(result) == b"larger"
        assert [line.message for line in await handle.alogs()] == ["attempt 1", "attempt 2"]
        assert len(await handle.aerrors()) == 1
        names = [event.name async for event in handle.events(follow=False)]
        assert names.count("counted") == 20
        waiting = await debit.using(delay="1h").aenqueue()
        assert await waiting.awhy()
        await waiting.acancel()
        assert await waiting.astatus() is Status.CANCELLED

    run(app, body)
    assert one(owner, "select count(*) from public.orders") == 1
    assert one(owner, "select count(*) from lanes") == 3


@pytest.mark.own_database
def test_a_worker_process_runs_with_the_worker_role(
    roles: Roles, queue: JobQueue, owner: Connection[Any], tmp_path: Path
) -> None:
    """Including its supervisor, child processes and maintenance."""
    queue.enqueue_many("noop", [{"n": n} for n in range(200)])
    queue.enqueue("nap_in_child", {"seconds": 0.1})
    queue.enqueue("publish_events", {"events": 5})
    with worker_process(roles.url_of("worker"), tmp_path) as worker:
        until(lambda: count(owner, "status = 'completed'") == 202 and one(owner, "select last_value from tick_clock"))
        worker.terminate()
        assert worker.ended(60) == 0, worker.log.read_text()
    assert "permission denied" not in worker.log.read_text()


def test_the_worker_role_can_use_the_queue_and_run_maintenance(roles: Roles, owner: Connection[Any]) -> None:
    with JobQueue(roles.url_of("worker"), "w") as queue:
        queue.enqueue_many("a", [{}] * 9)
        jobs = queue.claim(["a"], 9)
        queue.heartbeat()
        queue.start(jobs[0])
        queue.progress(jobs[0], 40, "x")
        queue.event(jobs[0], "e")
        queue.complete(jobs[0], 1)
        assert queue.complete_many(jobs[1:3]) == []
        queue.fail(jobs[3], "why", delay=0)
        queue.fail(jobs[4], "why", final=True)
        queue.release(jobs[5])
        queue.snooze(jobs[6], "1h")
        queue.cancel(jobs[7])
        queue.retry(jobs[7])
        assert queue.get(jobs[3]).attempts == 1
        assert len(queue.errors(jobs[4])) == 1
        assert len(queue.list().jobs) == 9
        assert queue.counts()[Status.COMPLETED] == 3
        owner.execute("update workers set seen_at = now() - interval '1 hour'")
        owner.execute("update jobs set seen_at = null, claimed_at = now() - interval '1 hour' where status = 'claimed'")
        assert queue.recover_stale_jobs(timedelta(minutes=5)) == 1
        assert queue.prune(older_than=timedelta(0)) == 3
    connection = roles.connect("worker")
    owner.execute("select setval('tick_clock', 0)")
    assert one(connection, "select tick()") == 1
    # The jobs of a lost worker are recovered, and unused stored contents are swept.
    connection.execute("select register_worker('gone', '1 second', '{a}')")
    connection.execute("select * from claim_jobs('gone', '{a}', 1)")
    owner.execute("update workers set seen_at = now() - interval '1 hour'")
    assert len(connection.execute("select * from recover_lost_workers(3)").fetchall()) == 1
    app = Treadle(roles.url_of("worker"))
    app.store(b"x" * 300_000)
    app.close()
    owner.execute("update stored set written_at = now() - interval '1 hour'")
    assert one(connection, "select swept from sweep_stored('1 minute')") == 1


def test_the_worker_role_can_count_finished_jobs_and_pause(
    roles: Roles, queue: JobQueue, owner: Connection[Any]
) -> None:
    owner.execute("update meter set reached = now() - interval '1 hour'")
    queue.enqueue("a")
    queue.complete(queue.claim(["a"])[0])
    connection = roles.connect("worker")
    assert one(connection, "select count_minutes(p_lag => '0')") == 1
    with JobQueue(roles.url_of("worker"), "w") as worker_queue:
        worker_queue.enqueue("a")
        assert worker_queue.pause("a", reason="the bank is closed")
        assert worker_queue.claim(["a"]) == []
        assert worker_queue.resume("a")
        assert len(worker_queue.claim(["a"])) == 1
    assert one(owner, "select count(*) from audit where db_user = %s", f"{roles.prefix}_user_worker") == 2


def test_a_worker_claims_by_hand_under_a_limit_that_it_declares(roles: Roles, owner: Connection[Any]) -> None:
    worker = roles.connect("worker")
    worker.execute("select enqueue_jobs('sync', array_fill('{}'::text, '{5}'))")
    by_hand = "update jobs set status = 'claimed' where id in (select id from jobs where status = 'pending' limit 1)"
    worker.execute(by_hand)
    limit(worker, 3)
    worker.execute(by_hand)
    assert len(claim(worker)) == 1
    assert one(owner, "select count(*) from unlisted_jobs") == 0
