"""JobQueue: every method, sync and async, on its own pool and inside a caller's transaction."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from treadle import InvalidArgument, JobNotFound, JobQueue, JobRow, Retries, Status, WrongStatus
from treadle.db.queries import jobs as job_queries


def test_a_job_from_enqueue_to_completion(queue: JobQueue) -> None:
    job_id = queue.enqueue("resize", {"path": "a.png"}, priority=7, queue="pictures", retry=Retries(4))
    job = queue.get(job_id)
    assert (job.id, job.job_type, job.data, job.priority) == (job_id, "resize", {"path": "a.png"}, 7)
    assert (job.queue, job.max_attempts, job.status, job.attempts) == ("pictures", 5, Status.PENDING, 0)
    (claimed,) = queue.claim(["resize"])
    assert claimed == queue.get(job_id)
    assert (claimed.status, claimed.worker_id, claimed.attempts, claimed.lease) == (Status.CLAIMED, "worker-1", 1, 1)
    queue.start(claimed)
    assert queue.get(job_id).status == Status.RUNNING
    assert queue.get(job_id).started_at is not None
    queue.progress(claimed, 40, stage="resizing")
    queue.progress(claimed, 60)
    assert (queue.get(job_id).progress, queue.get(job_id).current_stage) == (60, "resizing")
    queue.complete(claimed, {"bytes": 1834})
    job = queue.get(job_id)
    assert (job.status, job.progress, job.result) == (Status.COMPLETED, 100, {"bytes": 1834})
    assert job.completed_at == job.finished_at is not None


def test_a_job_from_enqueue_to_completion_asynchronously(url: str) -> None:
    async def enqueue_and_complete() -> None:
        async with JobQueue(url, "async-worker") as queue:
            first, second, third = await queue.aenqueue_many("a", [1, 2, 3])
            fourth = await queue.aenqueue("a", {"n": 4}, delay="1h", key="k")
            one, two, three = await queue.aclaim(["a"])
            assert [one.id, two.id, three.id] == [first, second, third]
            await queue.astart(one)
            await queue.aprogress(one, 10, "begun")
            await queue.acomplete(one, "done")
            await queue.afail(two, "broken", final=True)
            await queue.asnooze(three, "1h")
            await queue.aheartbeat()
            await queue.acancel(fourth)
            await queue.aretry(second)
            (again,) = await queue.aclaim(["a"])
            await queue.arelease(again)
            (again,) = await queue.aclaim(["a"])
            assert await queue.acomplete_many([again], [["x"]]) == []
            assert (await queue.aget(first)).result == "done"
            assert len((await queue.alist(status="completed")).jobs) == 2
            assert (await queue.acounts())[Status.CANCELLED] == 1
            assert await queue.arecover_stale_jobs(60) == 0
            assert await queue.aprune("completed", 0, batch_size=1) == 2

    asyncio.run(enqueue_and_complete())


def test_every_method_has_an_async_twin_with_the_same_signature() -> None:
    methods = {name: method for name, method in vars(JobQueue).items() if inspect.isfunction(method) and name[0] != "_"}
    twins = {name for name in methods if f"a{name}" in methods}
    assert {name for name in methods if name not in twins} == {f"a{name}" for name in twins}
    for name in twins:
        one, two = inspect.signature(methods[name]), inspect.signature(methods[f"a{name}"])
        assert one == two
        assert inspect.iscoroutinefunction(methods[f"a{name}"])
        assert methods[name].__doc__, f"{name} is not documented"


def test_a_queue_can_be_used_from_several_event_loops_in_turn(url: str) -> None:
    queue = JobQueue(url)

    async def once() -> None:
        await queue.aenqueue("a")
        await queue.aclose()

    asyncio.run(once())
    asyncio.run(once())
    assert queue.counts()[Status.PENDING] == 2
    queue.close()


def test_enqueue_many_keeps_the_order_and_enqueues_all_or_nothing(queue: JobQueue) -> None:
    ids = queue.enqueue_many("a", ({"n": n} for n in range(12_000)))
    assert len(ids) == 12_000
    assert ids == sorted(ids)
    claimed = queue.claim(["a"], 100)
    assert [job.data["n"] for job in claimed] == list(range(100))
    with pytest.raises(ValueError, match=r"data\[11999\]"):
        queue.enqueue_many("b", [*[{}] * 11_999, float("nan")])
    assert queue.claim(["b"]) == []
    assert queue.enqueue_many("b", []) == []


def test_a_job_is_due_at_its_time_or_after_its_delay(queue: JobQueue) -> None:
    moment = datetime(2100, 1, 1, tzinfo=UTC)
    assert queue.get(queue.enqueue("a", run_at=moment)).run_at == moment
    assert queue.get(queue.enqueue("a", run_at=datetime(2000, 1, 1, tzinfo=UTC))).run_at.year > 2000
    with pytest.raises(InvalidArgument, match="run_at must be a datetime, got 'tomorrow'; or use delay"):
        queue.enqueue("a", run_at="tomorrow")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="time zone"):
        queue.enqueue("a", run_at=datetime(2100, 1, 1))
    with pytest.raises(InvalidArgument, match="not both"):
        queue.enqueue("a", run_at=moment, delay=1)
    for delay in (timedelta(hours=1), 3600, "1h", "60m", "3600s"):
        job = queue.get(queue.enqueue("a", delay=delay))
        assert timedelta(minutes=59) < job.run_at - job.created_at <= timedelta(hours=1)


def test_a_job_is_retried_until_no_attempts_are_left(queue: JobQueue) -> None:
    job_id = queue.enqueue("a")
    for attempt in (1, 2, 3):
        (job,) = queue.claim(["a"])
        queue.fail(job, ValueError(f"number {attempt}"), delay=0)
        job = queue.get(job_id)
        assert (job.last_error, job.worker_id, job.attempts) == (f"ValueError: number {attempt}", None, attempt)
    assert job.status == Status.FAILED
    queue.retry(job_id)
    (job,) = queue.claim(["a"])
    assert (job.attempts, job.max_attempts) == (4, 4)


def test_releasing_and_snoozing_do_not_use_an_attempt(queue: JobQueue) -> None:
    first, second = queue.enqueue("a"), queue.enqueue("a")
    job, _ = queue.claim(["a"])
    queue.release(job)
    (job,) = queue.claim(["a"])
    assert (job.id, job.attempts, job.lease) == (first, 1, 2)
    queue.snooze(job, "1h")
    job = queue.get(first)
    assert (job.status, job.attempts) == (Status.PENDING, 0)
    assert queue.claim(["a"]) == []
    assert queue.get(second).status == Status.CLAIMED


def test_a_released_job_keeps_its_place(queue: JobQueue) -> None:
    ids = queue.enqueue_many("a", [{}] * 5)
    job, *_ = queue.claim(["a"], 2)
    queue.release(job)
    assert [job.id for job in queue.claim(["a"])] == [ids[0], *ids[2:]]


def test_an_unknown_job_or_a_wrong_status_raises_a_clear_error(queue: JobQueue) -> None:
    unknown_id = uuid4()
    for act in (queue.start, queue.complete, queue.cancel, queue.retry, queue.get, queue.release):
        with pytest.raises(JobNotFound, match=str(unknown_id)):
            act(unknown_id)
    job_id = queue.enqueue("a")
    with pytest.raises(WrongStatus, match="is pending, so it cannot be retried"):
        queue.retry(job_id)
    with pytest.raises(WrongStatus, match="is pending, so it cannot be started"):
        queue.start(job_id)
    assert queue.cancel(job_id) is True
    with pytest.raises(WrongStatus, match="is cancelled, so it cannot be completed"):
        queue.complete(str(job_id))
    assert queue.cancel(queue.get(job_id)) is False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q: q.enqueue(""), "job_type must be a string of 1 to 50 characters, got ''"),
        (lambda q: q.enqueue("x" * 51), "job_type must be a string of 1 to 50 characters"),
        (lambda q: q.enqueue("a\x00"), "must not contain NUL"),
        (lambda q: q.enqueue("a\ud800"), "unpaired surrogate"),
        (lambda q: q.enqueue("a", priority=2**31), "priority must be an integer from"),
        (lambda q: q.enqueue("a", priority="high"), "priority must be an integer from"),
        (lambda q: q.enqueue("a", retry=Retries(-1)), "Retries must be an integer from 0"),
        (lambda q: q.enqueue("a", delay=-1), "delay must not be negative, got -1"),
        (lambda q: q.enqueue("a", delay="soon"), "delay must be a duration such as"),
        (lambda q: q.enqueue("a", delay=float("inf")), "delay must be a timedelta"),
        (
            lambda q: q.enqueue("a", delay="9999999999999w"),
            "delay must be at most 999,999,999 days, got ",
        ),
        (lambda q: q.enqueue("a", key="k" * 201), "key must be a string of 1 to 200 characters"),
        (lambda q: q.enqueue_many("a", [1, 2], keys=["k"]), "keys must have one element per job, got 1 for 2"),
        (lambda q: q.claim("a"), "must be lists of strings, got 'a'"),
        (lambda q: q.claim(["a"], 0), "batch_size must be an integer from 1 to 100,000, got 0"),
        (lambda q: q.progress(uuid4(), 101), "progress must be an integer from 0 to 100, got 101"),
        (lambda q: q.progress(uuid4(), 1, stage="s" * 101), "stage must be a string of 1 to 100 characters"),
        (lambda q: q.list(status="sleeping"), "status must be one of pending, claimed, running"),
        (lambda q: q.list(limit=0), "limit must be an integer from 1 to 10,000, got 0"),
        (lambda q: q.prune("running"), "only completed, failed or cancelled jobs can be pruned, got 'running'"),
        (lambda q: q.get("not-an-id"), "expected the id of a job"),
    ],
)
def test_invalid_arguments_are_refused_before_any_sql(call: Any, message: str) -> None:
    # No server listens at this address: a call that reached the database would fail with another error.
    queue = JobQueue("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(InvalidArgument) as refused:
        call(queue)
    assert message in str(refused.value)


def test_jobs_are_listed_by_filter_and_page(queue: JobQueue, other: JobQueue) -> None:
    ids = queue.enqueue_many("a", range(25))
    queue.enqueue("b", queue="slow", key="k")
    other.claim(["a"], 5)
    seen: list[JobRow] = []
    after, pages = None, 0
    while True:
        page = queue.list(job_type="a", after=after, limit=10)
        seen += page.jobs
        pages += 1
        if page.next is None:
            break
        after = page.next
    assert pages == 3
    assert [job.id for job in seen] == ids[::-1]
    assert len(queue.list(job_type="a", status="claimed").jobs) == 5
    assert len(queue.list(worker_id="worker-2").jobs) == 5
    assert [job.job_type for job in queue.list(queue="slow").jobs] == ["b"]
    assert len(queue.list(key="k", status=Status.PENDING).jobs) == 1
    assert queue.list(key="nobody").jobs == []


def test_a_later_page_costs_as_little_as_the_first(queue: JobQueue, connection: Connection[Any]) -> None:
    ids = queue.enqueue_many("a", range(20_000))
    connection.execute("analyze jobs")
    query = job_queries.find_newest_jobs(job_type="a", after=ids[100], limit=10)
    assert buffers(connection, query.bound("treadle"), query.params) < 30


def test_jobs_are_counted_by_status(queue: JobQueue) -> None:
    queue.enqueue_many("a", range(5))
    queue.claim(["a"], 2)
    assert queue.counts() == {status: {"pending": 3, "claimed": 2}.get(status, 0) for status in Status}


def test_pruning_removes_only_the_given_status_and_age(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue_many("a", range(30))
    jobs = queue.claim(["a"], 20)
    queue.complete_many(jobs[:12])
    for job in jobs[12:]:
        queue.fail(job, "broken", final=True)
    connection.execute("update jobs set finished_at = finished_at - interval '1 hour' where data::int < 5")
    assert queue.prune("completed", "30m") == 5
    assert queue.prune("failed", "30m") == 0
    assert queue.prune("failed", 0, batch_size=3) == 8
    assert queue.counts()[Status.COMPLETED] == 7
    assert queue.counts()[Status.PENDING] == 10


def test_a_job_whose_payload_cannot_be_decoded_fails_alone(
    queue: JobQueue, connection: Connection[Any], url: str
) -> None:
    good = queue.enqueue_many("a", range(4))
    row = connection.execute(
        "insert into jobs (job_type, data) values ('a', to_jsonb(repeat('9', 5000)::numeric)) returning id"
    ).fetchone()
    assert row
    good.append(queue.enqueue("a"))
    assert [job.id for job in queue.claim(["a"])] == good
    assert connection.execute("select status, last_error from jobs where id = %s", row).fetchone() == (
        "failed",
        "UndecodableJob: the payload cannot be decoded: number out of range at line 1 column 4302",
    )

    connection.execute("update jobs set status = 'pending' where id = %s", row)

    async def claim() -> list[JobRow]:
        async with JobQueue(url) as other:
            return await other.aclaim(["a"])

    assert asyncio.run(claim()) == []
    assert connection.execute("select status from jobs where id = %s", row).fetchone() == ("failed",)


@pytest.mark.parametrize(
    "error",
    [
        "a\x00b",
        "\ud800 half",
        "x" * 10_000_000,
        "",
        object(),
        ValueError("\x00"),
        type("E", (Exception,), {"__str__": 1})(),
    ],
)
def test_any_error_value_can_be_recorded(queue: JobQueue, error: object) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    queue.fail(job, error)
    stored = queue.get(job).last_error
    assert stored is not None
    assert len(stored) < 20_000
