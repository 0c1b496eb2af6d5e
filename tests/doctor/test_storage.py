"""Dead rows, bloat and autovacuum: made for real, found, and gone after the remedy."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.support.doctor import AT_ONCE, assert_ok, connected, get_finding, server_settings
from tests.support.workers import one, until
from treadle.db.runner import run
from treadle.doctor import Finding, Limits, Severity, queries
from treadle.doctor.facts import AutovacuumWorker, Index, Server, Table
from treadle.doctor.finding import Context
from treadle.doctor.rules.storage import check_autovacuum, check_bloat, check_tables, expected_bytes, threshold

CONTEXT = Context("treadle", Limits(), "1")
TABLE = Table("jobs", False, {}, 1000.0, 1 << 20, 1000, 0, 60.0, 1000.0)


@pytest.fixture
def own(own_url: str) -> Iterator[Connection[Any]]:
    """A database whose jobs autovacuum leaves alone."""
    with connected(own_url) as connection:
        connection.execute("alter table jobs set (autovacuum_enabled = off)")
        yield connection


def make_dead_rows(url: str, connection: Connection[Any], jobs: int = 600) -> None:
    connection.execute("insert into jobs (job_type) select 'a' from generate_series(1, %s)", [jobs])
    # While somebody could still see them, an update does not clear away what the one before it left.
    with connected(url) as reader:
        reader.execute("begin isolation level repeatable read")
        reader.execute("select from jobs limit 1")
        connection.execute("update jobs set progress = 1")
        connection.execute("update jobs set progress = 2")
    counted = "select n_dead_tup from pg_stat_user_tables where schemaname = 'treadle' and relname = 'jobs'"
    until(lambda: one(connection, counted) == 2 * jobs)


def vacuum(connection: Connection[Any], remedy: str) -> None:
    (statement,) = [f"vacuum {part}".strip() for part in remedy.splitlines()[0].split("vacuum ")[1:]]
    connection.execute(statement.encode())
    counted = "select n_dead_tup from pg_stat_user_tables where schemaname = 'treadle' and relname = 'jobs'"
    until(lambda: one(connection, counted) == 0)


def test_dead_rows(own_url: str, own: Connection[Any]) -> None:
    assert_ok(own_url, "dead_rows", AT_ONCE)
    make_dead_rows(own_url, own)
    found = get_finding(own_url, "dead_rows", AT_ONCE)
    assert found.level is Severity.NOTE
    assert found.detail.startswith("jobs: 1,200 dead, 600 live, ")
    assert_ok(own_url, "dead_rows")
    vacuum(own, found.remedy)
    assert_ok(own_url, "dead_rows", AT_ONCE)


def test_autovacuum_that_does_not_keep_up(own_url: str, own: Connection[Any]) -> None:
    own.execute("alter table jobs set (autovacuum_vacuum_threshold = 100)")
    make_dead_rows(own_url, own)
    found = get_finding(own_url, "autovacuum_lag", AT_ONCE)
    assert found.level is Severity.NOTE
    assert found.detail == "jobs: 1,200 dead rows, threshold 100, never vacuumed"
    assert_ok(own_url, "autovacuum_lag")
    vacuum(own, found.remedy)
    assert_ok(own_url, "autovacuum_lag", AT_ONCE)


def test_an_index_that_has_grown(own_url: str, own: Connection[Any]) -> None:
    own.execute("insert into jobs (job_type) select 'a' from generate_series(1, 20000)")
    own.execute("analyze jobs")
    assert_ok(own_url, "index_bloat", AT_ONCE)
    own.execute("delete from jobs")
    own.execute("vacuum jobs")
    found = get_finding(own_url, "index_bloat", AT_ONCE)
    assert found.level.rank >= Severity.NOTE.rank
    assert "estimate" in found.title
    assert "idx_jobs_claimable: " in found.detail
    assert "for about 0 rows, about 16 kB if rebuilt" in found.detail
    assert_ok(own_url, "index_bloat")
    for statement in found.remedy.splitlines():
        own.execute(statement.encode())
    assert_ok(own_url, "index_bloat", AT_ONCE)


def test_an_estimate_is_near_the_truth(own: Connection[Any]) -> None:
    """Of every index that is large enough to be judged, before anything was removed from it."""
    own.execute(
        """insert into jobs (job_type, key, unique_key, status, worker_id, finished_at)
        select 'resize', 'k' || n, 'u' || n, ('{pending, running, completed}'::text[])[1 + n % 3],
            'host-' || n % 50, now() - n * interval '1 second'
        from generate_series(1, 20000) as n"""
    )
    own.execute("vacuum analyze jobs")
    own.execute("reindex table jobs")
    own.execute("analyze jobs")
    judged = [each for each in run(own, queries.find_indexes(), "treadle") if each.bytes > 200 << 10]
    assert len(judged) >= 4
    for each in judged:
        assert 0.25 < each.bytes / expected_bytes(each) < 2, each


def test_autovacuum_with_no_process_free(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute(
            """create table public.slow with (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
                autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0)
            as select n from generate_series(1, 50000) as n"""
        )
        connection.execute("delete from public.slow where n % 2 = 0")
        try:
            found = until(lambda: _unless_well(get_finding(small_server_url, "autovacuum_busy", AT_ONCE)))
            assert found.level is Severity.NOTE
            assert "1 of 1 have been busy" in found.title
            assert_ok(small_server_url, "autovacuum_busy")
        finally:
            connection.execute("drop table public.slow")
    until(lambda: get_finding(small_server_url, "autovacuum_busy", AT_ONCE).level is Severity.OK)


def _unless_well(found: Finding) -> Finding | None:
    return None if found.level is Severity.OK else found


@pytest.mark.parametrize("setting", ["autovacuum", "track_counts"])
def test_autovacuum_that_is_off_on_the_server(small_server_url: str, setting: str) -> None:
    assert_ok(small_server_url, "autovacuum_off")
    with server_settings(small_server_url, **{setting: "off"}):
        found = get_finding(small_server_url, "autovacuum_off")
        assert (found.level, found.detail) == (Severity.CRITICAL, f"{setting} is off on the server")
    assert_ok(small_server_url, "autovacuum_off")


def server(**settings: str) -> Server:
    return Server(datetime.now(UTC), 180000, "ada", False, True, settings, 0.0)


@pytest.mark.parametrize(
    ("dead", "live", "expected"),
    [
        (99_999, 0, Severity.OK),
        (100_000, 10, Severity.NOTE),
        (1_000_000, 10, Severity.WARNING),
        (10_000_000, 10, Severity.CRITICAL),
        (1_000_000, 1_000_000, Severity.OK),
    ],
)
def test_how_many_dead_rows_there_may_be(dead: int, live: int, expected: Severity) -> None:
    assert check_tables(CONTEXT, server(), [TABLE._replace(dead=dead, live=live)])[1].level is expected


@pytest.mark.parametrize(
    ("dead", "rows", "vacuumed", "age", "expected"),
    [
        (100_000, 1000, 599, 9e9, Severity.OK),
        (100_000, 1000, 600, 9e9, Severity.NOTE),
        (100_000, 1000, None, 600, Severity.NOTE),
        (100_000, 1000, None, 599, Severity.OK),
        (100_000, 1000, None, None, Severity.OK),
        (1_000_000, 1000, 600, 9e9, Severity.WARNING),
        (1_000_000, 1_000_000, 600, 9e9, Severity.OK),  # less than five times its threshold
    ],
)
def test_how_far_autovacuum_may_be_behind(
    dead: int, rows: float, vacuumed: float | None, age: float | None, expected: Severity
) -> None:
    table = TABLE._replace(dead=dead, rows=rows, vacuumed=vacuumed, age=age)
    assert check_tables(CONTEXT, server(), [table])[2].level is expected


def test_the_threshold_is_the_tables_own_else_the_servers() -> None:
    settings = {"autovacuum_vacuum_threshold": "50", "autovacuum_vacuum_scale_factor": "0.2"}
    assert threshold(settings, TABLE) == 250
    assert threshold(settings, TABLE._replace(rows=-1.0)) == 50
    own = {"autovacuum_vacuum_threshold": "7", "autovacuum_vacuum_scale_factor": "0"}
    assert threshold(settings, TABLE._replace(options=own)) == 7
    assert threshold(settings | {"autovacuum_vacuum_max_threshold": "60"}, TABLE) == 60
    assert threshold(settings | {"autovacuum_vacuum_max_threshold": "-1"}, TABLE) == 250


def test_busy_processes_matter_more_while_our_tables_wait() -> None:
    busy = [AutovacuumWorker(None, 60.0)] * 3
    settings = server(autovacuum_max_workers="3")
    assert check_autovacuum(CONTEXT, settings, [TABLE], busy[:2])[0].level is Severity.OK
    assert (
        check_autovacuum(CONTEXT, settings, [TABLE], [*busy[:2], AutovacuumWorker(None, 59.0)])[0].level is Severity.OK
    )
    assert check_autovacuum(CONTEXT, settings, [TABLE], busy)[0].level is Severity.NOTE
    found = check_autovacuum(CONTEXT, settings, [TABLE._replace(dead=10_000)], busy)[0]
    assert found.level is Severity.WARNING
    assert "waiting for vacuum: jobs" in found.detail


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [
        (0, (64 << 20) - 1, Severity.OK),
        (0, 64 << 20, Severity.NOTE),
        (0, 512 << 20, Severity.WARNING),
        (10_000_000, 512 << 20, Severity.OK),
        (-1, 512 << 20, Severity.OK),  # never counted
    ],
)
def test_how_large_an_index_may_be(rows: float, size: int, expected: Severity) -> None:
    index = Index("idx_jobs_claimable", "jobs", True, rows, 30.0, size)
    assert check_bloat(CONTEXT, [index])[0].level is expected
