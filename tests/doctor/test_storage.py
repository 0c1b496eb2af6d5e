"""Dead rows, bloat and autovacuum problems: created for real, found, and gone after the remedy."""

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
from treadle.doctor.rules.storage import (
    check_autovacuum,
    check_bloat,
    check_tables,
    expected_bytes,
    expected_heap,
    threshold,
)

CONTEXT = Context("treadle", Limits(), "1")
TABLE = Table("jobs", False, {}, 1000.0, 1 << 20, 1000, 0, 60.0, 1000.0)


@pytest.fixture
def own_connection(own_url: str) -> Iterator[Connection[Any]]:
    """A connection to a database in which autovacuum ignores the jobs table."""
    with connected(own_url) as connection:
        connection.execute("alter table jobs set (autovacuum_enabled = off)")
        yield connection


def make_dead_rows(url: str, connection: Connection[Any], jobs: int = 600) -> None:
    connection.execute("insert into jobs (job_type) select 'a' from generate_series(1, %s)", [jobs])
    # An open snapshot keeps each update from removing the dead rows of the one before.
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


def test_dead_rows_are_found(own_url: str, own_connection: Connection[Any]) -> None:
    assert_ok(own_url, "dead_rows", AT_ONCE)
    make_dead_rows(own_url, own_connection)
    found = get_finding(own_url, "dead_rows", AT_ONCE)
    assert found.level is Severity.NOTE
    assert found.detail.startswith("jobs: 1,200 dead, 600 live, ")
    assert_ok(own_url, "dead_rows")
    vacuum(own_connection, found.remedy)
    assert_ok(own_url, "dead_rows", AT_ONCE)


def test_autovacuum_that_falls_behind_is_found(own_url: str, own_connection: Connection[Any]) -> None:
    own_connection.execute("alter table jobs set (autovacuum_vacuum_threshold = 100)")
    make_dead_rows(own_url, own_connection)
    found = get_finding(own_url, "autovacuum_lag", AT_ONCE)
    assert found.level is Severity.NOTE
    assert found.detail == "jobs: 1,200 dead rows, threshold 100, never vacuumed"
    assert_ok(own_url, "autovacuum_lag")
    vacuum(own_connection, found.remedy)
    assert_ok(own_url, "autovacuum_lag", AT_ONCE)


def test_a_bloated_index_is_found(own_url: str, own_connection: Connection[Any]) -> None:
    own_connection.execute("insert into jobs (job_type) select 'a' from generate_series(1, 20000)")
    own_connection.execute("analyze jobs")
    assert_ok(own_url, "index_bloat", AT_ONCE)
    own_connection.execute("delete from jobs")
    own_connection.execute("vacuum jobs")
    found = get_finding(own_url, "index_bloat", AT_ONCE)
    assert found.level.rank >= Severity.NOTE.rank
    assert "estimate" in found.title
    assert "idx_jobs_claimable: " in found.detail
    assert "for about 0 rows, about 16 kB if rebuilt" in found.detail
    assert_ok(own_url, "index_bloat")
    for statement in found.remedy.splitlines():
        own_connection.execute(statement.encode())
    assert_ok(own_url, "index_bloat", AT_ONCE)


def test_a_bloated_table_is_found(own_url: str, own_connection: Connection[Any]) -> None:
    limits = AT_ONCE._replace(table_bytes=100 << 10)
    own_connection.execute(
        "insert into jobs (job_type, data) select 'a', jsonb_build_object('n', n) from generate_series(1, 20000) as n"
    )
    own_connection.execute("vacuum analyze jobs")
    assert_ok(own_url, "table_bloat", limits)
    # The last rows stay, so that vacuum cannot cut off the end.
    own_connection.execute("delete from jobs where (data ->> 'n')::int <= 19000")
    own_connection.execute("vacuum analyze jobs")
    found = get_finding(own_url, "table_bloat", limits)
    assert found.level.rank >= Severity.NOTE.rank
    assert "jobs: " in found.detail
    assert "for about 1,000 rows, about " in found.detail
    assert_ok(own_url, "table_bloat")
    assert "pg_repack --table=treadle.jobs" in found.remedy
    statement = found.remedy.splitlines()[-1]
    assert statement == "vacuum full treadle.jobs;"
    own_connection.execute(statement.encode())
    own_connection.execute("analyze jobs")
    assert_ok(own_url, "table_bloat", limits)


def test_the_estimated_size_of_a_table_is_close_to_its_real_size(own_connection: Connection[Any]) -> None:
    own_connection.execute(
        """insert into jobs (job_type, key, status, worker_id, finished_at, last_error)
        select 'resize', 'k' || n, ('{pending, running, completed}'::text[])[1 + n % 3],
            'host-' || n % 50, now() - n * interval '1 second', case when n % 2 = 0 then repeat('x', 100) end
        from generate_series(1, 20000) as n"""
    )
    own_connection.execute("vacuum analyze jobs")
    (jobs,) = [
        each for each in run(own_connection, queries.rows_of("find_tables", Table), "treadle") if each.name == "jobs"
    ]
    assert 0.5 < jobs.heap / expected_heap(jobs) < 2, jobs


def test_the_estimated_size_of_an_index_is_close_to_its_real_size(own_connection: Connection[Any]) -> None:
    """For every index that is large enough, before any row was removed."""
    own_connection.execute(
        """insert into jobs (job_type, key, unique_key, status, worker_id, finished_at)
        select 'resize', 'k' || n, 'u' || n, ('{pending, running, completed}'::text[])[1 + n % 3],
            'host-' || n % 50, now() - n * interval '1 second'
        from generate_series(1, 20000) as n"""
    )
    own_connection.execute("vacuum analyze jobs")
    own_connection.execute("reindex table jobs")
    own_connection.execute("analyze jobs")
    judged = [
        each
        for each in run(own_connection, queries.rows_of("find_indexes", Index), "treadle")
        if each.bytes > 200 << 10
    ]
    assert len(judged) >= 4
    for each in judged:
        assert 0.25 < each.bytes / expected_bytes(each) < 2, each


def test_autovacuum_without_a_free_process_is_found(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute(
            """create table public.slow with (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
                autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0)
            as select n from generate_series(1, 50000) as n"""
        )
        connection.execute("delete from public.slow where n % 2 = 0")
        connection.execute("select pg_stat_force_next_flush()")  # otherwise after ten seconds
        try:
            until(
                lambda: one(
                    connection, "select count(*) from pg_stat_progress_vacuum where datname = current_database()"
                )
            )
            found = until(lambda: _unless_ok(get_finding(small_server_url, "autovacuum_busy", AT_ONCE)))
            assert found.level is Severity.NOTE
            assert "1 of 1 have been busy" in found.title
            assert_ok(small_server_url, "autovacuum_busy")
        finally:
            connection.execute("drop table public.slow")
    until(lambda: get_finding(small_server_url, "autovacuum_busy", AT_ONCE).level is Severity.OK)


def _unless_ok(found: Finding) -> Finding | None:
    return None if found.level is Severity.OK else found


@pytest.mark.parametrize("setting", ["autovacuum", "track_counts"])
def test_disabled_autovacuum_of_the_server_is_found(small_server_url: str, setting: str) -> None:
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
def test_a_number_of_dead_rows_has_the_right_severity(dead: int, live: int, expected: Severity) -> None:
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
        (1_000_000, 1_000_000, 600, 9e9, Severity.OK),  # less than 5 times its threshold
    ],
)
def test_late_autovacuum_has_the_right_severity(
    dead: int, rows: float, vacuumed: float | None, age: float | None, expected: Severity
) -> None:
    table = TABLE._replace(dead=dead, rows=rows, vacuumed=vacuumed, age=age)
    assert check_tables(CONTEXT, server(), [table])[2].level is expected


def test_the_threshold_comes_from_the_table_or_else_from_the_server() -> None:
    settings = {"autovacuum_vacuum_threshold": "50", "autovacuum_vacuum_scale_factor": "0.2"}
    assert threshold(settings, TABLE) == 250
    assert threshold(settings, TABLE._replace(rows=-1.0)) == 50
    table_options = {"autovacuum_vacuum_threshold": "7", "autovacuum_vacuum_scale_factor": "0"}
    assert threshold(settings, TABLE._replace(options=table_options)) == 7
    assert threshold(settings | {"autovacuum_vacuum_max_threshold": "60"}, TABLE) == 60
    assert threshold(settings | {"autovacuum_vacuum_max_threshold": "-1"}, TABLE) == 250


def test_busy_autovacuum_is_worse_while_our_tables_wait() -> None:
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
        (-1, 512 << 20, Severity.OK),  # without statistics
    ],
)
def test_the_size_of_an_index_has_the_right_severity(rows: float, size: int, expected: Severity) -> None:
    index = Index("idx_jobs_claimable", "jobs", True, False, rows, 30.0, size)
    assert check_bloat(CONTEXT, [index])[0].level is expected
