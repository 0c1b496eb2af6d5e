"""unique in all its forms: which calls are the same, for how long, and what becomes of the second one."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import count
from treadle import Debounce, DuplicateJob, InvalidArgument, JobQueue, Once, Status, Throttle, Treadle


def test_unique_true_means_the_same_arguments(app: Treadle) -> None:
    @app.job(unique=Once())
    def sync(tenant: str, full: bool = False) -> None: ...

    first = sync.enqueue("acme")
    assert first.is_new
    again = sync.enqueue(tenant="acme", full=False)
    assert (again.id, again.is_new, again.is_changed) == (first.id, False, False)
    assert sync.enqueue("acme", full=True).is_new
    assert sync.enqueue("other").is_new
    assert sync.using(unique=None).enqueue("acme").is_new
    assert "acme" not in (first.job().unique_key or ""), "a viewer can read unique keys, but no payloads"


def test_unique_over_some_arguments(app: Treadle) -> None:
    @app.job
    def sync(tenant: str, page: int = 1) -> None: ...

    by_tenant = sync.using(unique=Once("tenant"))
    first = by_tenant.enqueue("acme", page=1)
    assert by_tenant.enqueue("acme", page=2).id == first.id
    assert by_tenant.enqueue("other", page=2).is_new
    with pytest.raises(InvalidArgument, match="unique names 'tennant', which is not an argument of sync"):
        sync.using(unique=Once("tennant")).enqueue("acme")


def test_unique_over_keys_of_a_payload_by_hand(queue: JobQueue) -> None:
    first = queue.enqueue("sync", {"tenant": "acme", "page": 1}, unique=Once("tenant"))
    assert queue.enqueue("sync", {"page": 2, "tenant": "acme"}, unique=Once("tenant")) == first
    assert queue.enqueue("sync", {"page": 1, "tenant": "acme"}, unique=Once()) != first
    with pytest.raises(InvalidArgument, match="unique names tenant, but the payload is not an object"):
        queue.enqueue("sync", [1, 2], unique=Once("tenant"))


def test_while_pending_a_claim_makes_room_for_the_next_job(queue: JobQueue) -> None:
    first = queue.enqueue("sync", unique=Once(key="acme", while_pending=True))
    assert queue.enqueue("sync", unique=Once(key="acme", while_pending=True)) == first
    (job,) = queue.claim(["sync"])
    second = queue.enqueue("sync", unique=Once(key="acme", while_pending=True))
    assert second != first
    assert queue.enqueue("sync", unique=Once(key="acme", while_pending=True)) == second
    queue.release(job)
    assert queue.get(first).status == Status.PENDING, "both exist: the first was already claimed once"
    assert [each.id for each in queue.claim(["sync"])] == [first, second]


def test_while_pending_a_claim_by_hand_makes_room_too(queue: JobQueue, connection: Connection[Any]) -> None:
    first = queue.enqueue("sync", unique=Once(key="acme", while_pending=True), expires="1h")
    connection.execute("update jobs set status = 'claimed', worker_id = 'me', claimed_at = now()")
    assert queue.enqueue("sync", unique=Once(key="acme", while_pending=True)) != first
    assert queue.get(first).expires_at is None


def test_a_claimed_job_that_kept_its_key_is_returned(queue: JobQueue, connection: Connection[Any]) -> None:
    """Written by hand, with triggers off."""
    first = queue.enqueue("sync", unique=Once(key="acme", while_pending=True))
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("update jobs set status = 'claimed', worker_id = 'me', claimed_at = now()")
    for on_conflict in ("keep", "replace"):
        same = Once(key="acme", while_pending=True, on_conflict=on_conflict)
        assert queue.enqueue("sync", unique=same) == first


def test_a_job_that_is_unique_until_finished_also_stops_calls_for_pending(queue: JobQueue) -> None:
    first = queue.enqueue("sync", unique=Once(key="acme"))
    queue.claim(["sync"])
    assert queue.enqueue("sync", unique=Once(key="acme", while_pending=True)) == first


def test_replace_gives_a_pending_job_the_new_arguments(app: Treadle) -> None:
    @app.job(unique=Once("tenant", on_conflict="replace"))
    def sync(tenant: str, page: int) -> None: ...

    first = sync.enqueue("acme", 1)
    second = sync.enqueue("acme", 2)
    assert (second.id, second.is_new, second.is_changed) == (first.id, False, True)
    assert first.job().data == {"tenant": "acme", "page": 2}
    app.queue.claim(["sync"])
    third = sync.enqueue("acme", 3)
    assert (third.id, third.is_changed) == (first.id, False), "it has been claimed with the arguments that it had"
    assert first.job().data == {"tenant": "acme", "page": 2}


def test_replace_starts_from_the_beginning(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("sync", {"n": 1}, unique=Once(key="acme"))
    (job,) = queue.claim(["sync"])
    connection.execute("select save_checkpoint(%s, '7', %s, %s)", [job_id, job.lease, job.worker_id])
    connection.execute("select finish_step(%s, 1, 'download', '{}', %s, %s)", [job_id, job.lease, job.worker_id])
    queue.fail(job, "broken", delay="1h")
    queue.enqueue("sync", {"n": 2}, unique=Once(key="acme", on_conflict="replace"))
    row = queue.get(job_id)
    assert (row.data, row.checkpoint, row.attempts) == ({"n": 2}, None, 1)
    assert connection.execute("select count(*) from steps").fetchone() == (0,)


def test_reschedule_and_prioritize_change_what_they_say(queue: JobQueue) -> None:
    job_id = queue.enqueue("sync", {"n": 1}, unique=Once(key="acme"), delay="1h", priority=100)
    queue.enqueue("sync", {"n": 2}, unique=Once(key="acme", on_conflict="reschedule"), delay="2h")
    row = queue.get(job_id)
    assert row.run_at - row.created_at > timedelta(hours=1.9)
    queue.enqueue("sync", unique=Once(key="acme", on_conflict="prioritize"), priority=150)
    queue.enqueue("sync", unique=Once(key="acme", on_conflict="prioritize"), priority=30)
    row = queue.get(job_id)
    assert (row.priority, row.data) == (150, {"n": 1})
    queue.enqueue("sync", {"n": 3}, unique=Once(key="acme", on_conflict=["replace", "reschedule"]))
    assert [job.data for job in queue.claim(["sync"])] == [{"n": 3}], "it is due now"


def test_raise_raises(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def sync(n: int) -> None: ...

    sync.using(unique=Once("n")).enqueue(4)
    first = sync.using(unique=Once(key="a")).enqueue(1)
    with pytest.raises(DuplicateJob, match=f"sync was not enqueued: job {first.id} has the same unique key") as raised:
        sync.using(unique=Once(key="a", on_conflict="raise")).enqueue(2)
    assert raised.value.job_id == first.id
    with pytest.raises(DuplicateJob):
        sync.using(unique=Once("n", on_conflict="raise")).enqueue_many([{"n": 3}, {"n": 4}])
    with pytest.raises(InvalidArgument, match="two of the calls have the same unique key"):
        sync.using(unique=Once(on_conflict="raise")).enqueue_many([{"n": 3}, {"n": 4}, {"n": 3}])
    assert count(connection, "true") == 2, "all or none"
    new = sync.using(unique=Once("n", on_conflict="raise")).enqueue_many([{"n": 5}, {"n": 6}])
    assert [handle.is_new for handle in new] == [True, True]


def test_many_calls_in_one_statement(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(unique=Once("tenant"))
    def sync(tenant: str, n: int) -> None: ...

    there = sync.enqueue("c", 0)
    handles = sync.enqueue_many({"tenant": tenant, "n": n} for n, tenant in enumerate("abcab"))
    assert [handle.is_new for handle in handles] == [True, True, False, False, False]
    assert handles[2].id == there.id
    assert [handle.id for handle in handles[3:]] == [handles[0].id, handles[1].id]
    assert handles[0].job().data == {"tenant": "a", "n": 0}
    replacing = sync.using(unique=Once("tenant", on_conflict="replace"))
    replaced = replacing.enqueue_many({"tenant": t, "n": n} for n, t in enumerate("dada", 10))
    assert [(handle.is_new, handle.is_changed) for handle in replaced] == [
        (True, False),
        (False, True),
        (False, True),
        (False, True),
    ]
    assert replaced[0].job().data == {"tenant": "d", "n": 12}
    assert handles[0].job().data == {"tenant": "a", "n": 13}
    assert [job.data["n"] for job in app.queue.claim(["sync"])] == [0, 13, 1, 12]


def test_many_unique_jobs_of_one_key_run_in_the_order_of_the_list(queue: JobQueue) -> None:
    ids = queue.enqueue_many("sync", [{"n": n} for n in (3, 1, 2)], keys=["k"] * 3, unique=Once("n"))
    for job_id in ids:
        (job,) = queue.claim(["sync"])
        assert job.id == job_id
        queue.complete(job)


def test_unique_for_a_period_after_enqueue(queue: JobQueue, connection: Connection[Any]) -> None:
    first = queue.enqueue("report", {"n": 1}, unique=Once(key="acme", per="1h"))
    (job,) = queue.claim(["report"])
    queue.complete(job)
    assert queue.enqueue("report", unique=Once(key="acme", per="1h")) == first
    assert queue.enqueue("report", unique=Once(key="other", per="1h")) != first
    connection.execute("update unique_periods set taken_at = clock_timestamp() - interval '1 hour'")
    assert queue.enqueue("report", unique=Once(key="acme", per="1h")) != first


def test_a_period_from_before_the_clock_was_set_back_is_over(queue: JobQueue, connection: Connection[Any]) -> None:
    first = queue.enqueue("report", unique=Once(key="acme", per="1h"))
    connection.execute("update unique_periods set taken_at = clock_timestamp() + interval '1 day'")
    assert queue.get(queue.enqueue("report", unique=Once(key="acme", per="1h"))).id != first


def test_throttle_allows_so_many_per_period(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(unique=Throttle(2, "5m", "tenant"))
    def sync(tenant: str, n: int) -> None: ...

    handles = [sync.enqueue("acme", n) for n in range(4)]
    assert [handle.is_new for handle in handles] == [True, True, False, False]
    assert handles[3].id == handles[1].id, "further calls return the latest job"
    assert sync.enqueue("other", 1).is_new
    connection.execute("update unique_periods set taken_at = '-infinity' where job_id = %s", [handles[0].id])
    more = sync.enqueue_many([{"tenant": "acme", "n": n} for n in (5, 6)] + [{"tenant": "third", "n": 1}])
    assert [handle.is_new for handle in more] == [True, False, True]
    assert more[1].id == more[0].id


def test_a_shorter_period_does_not_end_a_longer_one(queue: JobQueue) -> None:
    queue.enqueue("report", unique=Once(key="acme", per="1h"))
    second = queue.enqueue("report", unique=Once(key="acme", per=timedelta(microseconds=1)))
    assert queue.enqueue("report", unique=Once(key="acme", per="1h")) == second
    assert queue.enqueue("report", unique=Throttle(1, "1h", key="acme")) == second


def test_periods_that_are_over_are_removed(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("report", unique=Once(key="acme", per="1h"))
    queue.enqueue("report", unique=Once(key="other", per="1h"))
    connection.execute("update unique_periods set ends_at = clock_timestamp() where unique_key = 'acme'")
    assert connection.execute("select prune_unique_periods()").fetchone() == (1,)
    assert connection.execute("select unique_key from unique_periods").fetchall() == [("other",)]


def test_debounce_the_last_call_wins(app: Treadle) -> None:
    @app.job(unique=Debounce("30s", "tenant"))
    def sync(tenant: str, n: int) -> None: ...

    first = sync.enqueue("acme", 1)
    due = first.job().run_at
    assert due > datetime.now(UTC) + timedelta(seconds=25)
    second = sync.enqueue("acme", 2)
    assert (second.id, second.is_changed) == (first.id, True)
    assert first.job().run_at > due
    assert first.job().data == {"tenant": "acme", "n": 2}
    assert app.queue.claim(["sync"]) == []


def test_debounce_limit_is_the_longest_wait(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("sync", unique=Debounce("30s", key="acme", at_most="5m"))
    connection.execute("update jobs set created_at = clock_timestamp() - interval '290 seconds'")
    queue.enqueue("sync", {"n": 2}, unique=Debounce("30s", key="acme", at_most="5m"))
    row = queue.get(job_id)
    assert row.run_at - row.created_at == timedelta(minutes=5)
    connection.execute("update jobs set created_at = clock_timestamp() - interval '400 seconds'")
    queue.enqueue("sync", {"n": 3}, unique=Debounce("30s", key="acme", at_most="5m"))
    assert [job.data for job in queue.claim(["sync"])] == [{"n": 3}], "the limit is over: it is due"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique": 7}, 'unique must be Once(…), Debounce(…) or Throttle(…), such as Once("user"), got 7'),
        ({"unique": "text"}, "such as Once(key='text'), got 'text'"),
        ({"unique": Debounce("10s"), "delay": "1h"}, "Debounce cannot be used with run_at or delay"),
        ({"unique": Once("n")}, "unique names n, but the payload is not an object"),
        ({"delay": 1e12}, "delay must be at most 100 years"),
        ({"expires": 1e12}, "expires must be at most 100 years"),
        ({"expires": datetime(2030, 1, 1)}, "expires must have a time zone"),
    ],
)
def test_invalid_options_are_refused(queue: JobQueue, options: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        queue.enqueue("sync", [1], **options)


@pytest.mark.parametrize("options", [{"unique": 7}, {"expires": "soon"}, {"unique": True}, {"unique": ["user"]}])
def test_invalid_options_of_a_function_are_refused_where_it_is_declared(app: Treadle, options: Any) -> None:
    with pytest.raises(InvalidArgument):
        app.job(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"unique_while": "running"},
        {"on_conflict": ["skip"]},
        {"unique_keys": ["a", "b"]},
        {"unique_keys": [None]},
        {"period": "1 hour"},
        {"unique_keys": ["a"], "period": "1 hour", "per_period": 0},
        {"max_attempts": 0},
        {"unique_keys": [""]},
        {"unique_keys": ["a"], "period": "-1 hour"},
        {"keys": ["a", "b"]},
        {"partitions": ["{}", "{}"]},
        {"weight": 0},
        {"expires": "-1 hour"},
        {"prio": 7},
    ],
)
def test_invalid_options_of_the_sql_function_are_refused(connection: Connection[Any], options: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"must|needs"):
        connection.execute("select enqueue_with_options('sync', '{1}', %s)", [json.dumps(options)])


def test_data_is_required(connection: Connection[Any]) -> None:
    with pytest.raises(Exception, match="p_data must be an array of JSON texts"):
        connection.execute("select enqueue_with_options('sync', null, '{\"unique_keys\": [\"a\"]}')")
