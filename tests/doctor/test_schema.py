"""The schema against what it should be: taken apart piece by piece, found, and mended by what the finding says."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.doctor import assert_ok, connected, findings, get_finding
from tests.support.waiting import until_waiting_for_lock
from treadle import migrate
from treadle.doctor import Severity
from treadle.doctor.expected_schema import expected_schema


@pytest.fixture
def own(own_url: str) -> Iterator[Connection[Any]]:
    with connected(own_url) as connection:
        yield connection


def mend(connection: Connection[Any], remedy: str) -> None:
    for line in remedy.splitlines():
        connection.execute(line.encode())


def test_the_expected_schema_is_that_of_a_fresh_database(own: Connection[Any]) -> None:
    plan = expected_schema(own.info.server_version, "treadle")
    indexes = own.execute(
        """select indexname, tablename from pg_indexes
        where schemaname = 'treadle' and tablename not in ('migrations', 'functions')"""
    )
    assert {name: index.table for name, index in plan.indexes.items()} == dict(indexes.fetchall())
    triggers = own.execute(
        "select tgname, relname from pg_trigger join pg_class on pg_class.oid = tgrelid where not tgisinternal"
    )
    assert plan.triggers == dict(triggers.fetchall())
    tables = own.execute(
        """select relname, coalesce((select jsonb_object_agg(option_name, option_value)
            from pg_options_to_table(reloptions)), '{}')
        from pg_class where relnamespace = 'treadle'::regnamespace and relkind = 'r'
            and relname not in ('migrations', 'functions')"""
    )
    assert plan.options == dict(tables.fetchall())
    functions = own.execute("select proname from pg_proc where pronamespace = 'treadle'::regnamespace").fetchall()
    assert plan.functions.keys() == {name for (name,) in functions}
    assert plan.options["jobs"]["fillfactor"] == "90"


def test_no_schema(empty_url: str) -> None:
    found = findings(empty_url)
    assert found["schema"].level is Severity.CRITICAL
    assert found["schema"].title == "There is no schema treadle in this database."
    assert found["schema"].remedy == "treadle migrate"
    assert found["held_snapshot"].level is Severity.OK
    assert "indexes" not in found
    migrate(empty_url)
    assert_ok(empty_url, "schema")
    other = findings(empty_url, schema="Other")["schema"]
    assert other.remedy == "treadle migrate --schema Other"


def test_a_schema_of_another_name_is_examined(empty_url: str) -> None:
    migrate(empty_url, "Other")
    found = findings(empty_url, schema="Other")
    assert {each.name: each for each in found.values() if each.level.rank > Severity.NOTE.rank} == {}
    assert "indexes" in found


@pytest.mark.parametrize(
    ("version", "title", "remedy"),
    [(99, "newer", "Upgrade the treadle package."), (None, "older", "treadle migrate")],
)
def test_a_schema_of_another_version(
    own_url: str, own: Connection[Any], version: int | None, title: str, remedy: str
) -> None:
    if version:
        own.execute("insert into migrations (version, name) values (%s, 'later')", [version])
    else:
        own.execute("delete from migrations where version = (select max(version) from migrations)")
    found = findings(own_url)
    assert found["schema"].level is Severity.CRITICAL
    assert title in found["schema"].title
    assert found["schema"].remedy == remedy
    assert "indexes" not in found


def test_functions_of_another_version(own_url: str, own: Connection[Any]) -> None:
    own.execute("update functions set digest = 'old' where name = 'tick'")
    found = findings(own_url)
    assert (found["schema"].level, found["schema"].detail) == (Severity.WARNING, "tick")
    assert found["functions"].level is Severity.OK
    migrate(own_url)
    assert_ok(own_url, "schema")


def test_functions_that_were_changed_or_dropped_by_hand(own_url: str, own: Connection[Any]) -> None:
    own.execute("create or replace function channel(p_kind text) returns text language sql as 'select p_kind'")
    changed = get_finding(own_url, "functions")
    assert (changed.level, changed.detail) == (Severity.WARNING, "channel was changed")
    own.execute("drop function held_jobs")
    dropped = get_finding(own_url, "functions")
    assert (dropped.level, dropped.detail) == (Severity.CRITICAL, "held_jobs is missing\nchannel was changed")
    statement, then = dropped.remedy.splitlines()
    assert then == "then: treadle migrate"
    own.execute(statement.encode())
    migrate(own_url)
    assert_ok(own_url, "functions")


def test_a_missing_index(own_url: str, own: Connection[Any]) -> None:
    assert_ok(own_url, "indexes")
    own.execute("drop index idx_jobs_claimable")
    found = get_finding(own_url, "indexes")
    assert (found.level, found.detail) == (Severity.CRITICAL, "idx_jobs_claimable on jobs is missing")
    mend(own, found.remedy)
    assert_ok(own_url, "indexes")


def test_any_index_can_be_made_anew_as_it_was(own: Connection[Any]) -> None:
    definitions = "select indexname, indexdef from pg_indexes where schemaname = 'treadle' order by 1"
    before = own.execute(definitions).fetchall()
    for name, index in expected_schema(own.info.server_version, "treadle").indexes.items():
        if name == "stored_pkey":  # others refer to it
            continue
        own.execute(f"alter table {index.table} drop constraint {name}" if "_pkey" in name else f"drop index {name}")
        own.execute(index.statement.encode())
    assert own.execute(definitions).fetchall() == before


def test_an_index_that_was_left_half_done(own_url: str, own: Connection[Any]) -> None:
    own.execute("insert into jobs (job_type) values ('a'), ('a')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        own.execute("create unique index concurrently extra on jobs (job_type)")
    found = get_finding(own_url, "indexes")
    assert (found.level, found.detail) == (Severity.WARNING, "extra is invalid, and not one of Treadle's")
    mend(own, found.remedy)
    assert_ok(own_url, "indexes")


@pytest.mark.parametrize(
    ("isolation", "statement", "ready"),
    [
        ("read committed", "insert into jobs (job_type) values ('a')", False),
        ("repeatable read", "select from pg_class", True),
    ],
)
def test_an_index_of_ours_that_is_invalid(
    own_url: str, own: Connection[Any], isolation: str, statement: str, ready: bool
) -> None:
    # A build that waits for a transaction, at its beginning or near its end, and is cancelled leaves one behind.
    own.execute("drop index idx_jobs_worker")
    with connected(own_url) as holder, connected(own_url) as builder, ThreadPoolExecutor(1) as thread:
        holder.execute(f"begin isolation level {isolation}")
        holder.execute(statement.encode())
        made = thread.submit(builder.execute, "create index concurrently idx_jobs_worker on jobs (worker_id)")
        until_waiting_for_lock(own)
        own.execute("select pg_cancel_backend(%s)", [builder.info.backend_pid])
        with pytest.raises(psycopg.errors.QueryCanceled):
            made.result()
        holder.execute("rollback")
    left = "select indisready, indisvalid from pg_index where indexrelid = 'idx_jobs_worker'::regclass"
    assert own.execute(left).fetchone() == (ready, False)
    found = get_finding(own_url, "indexes")
    assert (found.level, found.detail) == (Severity.CRITICAL, "idx_jobs_worker on jobs is invalid")
    mend(own, found.remedy)
    assert_ok(own_url, "indexes")


def test_a_disabled_trigger(own_url: str, own: Connection[Any]) -> None:
    assert_ok(own_url, "triggers")
    own.execute("alter table jobs disable trigger register_lanes")
    found = get_finding(own_url, "triggers")
    assert (found.level, found.detail) == (Severity.CRITICAL, "register_lanes is disabled")
    mend(own, found.remedy)
    assert_ok(own_url, "triggers")
    own.execute("alter table jobs enable replica trigger register_lanes")
    assert get_finding(own_url, "triggers").level is Severity.CRITICAL


def test_a_missing_trigger(own_url: str, own: Connection[Any]) -> None:
    own.execute("drop trigger unblock_next on jobs")
    found = get_finding(own_url, "triggers")
    assert (found.level, found.detail) == (Severity.CRITICAL, "unblock_next is missing")
    statement, then = found.remedy.splitlines()
    assert then == "then: treadle migrate"
    own.execute(statement.encode())
    migrate(own_url)
    assert_ok(own_url, "triggers")


def test_settings_that_a_table_lost(own_url: str, own: Connection[Any]) -> None:
    assert_ok(own_url, "table_settings")
    own.execute("alter table jobs reset (autovacuum_vacuum_scale_factor, fillfactor)")
    found = get_finding(own_url, "table_settings")
    assert found.level is Severity.WARNING
    assert found.detail.splitlines() == [
        "jobs: fillfactor = 90 is missing",
        "jobs: autovacuum_vacuum_scale_factor = 0.01 is missing",
    ]
    mend(own, found.remedy)
    assert_ok(own_url, "table_settings")


def test_settings_that_somebody_chose_are_a_note(own_url: str, own: Connection[Any]) -> None:
    own.execute("alter table jobs set (autovacuum_vacuum_scale_factor = 0.005)")
    found = get_finding(own_url, "table_settings")
    assert (found.level, found.detail) == (
        Severity.NOTE,
        "jobs: autovacuum_vacuum_scale_factor is 0.005 instead of 0.01",
    )
    own.execute("alter table jobs set (autovacuum_vacuum_scale_factor = 0.010)")
    assert_ok(own_url, "table_settings")


def test_a_missing_table(own_url: str, own: Connection[Any]) -> None:
    own.execute("drop table audit")
    found = get_finding(own_url, "table_settings")
    assert (found.level, found.detail) == (Severity.CRITICAL, "audit")


@pytest.mark.parametrize(("table", "level"), [("logs", Severity.WARNING), ("jobs", Severity.CRITICAL)])
def test_an_unlogged_table(own_url: str, own: Connection[Any], table: str, level: Severity) -> None:
    assert_ok(own_url, "unlogged_tables")
    own.execute(f"alter table {table} set unlogged")
    found = get_finding(own_url, "unlogged_tables")
    assert (found.level, found.detail) == (level, table)
    mend(own, found.remedy)
    assert_ok(own_url, "unlogged_tables")


@pytest.mark.parametrize(("table", "level"), [("logs", Severity.WARNING), ("jobs", Severity.CRITICAL)])
def test_autovacuum_off_for_a_table(own_url: str, own: Connection[Any], table: str, level: Severity) -> None:
    own.execute(f"alter table {table} set (autovacuum_enabled = off)")
    found = get_finding(own_url, "autovacuum_off")
    assert (found.level, found.detail) == (level, f"autovacuum is off for the table {table}")
    mend(own, found.remedy)
    assert_ok(own_url, "autovacuum_off")
