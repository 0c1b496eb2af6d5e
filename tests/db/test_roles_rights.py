"""Each role can do everything that it is for, through the library and in SQL, as a user with no other role."""

import asyncio
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.cli.test_cli import treadle
from tests.support.roles import Roles, granted_roles, schema_owner
from tests.support.why import register_worker
from tests.support.workers import count, one, run, until, worker_process
from treadle import Backoff, Handle, Job, JobQueue, NotAllowed, Status, Stored, Treadle, migrate
from treadle.db.database import Database
from treadle.db.queries import listing as listing_queries
from treadle.db.queries import operations as operation_queries
from treadle.operations.overview import overview
from treadle.words.changes import Action
from treadle.words.listing import JobFilter
from treadle.worker import Worker


@pytest.fixture
def roles(empty_url: str) -> Iterator[Roles]:
    """An ordinary user owns the schema, so security definer functions can do no more than this user."""
    with schema_owner(empty_url) as owner_url:
        migrate(owner_url)
        with granted_roles(empty_url, owner_url) as roles:
            yield roles


@pytest.fixture
def owner(roles: Roles) -> Connection[Any]:
    return roles.connect()


@pytest.fixture
def queue(roles: Roles) -> Iterator[JobQueue]:
    """A queue with the privileges of the owner."""
    with JobQueue(roles.url, "owner") as queue:
        yield queue


# Enqueue


def test_the_enqueue_role_can_use_every_way_to_enqueue(roles: Roles, owner: Connection[Any]) -> None:
    with JobQueue(roles.url_of("enqueue")) as queue:
        plain = queue.enqueue("a", {"n": 1}, priority=150, queue="mail", max_attempts=5)
        queue.enqueue("a", {}, delay="1h")
        first = queue.enqueue("a", {}, unique="user:7")
        assert queue.enqueue("a", {}, unique="user:7") == first
        assert len(queue.enqueue_many("a", [{"n": n} for n in range(100)])) == 100
        ordered = [queue.enqueue("keyed", {}, key="k") for _ in range(3)]
    assert count(owner) == 1 + 1 + 1 + 100 + 3
    assert one(owner, "select data from jobs where id = %s", plain) == {"n": 1}
    # The first is claimable and blocks the others.
    blocked = owner.execute("select id from jobs where holds = 1 order by id").fetchall()
    assert blocked == [(each,) for each in ordered[1:]]
    with JobQueue(roles.url, "w") as worker:
        assert [job.id for job in worker.claim(["keyed"], 10)] == ordered[:1]


def test_the_enqueue_role_can_enqueue_asynchronously(roles: Roles, owner: Connection[Any]) -> None:
    async def enqueue() -> None:
        async with JobQueue(roles.url_of("enqueue")) as queue:
            await queue.aenqueue("a", {}, key="k", unique="u")
            await queue.aenqueue_many("a", [{}] * 10)

    asyncio.run(enqueue())
    assert count(owner) == 11


def test_the_enqueue_role_can_enqueue_in_sql(roles: Roles, owner: Connection[Any]) -> None:
    connection = roles.connect("enqueue")
    connection.execute("insert into jobs (job_type) values ('a')")
    connection.execute(
        """insert into jobs (id, job_type, priority, data, created_at, max_attempts, queue, run_at, key, unique_key)
        values (gen_random_uuid(), 'a', 1, '{}', now(), 1, 'q', now(), 'k', 'u')"""
    )
    found = one(connection, "insert into jobs (job_type, created_at) values ('a', '2001-01-01') returning id")
    assert one(connection, "select enqueue('a', p_key => 'k')")
    assert one(connection, "select enqueue_unique('a', 'other', p_delay => '1 hour')")
    assert one(connection, "select enqueue_jobs('a', '{\"1\"}', p_keys => '{k}')")
    assert count(owner) == 6
    assert one(owner, "select run_at from jobs where id = %s", found).year == 2001
    assert one(owner, "select count(*) from lanes") == 2


def test_the_enqueue_role_can_enqueue_below_the_floor_and_on_an_old_snapshot(
    roles: Roles, owner: Connection[Any]
) -> None:
    """The triggers change rows that the enqueuer itself may not change."""
    owner.execute("insert into lanes (queue, job_type, priority, floor) values ('default', 'a', 100, now())")
    connection = roles.connect("enqueue")
    connection.execute("insert into jobs (job_type, run_at) values ('a', '2001-01-01')")
    assert one(owner, "select run_at = floor from jobs, lanes")
    connection.execute("begin isolation level repeatable read")
    connection.execute("select enqueue('a', p_key => 'k')")
    connection.execute("commit")
    assert count(owner) == 2


def test_a_job_of_the_enqueue_role_is_unblocked_at_commit(
    roles: Roles, queue: JobQueue, owner: Connection[Any]
) -> None:
    """At commit, the trigger checks the job again and unblocks it; the enqueuer itself could not."""
    queue.enqueue("a", {}, key="k")
    connection = roles.connect("enqueue", autocommit=False)
    second = one(connection, "select enqueue('a', p_key => 'k')")
    (first,) = queue.claim(["a"])
    queue.complete(first)
    connection.commit()
    assert one(owner, "select holds from jobs where id = %s", second) == 0


def test_an_application_with_the_enqueue_role_can_only_enqueue(roles: Roles, owner: Connection[Any]) -> None:
    app = Treadle(roles.url_of("enqueue"))

    @app.job
    def welcome(user: int) -> None: ...

    handle = welcome.enqueue(user=7)
    welcome.using(key="user:7", unique="user:7", delay="10m").enqueue(user=7)
    welcome.enqueue_many({"user": n} for n in range(10))
    with pytest.raises(NotAllowed, match="permission denied for table jobs"):
        handle.status()
    with pytest.raises(NotAllowed, match=r"permission denied for (table jobs|function cancel_job)"):
        handle.cancel()
    with pytest.raises(NotAllowed, match="permission denied for table"):
        app.store(b"large")
    app.close()
    assert count(owner) == 12


# Worker


def test_the_worker_role_can_do_everything_that_workers_do(roles: Roles, owner: Connection[Any]) -> None:
    app = Treadle(roles.url_of("worker"))
    owner.execute("create table public.orders (id int)")
    owner.execute(f"grant insert on public.orders to {roles.prefix}_user_worker")
    log = logging.getLogger("shop")

    @app.job(max_attempts=3, backoff=Backoff(first=0))
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

    @app.job(max_attempts=1)
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


# Viewer


def test_a_viewer_can_watch_jobs(roles: Roles, queue: JobQueue) -> None:
    done = queue.enqueue("films", {"secret": 1})
    (job,) = queue.claim(["films"])
    queue.start(job)
    queue.event(job, "cut", scene=7)
    app = Treadle(roles.url_of("viewer"))
    assert [event.name for event in app.handle(done).events(follow=False)] == ["enqueued", "claimed", "started", "cut"]
    assert app.handle(done).logs() == []
    assert app.handle(done).errors() == []
    queue.complete(job)
    watched = treadle("watch", str(done), "--database-url", roles.url_of("viewer"))
    assert (watched.returncode, watched.stderr) == (0, "")
    assert "films: completed" in watched.stdout
    assert app.queue.counts() == {Status.COMPLETED: 1} | {
        status: 0 for status in Status if status is not Status.COMPLETED
    }
    with pytest.raises(NotAllowed):
        app.handle(done).job()
    app.close()


@pytest.mark.parametrize("group", ["viewer", "operator"])
def test_a_viewer_and_an_operator_can_ask_why_a_job_does_not_run(
    roles: Roles, queue: JobQueue, owner: Connection[Any], group: str
) -> None:
    register_worker(owner)
    queue.enqueue("mail", key="k")
    made = queue.enqueue("mail", key="k")
    app = Treadle(roles.url_of(group))
    assert app.handle(made).why().name == "key_blocked"
    owner.execute("begin")
    owner.execute("select from jobs where id = %s for update", [made])
    also = [each.name for each in app.handle(made).why().also]
    assert also[0] == "busy"  # and locked, but this role may not see since when
    owner.execute("rollback")
    app.close()


@pytest.mark.parametrize("group", ["viewer", "operator"])
def test_a_viewer_and_an_operator_can_get_the_overview(roles: Roles, queue: JobQueue, group: str) -> None:
    queue.enqueue("films", {})
    queue.pause("films")
    app = Treadle(roles.url_of(group))
    seen = overview(app.database)
    assert [(lane.job_type, lane.depth, lane.paused) for lane in seen.lanes] == [("films", 1, True)]
    (audited,) = app.database.read(operation_queries.find_audit())
    assert audited.action == "pause"
    app.close()


@pytest.mark.parametrize("status", [None, "pending"])
def test_a_viewer_lists_jobs_but_cannot_search_payloads(roles: Roles, queue: JobQueue, status: str | None) -> None:
    """Otherwise a viewer could guess the contents of payloads letter by letter."""
    queue.enqueue("films", {"title": "Alien"})
    failed = queue.enqueue("films", {})
    queue.fail(next(job for job in queue.claim(["films"], 2) if job.id == failed), "no alien here", delay="1h")
    queue.release(queue.list(status="claimed").jobs[0])

    def found(group: str, search: str) -> int:
        with psycopg.connect(roles.url_of(group)) as connection:
            text = "select count(*) filter (where fits) from treadle.find_jobs(%s, p_search => %s, p_patience => null)"
            return int(one(connection, text, status, search))

    assert (found("viewer", "ALIEN"), found("operator", "ALIEN")) == (1, 2)
    for group in ("viewer", "operator"):
        app = Treadle(roles.url_of(group))
        assert len(app.database.read(listing_queries.find_jobs(JobFilter())).jobs) == 2
        app.close()
        for arguments in (["why", str(failed)], ["doctor"]):
            shown = treadle(*arguments, "--json", "--database-url", roles.url_of(group))
            assert "permission denied" not in shown.stdout + shown.stderr
            assert json.loads(shown.stdout), shown.stderr


def test_a_viewer_is_notified_of_events(roles: Roles, queue: JobQueue) -> None:
    """It asks to be notified through a function, because it may not write itself."""
    job_id = queue.enqueue("films", {})
    (job,) = queue.claim(["films"])
    app = Treadle(roles.url_of("viewer"))

    async def follow() -> list[str]:
        names: list[str] = []
        async for event in app.handle(job_id).events():
            names.append(event.name)
            if event.name == "claimed":
                await asyncio.to_thread(queue.event, job, "cut")
                await asyncio.to_thread(queue.complete, job)
        await app.aclose()
        return names

    assert asyncio.run(follow()) == ["enqueued", "claimed", "cut", "completed"]
    connection = roles.connect("viewer")
    for function, clock in (("await_ends", "awaited"), ("await_news", "watched")):
        connection.execute(f"select {function}('100 years')")
        left = f"select to_timestamp(last_value / 1000000) - now() < interval '6 minutes' from {clock}"
        assert one(connection, left), "a viewer could make every worker notify for ever"


# Operator


def test_an_operator_can_read_everything(roles: Roles, queue: JobQueue) -> None:
    job_id = queue.enqueue("films", {"secret": 1})
    with JobQueue(roles.url_of("operator")) as operator:
        assert operator.get(job_id).data == {"secret": 1}
        assert len(operator.list(job_type="films").jobs) == 1
    app = Treadle(roles.url)
    stored = app.store(b"large")
    operating = Treadle(roles.url_of("operator"))
    assert operating.read(stored) == b"large"
    app.close()
    operating.close()


def test_an_operator_can_make_every_change(roles: Roles, queue: JobQueue, owner: Connection[Any]) -> None:
    """The queue itself updates everything else: lanes, keys, dependent rows and notifications."""
    database = Database(roles.url_of("operator"), "treadle")

    def done(action: Action, *ids: Any, priority: int | None = None) -> bool:
        changes = database.run(operation_queries.change_jobs(action, ids, "ada", "because", priority))
        return [each.outcome for each in changes] == ["done"] * len(ids)

    first, second = (queue.enqueue("a", {}, key="k") for _ in range(2))
    assert done(Action.CANCEL, first)
    assert [job.id for job in queue.claim(["a"])] == [second], "the next job of the key is unblocked"
    queue.event(second, "published")
    queue.fail(second, "why", final=True)
    assert done(Action.RETRY, first, second)
    later = queue.enqueue("a", {}, delay="1h")
    assert done(Action.RUN_NOW, later)
    assert done(Action.PRIORITY, later, priority=999)
    assert queue.claim(["a"], 1)[0].id == later
    assert done(Action.CANCEL, second)
    assert done(Action.DELETE, second)
    assert one(owner, "select count(*) from events") == one(owner, "select count(*) from errors") == 0
    assert database.run(operation_queries.pause("a", None))
    assert database.run(operation_queries.resume("a", None))
    lines = owner.execute("select action, actor, reason, db_user from audit order by id").fetchall()
    user = f"{roles.prefix}_user_operator"
    asked = ["cancel", "retry", "retry", "run_now", "priority", "cancel", "delete"]
    assert lines[:7] == [(action, "ada", "because", user) for action in asked]
    assert lines[7:] == [(action, user, None, user) for action in ("pause", "resume")]
    database.close()
