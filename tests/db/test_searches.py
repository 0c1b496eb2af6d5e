"""Searches of lists: by time, by digits of the id, by values in payloads; and what they cost."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from treadle import InvalidArgument, JobQueue
from treadle.db.database import Database
from treadle.db.queries import listing as listing_queries
from treadle.text.payload_condition import index_statement, read_payload_condition
from treadle.words.listing import JobFilter, Listing
from treadle.words.payload_condition import PayloadCondition

START = datetime(2026, 11, 12, 14, tzinfo=UTC)
STATUSES = ["completed", "failed", "cancelled", "claimed", "running", "pending", "blocked", None]


@pytest.fixture(autouse=True)
def no_indexes_are_left(connection: Connection[Any]) -> Iterator[None]:
    """Tests share a database, of which only the rows are deleted."""
    yield
    made = connection.execute(
        """select indexrelid::regclass::text from pg_index
        where indrelid = 'jobs'::regclass and pg_get_indexdef(indexrelid) like '%%jsonb_hash_extended%%'"""
    ).fetchall()
    for (name,) in made:
        connection.execute(f"drop index {name}".encode())


@pytest.fixture
def database(url: str) -> Any:
    made = Database(url, "treadle")
    yield made
    made.close()


def every_second(connection: Connection[Any], status: str | None, count: int) -> None:
    """Jobs that were enqueued, and finished, at START and in each second after it. The payload has their number."""
    row = {"blocked": "pending", None: "completed"}.get(status, status)
    connection.execute(
        """insert into jobs (id, job_type, status, finished_at, claimed_at, worker_id, run_at, created_at, holds, data)
        select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || '7000' || '8000'
                || lpad(to_hex(n), 12, '0'))::uuid, 'a', %(row)s::text,
            case when %(row)s::text in ('completed', 'failed', 'cancelled') then moment end,
            case when %(row)s::text in ('claimed', 'running') then moment end,
            case when %(row)s::text in ('claimed', 'running') then 'w' end,
            moment, moment, case when %(blocked)s then 4 else 0 end,
            jsonb_build_object('n', n, 'order', 'ORD-' || n %% 100, 'customer', jsonb_build_object('id', n %% 7))
        from (select n, %(start)s::timestamptz + n * interval '1 second' as moment
            from generate_series(0, %(count)s - 1) as n) as made""",
        {"row": row, "blocked": status == "blocked", "start": START, "count": count},
    )


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def page(database: Database, place: str | None = None, limit: int = 50, **filters: Any) -> Listing:
    return database.read(listing_queries.find_jobs(JobFilter(**filters), place, limit), 30)


def found(database: Database, **filters: Any) -> set[int]:
    """The numbers of all jobs that match, which are the last digits of their ids."""
    numbers: list[int] = []
    place = None
    for _ in range(1000):
        got = page(database, place, 20, **filters)
        numbers += [job.id.int & 0xFFFFFFFFFFFF for job in got.jobs]
        place = got.next
        if place is None:
            assert len(numbers) == len(set(numbers))
            return set(numbers)
    raise AssertionError("the pages do not end")


def condition(text: str) -> PayloadCondition:
    return read_payload_condition(text)


def create_index(connection: Connection[Any], text: str) -> None:
    connection.execute(index_statement(condition(text), "treadle").encode())


@pytest.mark.parametrize("status", STATUSES)
def test_jobs_are_selected_by_time(connection: Connection[Any], database: Database, status: str | None) -> None:
    every_second(connection, status, 100)
    every = set(range(100))
    assert found(database, status=status, since=after(90)) == set(range(90, 100)), "since is inclusive"
    assert found(database, status=status, until=after(10)) == set(range(10)), "until is not"
    assert found(database, status=status, since=after(30), until=after(60)) == set(range(30, 60))
    assert found(database, status=status, since=after(200)) == found(database, status=status, until=START) == set()
    assert found(database, status=status, since=datetime.min.replace(tzinfo=UTC)) == every
    assert found(database, status=status, until=datetime.max.replace(tzinfo=UTC)) == every


def test_an_empty_range_of_time_is_refused(database: Database) -> None:
    with pytest.raises(InvalidArgument, match="since must be before until"):
        page(database, since=after(1), until=after(1))


@pytest.mark.parametrize("status", ["failed", None])
def test_a_time_in_the_past_is_reached_without_reading_what_is_newer(
    connection: Connection[Any], status: str | None
) -> None:
    every_second(connection, status, 20_000)
    connection.execute("vacuum analyze jobs")

    def cost(**filters: Any) -> int:
        query = listing_queries.find_jobs(JobFilter(status=status, **filters), None, 10)
        return buffers(connection, query.bound("treadle"), query.params)

    newest = cost()
    assert cost(since=after(100), until=after(130)) <= 1.5 * newest + 10
    assert cost(until=after(130), search="nowhere") < 130 * 6 + 200, "it reads the older ones only"
    assert cost(since=after(100), until=after(130), search="nowhere") < 30 * 6 + 60
    assert cost(search="nowhere") > 10_000, "all jobs"


@pytest.mark.parametrize("status", STATUSES)
def test_digits_of_an_id_are_found_in_every_list(
    connection: Connection[Any], database: Database, status: str | None
) -> None:
    every_second(connection, status, 30)
    job = page(database, status=status).jobs[7]
    number = {job.id.int & 0xFFFFFFFFFFFF}
    assert found(database, status=status, search=job.id.hex[-8:]) == number
    assert found(database, status=status, search=str(job.id)[:13].upper()) >= number
    assert found(database, status=status, search=str(job.id)[-20:]) == number
    assert found(database, status=status, search="ffffffff") == set()
    assert found(database, status=status, search=job.id.hex[-7:]) == set(), "fewer could be a text"


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("indexed", [False, True])
def test_jobs_are_selected_by_a_value_in_the_payload(
    connection: Connection[Any], database: Database, status: str | None, indexed: bool
) -> None:
    every_second(connection, status, 120)
    if indexed:
        create_index(connection, 'data.order = ""')
        create_index(connection, "data.customer.id = 1")
    by_seven = {n for n in range(120) if n % 7 == 3}
    assert found(database, status=status, where=condition('data.order = "ORD-17"')) == {17, 117}
    assert found(database, status=status, where=condition("data.customer.id = 3")) == by_seven
    assert found(database, status=status, where=condition("data.customer.id = 3.0")) == by_seven, "as numbers"
    assert found(database, status=status, where=condition('data.customer.id = "3"')) == set()
    assert found(database, status=status, where=condition('data.customer = {"id": 3}')) == by_seven
    assert found(database, status=status, where=condition("data.customer.id exists")) == set(range(120))
    assert found(database, status=status, where=condition("data.nothing exists")) == set()
    both = {"where": condition("data.customer.id = 3"), "search": '"n": 9'}
    assert found(database, status=status, **both) == {n for n in by_seven if str(n).startswith("9")}
    ranged = {"where": condition("data.customer.id = 3"), "since": after(50), "until": after(80)}
    assert found(database, status=status, **ranged) == {n for n in by_seven if 50 <= n < 80}
    assert found(database, status=status, where=both["where"], job_type="b") == set()
    assert found(database, status=status, where=both["where"], queue="default", job_type="a") == by_seven
    exact = page(database, status=status, search=str(page(database, status=status).jobs[0].id), where=both["where"])
    assert len(exact.jobs) <= 1, "a complete id does not override the condition"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("null", "null"), ("true", "true"), ("false", "false"), ("[1, 2]", "[1,2]"), ('"\'; drop table x; --"', None),
        ('"100%_\\\\.*[a-z]+"', None), ('"smörgås 😀"', None), ('""', None), ("-1.50", "-1.5"), ("1e3", "1000"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("indexed", [False, True])
def test_any_value_can_be_compared(
    queue: JobQueue, connection: Connection[Any], database: Database, value: str, text: str | None, indexed: bool
) -> None:
    if indexed:
        create_index(connection, "data.x = 1")
    connection.execute("insert into jobs (job_type, data) values ('a', jsonb_build_object('x', %s::jsonb))", [value])
    queue.enqueue_many("a", [{"x": "other"}, {}, {"y": 1}])
    for given in filter(None, (value, text)):
        got = page(database, where=condition(f"data.x = {given}"))
        assert len(got.jobs) == 1, given


@pytest.mark.parametrize("name", ["a b", "it's", 'say "x"', "back\\slash", "öl", "null", "{}", "a,b", "%", "0"])
@pytest.mark.parametrize("indexed", [False, True])
def test_any_name_can_be_in_a_path(
    queue: JobQueue, connection: Connection[Any], database: Database, name: str, indexed: bool
) -> None:
    where = PayloadCondition(("deep", name), "1")
    assert read_payload_condition(str(where)) == where
    made = queue.enqueue("a", {"deep": {name: 1}})
    queue.enqueue("a", {"deep": {name: 2}, name: 1})
    if indexed:
        connection.execute(index_statement(where, "treadle").encode())
        assert database.read(listing_queries.has_payload_index(where.path))
    assert [job.id for job in page(database, where=where).jobs] == [made]


def test_a_search_by_payload_uses_an_index_if_there_is_one(connection: Connection[Any], database: Database) -> None:
    every_second(connection, "completed", 10_000)
    connection.execute("vacuum analyze jobs")
    where = condition('data.order = "ORD-17"')

    def cost(status: str | None, limit: int = 10) -> int:
        query = listing_queries.find_jobs(JobFilter(status=status, where=where), None, limit)
        return buffers(connection, query.bound("treadle"), query.params)

    assert not database.read(listing_queries.has_payload_index(where.path))
    before = cost(None, 200)
    assert before > 10_000
    create_index(connection, str(where))
    assert database.read(listing_queries.has_payload_index(where.path))
    assert not database.read(listing_queries.has_payload_index(["customer", "id"]))
    for status in (None, "completed"):
        assert cost(status) < 150
        assert cost(status, 200) < before / 10
    # Without statistics of the index, and with those of a time without jobs.
    connection.execute("analyze jobs")
    assert cost(None) < 150


@pytest.mark.parametrize("indexed", [None, "data.order = 1", "data.paid = true"])
@pytest.mark.parametrize("status", [None, "pending", "later", "blocked", "completed"])
def test_all_conditions_must_hold(
    queue: JobQueue, connection: Connection[Any], database: Database, indexed: str | None, status: str | None
) -> None:
    payloads = [
        {"order": 1, "paid": True, "note": None},
        {"order": 1, "paid": True},
        {"order": 1, "paid": False, "note": "x"},
        {"order": 2, "paid": True, "note": "x"},
        {"order": 1, "note": "x"},
    ]
    made = queue.enqueue_many("a", payloads)
    if status == "later":
        connection.execute("update jobs set run_at = now() + interval '1 hour'")
    elif status == "blocked":
        connection.execute("update jobs set holds = treadle.blocked_by_jobs()")
    elif status == "completed":
        connection.execute("update jobs set status = 'completed'")
    if indexed:
        create_index(connection, indexed)

    def found(text: str) -> set[int]:
        return {made.index(job.id) for job in page(database, status=status, where=condition(text)).jobs}

    assert found("data.order = 1 and data.paid = true") == {0, 1}
    assert found("data.note exists and data.order = 1") == {0, 2, 4}
    assert found("data.note exists and data.paid = true and data.order = 1") == {0}
    assert found("data.note = null and data.order = 1.0") == {0}
    assert found("data.order = 1 and data.order = 2") == set()
    assert found("data.order = 1 and data.missing exists") == set()


def test_an_index_for_any_of_the_conditions_is_used(connection: Connection[Any], database: Database) -> None:
    every_second(connection, "completed", 10_000)
    connection.execute("vacuum analyze jobs")
    create_index(connection, 'data.order = "x"')
    for text in ('data.order = "ORD-17" and data.missing = 1', 'data.missing exists and data.order = "ORD-17"'):
        query = listing_queries.find_jobs(JobFilter(where=condition(text)), None, 10)
        assert buffers(connection, query.bound("treadle"), query.params) < 1000, text


def test_an_index_accepts_values_of_any_size(queue: JobQueue, connection: Connection[Any], database: Database) -> None:
    create_index(connection, "data.x = 1")
    large = uuid.uuid4().hex * 1000
    made = queue.enqueue("a", {"x": large})
    assert len(page(database, search=large[:200]).jobs) == 1
    assert page(database, where=PayloadCondition(("x",), f'"{large}"')).jobs[0].id == made


def test_a_search_reports_how_far_it_has_come(
    connection: Connection[Any], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_second(connection, "failed", 100)
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 30)
    for status in ("failed", None):
        first = page(database, status=status, search="nowhere")
        assert (first.searched, first.examined, first.reached) == (30, 30, after(70))
        second = page(database, first.next, status=status, search="nowhere")
        assert (second.searched, second.reached) == (30, after(40))
        full = page(database, None, 5, status=status, search='"n"')
        assert (len(full.jobs), full.searched, full.examined, full.reached) == (5, 5, None, after(95))
    assert page(database, status="pending", search="nowhere").reached is None


def test_the_number_of_jobs_is_estimated(connection: Connection[Any], database: Database) -> None:
    every_second(connection, "failed", 300)
    every_second_completed = "update jobs set status = 'completed' where job_type = 'a' and (data->>'n')::int < 100"
    connection.execute(every_second_completed.encode())
    connection.execute("vacuum analyze jobs")
    assert database.read(listing_queries.estimate_jobs(None)) == 300
    assert database.read(listing_queries.estimate_jobs("failed")) == 200
    assert database.read(listing_queries.estimate_jobs("cancelled")) is None
