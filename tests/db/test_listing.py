"""Lists of jobs: filters, order and pages."""

import random
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from treadle import InvalidArgument, JobQueue, Retries, Status
from treadle.db.database import Database
from treadle.db.queries import listing as listing_queries
from treadle.db.query import Query
from treadle.words.listing import JobFilter, JobSummary, Listing


@pytest.fixture
def database(url: str) -> Any:
    made = Database(url, "treadle")
    yield made
    made.close()


def page(database: Database, after: str | None = None, limit: int = 50, **filters: Any) -> Listing:
    return database.read(listing_queries.find_jobs(JobFilter(**filters), after, limit), 30)


def all_pages(database: Database, limit: int = 50, pages: int = 1000, **filters: Any) -> list[JobSummary]:
    """The jobs of all pages."""
    found: list[JobSummary] = []
    after = None
    for _ in range(pages):
        got = page(database, after, limit, **filters)
        assert len(got.jobs) <= limit
        found += got.jobs
        if got.next is None:
            return found
        after = got.next
    raise AssertionError("the pages do not end")


def ids(jobs: list[JobSummary]) -> list[uuid.UUID]:
    return [job.id for job in jobs]


def one_of_each(queue: JobQueue) -> dict[str, uuid.UUID]:
    """A job in every status, and one that is blocked by its key."""
    made = {}
    for status in ("completed", "failed", "cancelled", "claimed", "running"):
        made[status] = queue.enqueue("a")
        (job,) = queue.claim(["a"])
        if status == "completed":
            queue.complete(job)
        elif status == "failed":
            queue.fail(job, "no", final=True)
        elif status == "cancelled":
            queue.cancel(job)
        elif status == "running":
            queue.start(job)
    made["pending"] = queue.enqueue("a", key="k")
    made["blocked"] = queue.enqueue("a", key="k")
    return made


def finished_together(connection: Connection[Any], status: str, count: int, job_type: str = "a") -> None:
    """Add jobs that finished in the same microsecond."""
    connection.execute(
        """insert into jobs (job_type, status, finished_at)
        select %s, %s, '2026-01-02 03:04:05.678901+00' from generate_series(1, %s)""",
        [job_type, status, count],
    )


def test_each_status_has_its_own_list(queue: JobQueue, database: Database) -> None:
    made = one_of_each(queue)
    for status, made_id in made.items():
        (job,) = page(database, status=status).jobs
        assert (job.id, job.status, job.blocked) == (
            made_id,
            "pending" if status == "blocked" else status,
            status == "blocked",
        )
    assert ids(page(database).jobs) == [*reversed(made.values())], "without a status, the newest first"


def test_a_list_contains_the_main_columns_of_a_job(queue: JobQueue, database: Database) -> None:
    before = datetime.now(UTC)
    made = queue.enqueue("film", {"n": 1}, queue="slow", priority=30, retry=Retries(0), key="k")
    (job,) = queue.claim(["film"])
    queue.start(job)
    queue.progress(job, 40, stage="cutting")
    queue.fail(job, "x" * 1000)
    (shown,) = page(database, status="failed").jobs
    assert shown.id == made
    assert shown[1:12] == ("film", "slow", 30, Status.FAILED, 40, "cutting", 1, 1, None, "k", False)
    assert shown.error == "x" * 500
    assert shown.started_at is not None
    assert shown.finished_at is not None
    slack = timedelta(minutes=5)
    assert before - slack < shown.created_at <= shown.run_at <= shown.started_at <= shown.finished_at < before + slack


def test_pending_jobs_are_listed_in_the_order_of_claims(queue: JobQueue, database: Database) -> None:
    for nth in range(60):
        queue.enqueue(f"t{nth % 3}", queue=f"q{nth % 2}", priority=100 + nth % 4 * 10)
    listed = all_pages(database, 7, status="pending")
    claimed = [job for _ in range(60) for job in queue.claim(["t0", "t1", "t2"], 1)]
    assert ids(listed) == [job.id for job in claimed]


def test_paused_and_delayed_jobs_are_listed_as_pending(queue: JobQueue, database: Database) -> None:
    later, paused = queue.enqueue("a", delay="1d"), queue.enqueue("b")
    queue.pause("b")
    assert ids(page(database, status="pending").jobs) == [paused, later]


def test_every_filter_works_with_every_status(queue: JobQueue, database: Database) -> None:
    """Each filter, with every status and without one, compared with filtering all jobs in Python."""
    for nth in range(40):
        options: dict[str, Any] = {"queue": f"q{nth % 2}", "key": f"k{nth % 5}" if nth % 3 else None}
        queue.enqueue(f"t{nth % 2}", {"nth": nth}, **options)
    for nth, job in enumerate(queue.claim(["t0", "t1"], 20)):
        if nth % 5 == 0:
            queue.complete(job)
        elif nth % 5 == 1:
            queue.fail(job, "out of paper", final=True)
        elif nth % 5 == 2:
            queue.cancel(job)
        elif nth % 5 == 3:
            queue.start(job)
    rows = queue.list(limit=1000).jobs

    def status_fits(job: Any, status: str | None) -> bool:
        if status in ("pending", "blocked"):
            return bool(job.status == "pending") and (job.holds != 0) == (status == "blocked")
        return status is None or job.status == status

    filters: list[dict[str, Any]] = [
        {},
        {"job_type": "t1"},
        {"queue": "q0"},
        {"worker_id": "worker-1"},
        {"worker_id": "nobody"},
        {"key": "k1"},
        {"job_type": "t0", "queue": "q0", "key": "k2"},
    ]
    for status in (None, *Status, "blocked"):
        for chosen in filters:
            expected = {
                row.id
                for row in rows
                if status_fits(row, status) and all(getattr(row, name) == value for name, value in chosen.items())
            }
            found = ids(all_pages(database, 3, status=status, **chosen))
            assert len(found) == len(set(found))
            assert set(found) == expected, (status, chosen)


@pytest.mark.parametrize(
    "status", ["completed", "failed", "cancelled", "claimed", "running", "pending", "blocked", None]
)
@pytest.mark.parametrize("look", [7, 20_000])
def test_pages_neither_skip_nor_repeat_among_ties(
    connection: Connection[Any],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    status: str | None,
    look: int,
) -> None:
    moment = "2026-01-02 03:04:05.678901+00"
    connection.execute(
        """insert into jobs (job_type, status, finished_at, claimed_at, worker_id, run_at)
        select 't' || n %% 2, %(status)s::text,
            case when %(status)s::text in ('completed', 'failed', 'cancelled') then %(moment)s::timestamptz end,
            case when %(status)s::text in ('claimed', 'running') then %(moment)s::timestamptz end,
            'w' || n %% 2, %(moment)s
        from generate_series(1, 40) as n""",
        {"status": "pending" if status in (None, "blocked") else status, "moment": moment},
    )
    if status == "blocked":
        connection.execute("update jobs set holds = 4")
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", look)
    for limit in (1, 9, 20, 40):
        found = ids(all_pages(database, limit, status=status))
        assert len(found) == len(set(found)) == 40
    assert len(all_pages(database, 9, status=status, job_type="t1")) == 20


def test_a_job_that_stays_is_listed_while_others_are_added_and_removed(queue: JobQueue, database: Database) -> None:
    for status in ("pending", "completed", None):
        staying = [queue.enqueue("a") for _ in range(30)]
        if status == "completed":
            for made in staying:
                queue.complete(made)
        found, after = [], None
        while True:
            got = page(database, after, 5, status=status)
            found += ids(got.jobs)
            newcomer = queue.enqueue("a", priority=150)
            if status == "completed":
                queue.complete(newcomer)
            gone = [made for made in found if made in staying][:1]
            for made in gone:
                database.run(Query("delete from treadle.jobs where id = %(id)s", {"id": made}, lambda _: None))
                staying.remove(made)
                found.remove(made)
            if got.next is None:
                break
            after = got.next
        assert [made for made in found if made in staying] == (
            list(reversed(staying)) if status != "pending" else staying
        )
        database.run(Query("delete from treadle.jobs", {}, lambda _: None))


def test_a_query_that_finds_few_jobs_stops_and_returns_a_cursor(
    connection: Connection[Any], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished_together(connection, "failed", 95)
    finished_together(connection, "failed", 5, "rare")
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 40)
    first = page(database, None, 10, status="failed", search="nowhere")
    assert (first.jobs, first.examined) == ([], 40)
    second = page(database, first.next, 10, status="failed", search="nowhere")
    assert (second.jobs, second.examined) == ([], 40)
    third = page(database, second.next, 10, status="failed", search="nowhere")
    assert third == Listing([], None, None)
    assert len(all_pages(database, 10, status="failed", job_type="rare")) == 5


def test_a_query_is_bounded_over_many_priorities(
    queue: JobQueue, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for priority in range(30):
        queue.enqueue("a", priority=priority)
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 10)
    assert page(database, None, 50, status="pending", worker_id="nobody").examined == 10
    monkeypatch.setattr(listing_queries, "SEARCH_TIME", timedelta(0))
    assert page(database, None, 5, status="pending", worker_id="nobody").examined == 1
    assert len(all_pages(database, 5, status="pending")) == 30


def test_a_full_page_does_not_say_how_many_jobs_were_read(queue: JobQueue, database: Database) -> None:
    queue.enqueue_many("a", [{}] * 3)
    for status in ("pending", None):
        got = page(database, None, 2, status=status)
        assert (len(got.jobs), got.examined) == (2, None)
        assert got.next is not None
        assert page(database, got.next, 2, status=status)[1:] == (None, None, 0, None)
    assert page(database, None, 3).next is None


@pytest.mark.parametrize("status", ["pending", "completed", None])
def test_a_query_stops_at_its_time_limit_but_makes_progress(
    queue: JobQueue, database: Database, monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    for name in ("a", "b"):
        for made in queue.enqueue_many(name, [{"n": n} for n in range(40)]):
            if status == "completed":
                queue.complete(made)
    monkeypatch.setattr(listing_queries, "SEARCH_TIME", timedelta(0))
    got = page(database, None, 10, status=status, search="nothing")
    assert got.jobs == []
    assert got.examined is not None
    assert 0 < got.examined < 80
    assert all_pages(database, 10, status=status, search="nothing") == []
    assert 0 < (page(database, None, 10, status=status, worker_id="nobody").examined or 0) < 80
    assert len(all_pages(database, 10, status=status, search='"n": 3')) == 22, "3, and 30 to 39"
    assert len(page(database, None, 40, status=status).jobs) == 40, "a full page is not shortened"


@pytest.mark.parametrize("status", ["pending", "completed", None])
def test_large_payloads_are_searched_in_small_numbers(
    queue: JobQueue, database: Database, monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    # Random, so that it cannot be compressed.
    large = [{"text": random.Random(i).randbytes(50_000).hex(), "i": i} for i in range(20)]
    for made in queue.enqueue_many("a", large):
        if status == "completed":
            queue.complete(made)
    monkeypatch.setattr(listing_queries, "SEARCH_TIME", timedelta(0))
    got = page(database, None, 50, status=status, search='"i": 1')
    assert got.examined is not None
    assert got.examined <= 10
    assert len(all_pages(database, 50, status=status, search='"i": 1')) == 11, "1, and 10 to 19"
    assert len(page(database, None, 50, status=status).jobs) == 20, "only a search is limited"


def test_a_search_finds_text_in_payloads_and_errors(queue: JobQueue, database: Database) -> None:
    made = queue.enqueue("a", {"name": "Ada Lövelace", "rate": "100%_\\"})
    other = queue.enqueue("a", {"name": "x", "rate": "1000 "})
    assert ids(page(database, search="ADA Löve").jobs) == [made]
    assert ids(page(database, search="100%_").jobs) == [made], "wildcards have no effect"
    assert ids(page(database, search="100").jobs) == [other, made]
    assert ids(page(database, search="0%").jobs) == [made]
    assert page(database, search="bab").jobs == []
    for job in queue.claim(["a"], 2):
        queue.fail(job, "Bad Luck" if job.id == other else "Other", final=True)
    assert ids(page(database, search="bad luck").jobs) == [other]
    assert ids(page(database, status="failed", search="bad luck").jobs) == [other]


def test_a_search_for_an_id_finds_the_job_in_any_position(
    queue: JobQueue, connection: Connection[Any], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 5)
    made = queue.enqueue("a")
    mentions = queue.enqueue("a", {"parent": str(uuid.UUID(int=7))})
    finished_together(connection, "completed", 20)
    assert ids(page(database, search=str(made)).jobs) == [made]
    assert ids(page(database, search=made.hex.upper()).jobs) == [made]
    assert ids(page(database, status="pending", search=str(made)).jobs) == [made]
    assert page(database, status="failed", search=str(made)).jobs == [], "the other filters still apply"
    assert page(database, job_type="b", search=str(made)).jobs == []
    assert ids(all_pages(database, search=str(uuid.UUID(int=7)))) == [mentions], "an id in a payload"


def test_jobs_with_times_that_python_cannot_represent_are_listed(
    connection: Connection[Any], database: Database
) -> None:
    connection.execute(
        """insert into jobs (job_type, run_at, created_at) values
        ('a', '9999-12-31 23:59:59.999999+00', null), ('a', '9999-12-31 23:59:59.999998+00', 'infinity'),
        ('a', 'infinity', '-infinity'), ('a', 'infinity', now()), ('a', '12000-01-01', now())"""
    )
    for limit in (1, 2, 50):
        assert len(ids(all_pages(database, limit, status="pending"))) == 5
        assert len(ids(all_pages(database, limit))) == 5
    connection.execute("update jobs set status = 'completed', finished_at = run_at")
    for limit in (1, 2, 50):
        found = ids(all_pages(database, limit, status="completed"))
        assert len(found) == len(set(found)) == 5


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        ({"status": "broken"}, "status must be one of pending, .*blocked, got 'broken'"),
        ({"job_type": ""}, "job type must be a string of 1 to 50 characters, got ''"),
        ({"queue": "q" * 51}, "queue must be"),
        ({"worker_id": "a\nb"}, "worker must not contain"),
        ({"key": "\x00"}, "key must not contain"),
        ({"search": "s" * 201}, "search must be"),
        ({"limit": 0}, "limit must be 1 to 1000, got 0"),
        ({"limit": 1001}, "limit must be"),
    ],
)
def test_an_invalid_filter_is_refused_with_a_reason(database: Database, filters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        page(database, **filters)


ID = "00000000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("status", "cursor"),
    [
        (None, ""),
        (None, "nonsense"),
        (None, f"all//1/{ID}"),
        (None, f"all/1//{ID}"),
        (None, f"all///{ID[:-1]}x"),
        (None, f"all///{'-' * 36}"),
        ("failed", f"failed///{ID}"),
        ("failed", f"failed//9999999999999999999/{ID}"),
        ("failed", f"failed//-999999999999999999/{ID}"),
        ("failed", f"failed//1e5/{ID}"),
        ("pending", f"pending//1/{ID}"),
        ("pending", f"pending/9999999999/1/{ID}"),
        ("pending", f"pending/1//{ID}"),
        ("pending", f"pending/1/1/{ID}' or true"),
        (None, 7),
    ],
)
def test_an_invalid_cursor_is_refused(database: Database, status: str | None, cursor: Any) -> None:
    with pytest.raises(InvalidArgument, match="after must be the cursor of a page, got"):
        page(database, cursor, status=status)


def test_a_cursor_of_another_list_is_refused(queue: JobQueue, database: Database) -> None:
    queue.enqueue_many("a", [{}] * 3)
    cursor = page(database, None, 1, status="pending").next
    with pytest.raises(InvalidArgument, match=r"a cursor of this list \(all\), got one of another \(pending\)"):
        page(database, cursor)


def test_cursors_with_extreme_times_are_accepted(queue: JobQueue, database: Database) -> None:
    queue.enqueue("a", priority=5)
    for at in ("infinity", "-infinity", "-210866803200000000", "9224318015999999999", "0"):
        assert page(database, f"failed//{at}/{ID}", status="failed").jobs == []
        assert len(page(database, f"pending/6/{at}/{ID}", status="pending").jobs) == 1


@pytest.mark.parametrize("style", ["postgres", "sql_standard", "iso_8601"])
@pytest.mark.parametrize("micros", [0, 1, 2**31, 86_399_999_999, 1_790_000_000_123_456, -1, -86_400_000_001])
def test_the_numbers_of_a_cursor_fit_into_32_bits(connection: Connection[Any], micros: int, style: str) -> None:
    """PostgreSQL 14 reads the microseconds of an interval as 32 bits: from 00:35:48 UTC on, it refused the cursor."""
    moment = listing_queries.Cursor("completed", None, str(micros), uuid.UUID(int=1)).moment
    assert moment is not None
    assert all(abs(int(number)) < 2**31 for number in re.findall(r"-?\d+", moment))
    connection.execute(f"set intervalstyle = {style}")
    row = connection.execute(
        "select extract(epoch from timestamp 'epoch' + %s::interval) * 1000000", [moment]
    ).fetchone()
    assert row is not None
    assert row[0] == micros
