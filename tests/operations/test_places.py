"""Job types and queues: the numbers of their lists and pages, against those of SQL."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from psycopg import Connection

from tests.operations.test_throughput import add_minutes, sum_up
from tests.support.buffers import buffers
from treadle import JobQueue, Treadle
from treadle.db.queries.dashboard import MAX_CLAIMED, MAX_DRAWN, find_marks, find_slots, get_recent_failures
from treadle.db.queries.error_groups import register_version
from treadle.operations.overview import STEPS
from treadle.operations.places import get_activities, get_place, get_places
from treadle.operations.slots import make_slot_map
from treadle.words.errors import InvalidArgument

T = TypeVar("T")


def one(connection: Connection[Any], text: str, *params: Any) -> Any:
    row = connection.execute(text, params).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def in_one_minute(connection: Connection[Any], read: Callable[[], T]) -> T:
    """What several reads return, none of which is after the turn of a minute: then the last hour is another one."""
    minute = "select date_trunc('minute', now())"
    while True:
        before, found = one(connection, minute), read()
        if one(connection, minute) == before:
            return found


def test_the_list_of_types_has_the_numbers_of_the_tables(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    add_minutes(connection, 120)
    sum_up(connection)
    queue.enqueue_many("type1", [{}] * 5, queue="queue1")
    queue.enqueue_many("type1", [{}] * 2, queue="queue2", delay="1h")
    queue.pause("type2")
    queue.pause(queue="queue1")
    connection.execute("select register_worker('w', '1 minute', '{type1,idle}', '{queue1}', 5)")
    counts = """select sum(completed)::int, sum(failed)::int, sum(errors)::int, max(ran_most) from minutes
        where job_type = 'type1' and minute >= date_trunc('minute', now() - interval '1 hour')"""
    listed, expected = in_one_minute(
        connection, lambda: (get_places(app.database, "type", 3600), one(connection, counts))
    )
    found = {each.job_type: each for each in listed.places}
    assert list(found) == ["idle", "type1", "type2", "type3"]
    first = found["type1"]
    assert (first.waiting.jobs, first.waiting.exact, first.queue, first.workers) == (7, True, None, 1)
    assert (first.paused, first.partly_paused, first.unserved) == (False, True, True)
    assert (found["type2"].paused, found["type2"].unserved) == (True, False)
    assert first.due_since is not None
    assert found["idle"].activity.failure_share is None
    done = first.activity
    assert (done.completed, done.failed, done.errors, done.ran.most) == expected
    assert done.failure_share == pytest.approx(done.errors / (done.errors + done.completed))


def test_a_pause_of_a_type_touches_only_the_queues_where_it_has_jobs(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue("films", queue="slow")
    queue.enqueue("mail", queue="slow")
    queue.enqueue("mail", queue="quick")
    queue.pause("films")
    found = {each.queue: each.partly_paused for each in get_places(app.database, "queue").places}
    assert found == {"slow": True, "quick": False}
    queue.resume("films")
    queue.pause(queue="slow")
    found = {each.job_type or "": each.partly_paused for each in get_places(app.database, "type").places}
    assert found == {"films": False, "mail": True}  # all films are paused
    queue.resume(queue="slow")
    queue.pause(queue="quick")
    found = {each.job_type or "": each.partly_paused for each in get_places(app.database, "type").places}
    assert found == {"films": False, "mail": True}


def test_the_list_of_queues_adds_up_its_types(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    add_minutes(connection, 30)
    queue.enqueue_many("type1", [{}] * 3, queue="queue1")
    queue.enqueue_many("type2", [{}] * 4, queue="queue1")
    found = {each.queue: each for each in get_places(app.database, "queue", 3600).places}
    assert list(found) == ["queue1", "queue2"]
    assert (found["queue1"].waiting.jobs, found["queue1"].job_type) == (7, None)
    assert found["queue1"].activity.completed == one(
        connection, "select sum(completed)::int from minutes where queue = 'queue1'"
    )


@pytest.mark.parametrize("window", STEPS)
def test_the_page_of_a_type(app: Treadle, queue: JobQueue, connection: Connection[Any], window: int) -> None:
    add_minutes(connection, 120)
    sum_up(connection)
    queue.enqueue_many("type1", [{}] * 3, queue="queue1")
    connection.execute("insert into depth_history values (date_trunc('minute', now()), 'queue1', 'type1', 9)")
    connection.execute("insert into depth_history values (date_trunc('minute', now()), '', '', 9)")
    details, totals = in_one_minute(
        connection,
        lambda: (get_place(app.database, "type", "type1", window), get_activities(app.database, "type", "type1")),
    )
    assert details.place.waiting.jobs == 3
    assert [(each.job_type, each.queue) for each in details.parts] == [("type1", "queue1"), ("type1", "queue2")]
    assert sum(each.activity.completed for each in details.parts) == details.place.activity.completed
    assert sum(each.completed for each in details.spans) == details.place.activity.completed
    assert len(details.depths) == len(details.spans)
    assert details.depths[-1] == 9
    activities = {each.window: each for each in totals}
    assert activities[window] == details.place.activity


def test_a_name_that_nobody_has_used_has_no_jobs(app: Treadle) -> None:
    details = get_place(app.database, "queue", "nothing/at all ü")
    assert (details.place.waiting.jobs, details.parts) == (0, [])
    with pytest.raises(InvalidArgument, match="window must be one of 3600, 21600, 86400, 604800 seconds, got 7"):
        get_place(app.database, "queue", "x", 7)
    with pytest.raises(InvalidArgument, match="queue"):
        get_place(app.database, "queue", "x" * 51)


def test_workflows_are_not_a_type(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue("workflow")
    queue.enqueue("signal")
    assert get_places(app.database, "type").places == []


def test_the_map_of_slots_has_the_numbers_of_the_tables(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker('a', '1 minute', '{films}', null, 4)")
    connection.execute(
        "select register_worker('b', '1 minute', '{films}', null, 2, p_process_types => '{other}', p_children => 3)"
    )
    connection.execute("select register_worker('lost', '1 minute', '{films}', null, 2)")
    queue.enqueue_many("films", [{}] * 12)
    for worker, jobs, started in (("a", 6, 2), ("b", 2, 2), ("lost", 1, 1)):
        client = JobQueue(app.database, worker)
        for nth, job in enumerate(client.claim(["films"], jobs)):
            if nth < started:
                client.start(job)
    connection.execute("update workers set seen_at = now() - interval '5 minutes' where worker_id = 'lost'")
    claimed = app.database.read(find_slots())
    assert [each.running for each in claimed if each.worker_id == "a"] == [True, True, False, False, False, False]
    found = make_slot_map(app.workers(), claimed)
    rows = {each.worker.worker_id: each for each in found.workers}
    assert set(rows) == {"a", "b", "lost"}
    assert (rows["a"].capacity, len(rows["a"].slots), rows["a"].free, rows["a"].ahead) == (4, 4, 0, 2)
    assert (rows["b"].capacity, len(rows["b"].slots), rows["b"].free, rows["b"].ahead) == (5, 2, 3, 0)
    assert not rows["lost"].worker.alive
    running = one(connection, "select count(*) from jobs where status = 'running'")
    starting = one(connection, "select count(*) from jobs where status = 'claimed'")
    assert (found.running, found.claimed, found.capacity, found.complete) == (running, starting, 9, True)
    assert sum(slot.running for each in found.workers for slot in each.slots) == running == 5


def test_each_worker_has_an_equal_share_of_the_map(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("select enqueue_jobs('films', (select array_agg('{}'::text) from generate_series(1, 900)))")
    connection.execute(
        """update jobs
        set status = 'running', worker_id = 'w' || nth % 4, started_at = now() - nth * interval '1 second'
        from (select id as known, row_number() over (order by id) as nth from jobs) as numbered
        where id = known"""
    )
    claimed = app.database.read(find_slots())
    assert len(claimed) == MAX_DRAWN
    first = [each for each in claimed if each.worker_id == "w0"]
    assert (len(first), first[0].all_running, first[0].all_claimed) == (MAX_DRAWN // 4, 225, 225)
    assert [each.since for each in first] == sorted(each.since for each in first if each.since)
    assert first[0].since == one(connection, "select min(started_at) from jobs where worker_id = 'w0'")


@pytest.mark.fresh_database
def test_the_cost_of_the_map_of_slots_is_bounded(connection: Connection[Any]) -> None:
    def cost() -> int:
        query = find_slots()
        return buffers(connection, query.bound("treadle"), query.params)

    connection.execute("select enqueue_jobs('films', (select array_agg('{}'::text) from generate_series(1, 8000)))")
    connection.execute("update jobs set status = 'running', worker_id = 'w' || (random() * 50)::int")
    connection.execute("vacuum analyze jobs")
    query = find_slots()
    found = make_slot_map([], query.read(connection.execute(query.bound("treadle"), query.params).fetchall()))
    assert (found.running, found.complete) == (MAX_CLAIMED + 1, False)
    before = cost()
    connection.execute("select enqueue_jobs('films', (select array_agg('{}'::text) from generate_series(1, 20000)))")
    connection.execute("vacuum analyze jobs")
    assert cost() <= 1.5 * before + 100


def test_failures_now_are_those_of_the_last_15_minutes(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed, failed, errors)
        select date_trunc('minute', now()) - n * interval '1 minute', 'default', 'films', 10, 1,
            case when n < 10 then 5 else 1 end
        from generate_series(0, 300) n"""
    )
    found = app.database.read(get_recent_failures())
    assert found.failed in (9 * 5 + 5, 10 * 5 + 5)
    assert found.completed in (150, 160)
    assert found.failed_before in (59, 60, 61)
    assert found.share > 2 * found.share_before


def test_marks_are_pauses_and_starts_of_workers(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select pause('films', null, 'Ada')")
    connection.execute("select resume('films', null, 'Bob')")
    connection.execute("select pause(null, 'slow', 'Ada')")
    for name in ("a", "b"):
        connection.execute("select register_worker(%s, '1 minute', '{films}', null, 4, p_version => '0.9')", [name])
    # A worker that started long ago, as workers have written it down.
    connection.execute(
        "insert into worker_starts values (date_trunc('minute', now()) - interval '30 minutes', '0.8', 3)"
    )
    queue.cancel(queue.enqueue("films"))
    found = app.database.read(find_marks(3600))
    assert [each.text for each in found if each.kind == "start"] == ["3 workers started", "2 workers started"]
    assert {each.text for each in found if each.kind != "start"} == {
        "films paused by Ada",
        "films resumed by Bob",
        "All types in queue slow paused by Ada",
    }
    assert [each.concerns("films", None) for each in found if each.job_type] == [True, True]
    assert not [each for each in found if each.job_type and each.concerns("other", None)]
    assert [each.kind for each in app.database.read(find_marks(60)) if each.workers == 3] == []
    connection.execute("update workers set started_at = now() - interval '10 minutes'")
    connection.execute("update meter set summed_to = now() - interval '10 minutes'")
    connection.execute("select sum_minutes(now())")
    connection.execute("delete from workers")
    assert [each.workers for each in app.database.read(find_marks(3600)) if each.kind == "start"] == [3, 2]


def test_a_version_is_deployed_once(app: Treadle, connection: Connection[Any]) -> None:
    """Workers that start again with the same version, or that have none, are no deployment."""

    def start(worker: str, version: str | None) -> None:
        connection.execute("select register_worker(%s, '1 minute', '{films}', null, 4)", [worker])
        if version is not None:
            app.database.run(register_version(worker, version))

    def texts() -> list[str]:
        connection.execute("update workers set started_at = started_at - interval '10 minutes'")
        connection.execute("update deployments set first_seen = first_seen - interval '10 minutes'")
        return [each.text for each in app.database.read(find_marks(3600))]

    start("a", None)
    assert texts() == ["1 worker started"]
    connection.execute("delete from workers")
    start("b", "v1")
    start("c", "v1")
    assert texts() == ["Deployed v1"]
    start("d", "v1")
    assert texts() == ["Deployed v1", "1 worker started"]
    start("e", "v2")
    assert texts() == ["Deployed v1", "1 worker started", "Deployed v2"]


def test_deployments_are_kept_for_30_days_and_while_their_workers_run(
    app: Treadle, connection: Connection[Any]
) -> None:
    for version in ("old", "runs", "new"):
        app.database.run(register_version("worker-1", version))
    connection.execute("update deployments set first_seen = now() - interval '31 days' where version <> 'new'")
    connection.execute("delete from worker_versions where version = 'old'")
    connection.execute("select prune_error_groups()")
    assert connection.execute("select version from deployments order by 1").fetchall() == [("new",), ("runs",)]


@pytest.mark.fresh_database
def test_the_cost_of_marks_does_not_depend_on_changes_of_jobs(connection: Connection[Any]) -> None:
    query = find_marks(3600)
    connection.execute("select pause('films'), resume('films')")
    before = buffers(connection, query.bound("treadle"), query.params)
    connection.execute(
        """insert into audit (actor, action, job_id, job_type, queue)
        select 'Ada', 'retry', gen_random_uuid(), 'films', 'default' from generate_series(1, 20000)"""
    )
    connection.execute("vacuum analyze audit")
    assert buffers(connection, query.bound("treadle"), query.params) <= before + 20
