"""The cost of a page does not depend on the number of jobs. It is counted in buffers, not in time."""

from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.waiting import until_ticks_change_nothing, wait_for_floor_margin
from treadle.db.queries import listing as listing_queries
from treadle.words.listing import JobFilter

pytestmark = pytest.mark.fresh_database

FEW, MANY = 1_000, 5_000
LISTS = ["completed", "failed", "cancelled", "claimed", "running", "pending", "later", "blocked", None]
# One list of each sort order. Claimed and running jobs are few, and are sorted in memory.
ORDERS = ["failed", "pending", "later", "blocked", None]


def cost(
    connection: Connection[Any], rows: int = 11, after: str | None = None, tick: bool = False, **filters: Any
) -> int:
    """How many buffers a page of ten jobs touches. It must return `rows` rows."""
    query = listing_queries.find_jobs(JobFilter(**filters), after, 10)
    return buffers(connection, query.bound("treadle"), query.params, rows, tick)


def fill(connection: Connection[Any], status: str | None, count: int, job_type: str = "mine", age: str = "0") -> None:
    """Add jobs of this age to a list."""
    row = {"blocked": "pending", "later": "pending", None: "completed"}.get(status, status)
    connection.execute(
        """insert into jobs (id, job_type, status, finished_at, claimed_at, worker_id, run_at, holds)
        select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || '7000' || '8000'
                || lpad(to_hex(n), 12, '0'))::uuid,
            %(job_type)s, %(row)s::text,
            case when %(row)s::text in ('completed', 'failed', 'cancelled') then moment end,
            case when %(row)s::text in ('claimed', 'running') then moment end,
            case when %(row)s::text in ('claimed', 'running') then 'w' end,
            case when %(later)s then now() + interval '1 day' + n * interval '1 second' else moment end,
            case when %(blocked)s then 4 else 0 end
        from (select n, now() - %(age)s::interval + n * interval '1 millisecond' as moment
            from generate_series(1, %(count)s) as n) as made""",
        {"job_type": job_type, "row": row, "later": status == "later", "blocked": status == "blocked", "age": age}
        | {"count": count},
    )


def others(status: str) -> list[str]:
    """The lists that share no jobs with this one. Claimed and running jobs are few and share one index."""
    alike = {"pending", "later"} if status in ("pending", "later") else {status}
    return [other for other in LISTS if other and other not in {*alike, "claimed", "running"}]


@pytest.mark.parametrize("status", [each for each in LISTS if each])
def test_jobs_of_other_lists_do_not_add_to_the_cost(connection: Connection[Any], status: str) -> None:
    fill(connection, status, FEW)
    before = cost(connection, status=status)
    for other in others(status):
        fill(connection, other, MANY // 4, age="1 minute")
        fill(connection, other, MANY // 4)
    assert cost(connection, status=status) <= 1.5 * before + 10


@pytest.mark.parametrize("status", ORDERS)
def test_more_jobs_in_the_same_list_do_not_add_to_the_cost(connection: Connection[Any], status: str | None) -> None:
    fill(connection, status, FEW)
    before = cost(connection, status=status)
    fill(connection, status, MANY, age="1 hour")
    assert cost(connection, status=status) <= 1.5 * before + 10


@pytest.mark.parametrize("status", ORDERS)
def test_outdated_statistics_do_not_lead_to_sorting_all_jobs(connection: Connection[Any], status: str | None) -> None:
    """The statistics are from a time without jobs in this list: the planner expects one row."""
    fill(connection, "cancelled" if status != "cancelled" else "failed", MANY)
    connection.execute("vacuum analyze jobs")
    fill(connection, status, FEW)
    before = cost(connection, status=status)
    fill(connection, status, MANY, age="1 hour")
    assert cost(connection, status=status) <= 1.5 * before + 10


@pytest.mark.parametrize("status", ORDERS)
def test_a_late_page_costs_as_little_as_the_first(connection: Connection[Any], status: str | None) -> None:
    fill(connection, status, MANY, age="1 hour")
    connection.execute("vacuum analyze jobs")
    before = cost(connection, status=status)
    after = None
    for _ in range(5):
        query = listing_queries.find_jobs(JobFilter(status=status), after, 800)
        after = query.read(connection.execute(query.bound("treadle"), query.params, prepare=False).fetchall()).next
    assert after
    assert cost(connection, after=after, status=status) <= 1.5 * before + 10


@pytest.mark.parametrize("status", ORDERS)
def test_a_query_stops_when_the_page_is_full(connection: Connection[Any], status: str | None) -> None:
    fill(connection, status, MANY, age="1 hour")
    connection.execute("vacuum analyze jobs")
    before = cost(connection, status=status)
    assert cost(connection, status=status, search="{") <= 2 * before + 20


@pytest.mark.parametrize("status", ["failed", "pending", "blocked", None])
def test_a_query_that_finds_nothing_is_bounded(
    connection: Connection[Any], monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 500)
    fill(connection, status, FEW)
    connection.execute("vacuum analyze jobs")
    before = cost(connection, 1, status=status, search="nowhere")
    fill(connection, status, MANY, age="1 hour")
    assert cost(connection, 1, status=status, search="nowhere") <= 1.5 * before + 10


def test_lanes_of_other_types_do_not_add_to_the_cost(connection: Connection[Any]) -> None:
    fill(connection, "pending", FEW)
    before = cost(connection, status="pending", job_type="mine")
    for nth in range(10):
        fill(connection, "pending", MANY // 10, f"foreign-{nth}", age="1 hour")
    assert cost(connection, status="pending", job_type="mine") <= 1.5 * before + 10


def test_the_jobs_of_a_key_are_found_among_many_keys(connection: Connection[Any]) -> None:
    for key in ("k", "other"):
        connection.execute("insert into jobs (job_type, key) select 'mine', %s from generate_series(1, 30)", [key])
    before = cost(connection, status="blocked", key="k")
    connection.execute("insert into jobs (job_type, key) select 'mine', 'k' || n from generate_series(1, 5000) as n")
    assert cost(connection, status="blocked", key="k") <= 1.5 * before + 10
    assert cost(connection, 1, status="pending", key="k") <= 1.5 * before + 10


def test_dead_rows_at_the_head_of_a_lane_are_not_read(connect: Connect) -> None:
    connection = connect()
    fill(connection, "pending", FEW)
    wait_for_floor_margin(connection)
    before = cost(connection, status="pending")
    connection.execute("delete from jobs")
    snapshot = connect(autocommit=False)
    snapshot.execute("set transaction isolation level repeatable read")
    snapshot.execute("select count(*) from lanes")
    late = connect(autocommit=False)
    late.execute("select pg_current_xact_id()")
    fill(connection, "pending", MANY, age="1 hour")
    connection.execute("update jobs set status = 'completed', finished_at = now() where status = 'pending'")
    fill(connection, "pending", FEW)
    wait_for_floor_margin(connection)
    dead = cost(connection, status="pending")
    until_ticks_change_nothing(connection)
    # Like any long transaction on the server: until the next tick, it may have committed jobs below the floor.
    late.execute("commit")
    settled = cost(connection, status="pending", tick=True)
    assert settled <= 1.5 * before + 10
    assert dead > 3 * settled, "without the floor, the page reads the dead rows"
