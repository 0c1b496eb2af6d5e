"""Differences from the expected schema: each is created, found, and repaired by the remedy of the finding."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chaos.next_version import write_next_version
from psycopg import Connection

from tests.support.databases import SharedDatabase
from tests.support.doctor import assert_ok, connected, findings, get_finding
from tests.support.next_version import sql_of
from tests.support.roles import granted_roles, schema_owner
from tests.support.sessions import Sessions, continue_sessions
from tests.support.waiting import until_waiting_for_lock
from treadle import migrate
from treadle.doctor import Severity
from treadle.doctor.expected_schema import expected_schema


@pytest.fixture
def own_connection(own_url: str) -> Iterator[Connection[Any]]:
    with connected(own_url) as connection:
        yield connection


@pytest.fixture(scope="module")
def kept_url(module_url: str, shared_database: SharedDatabase) -> Iterator[str]:
    """A database whose sessions stay open. Its tests repair what they break."""
    sessions = Sessions(module_url)
    with pytest.MonkeyPatch.context() as monkeypatch:
        continue_sessions(sessions, monkeypatch)  # after those of the shared database
        yield module_url
    sessions.close()


@pytest.fixture
def kept_connection(kept_url: str) -> Iterator[Connection[Any]]:
    with connected(kept_url) as connection:
        yield connection


def apply_remedy(connection: Connection[Any], remedy: str) -> None:
    for line in remedy.splitlines():
        connection.execute(line.encode())


def assert_critical_and_mended(url: str, connection: Connection[Any], name: str, detail: str) -> None:
    found = get_finding(url, name)
    assert (found.level, found.detail) == (Severity.CRITICAL, detail)
    apply_remedy(connection, found.remedy)
    assert_ok(url, name)


def test_the_expected_schema_is_that_of_a_fresh_database(kept_connection: Connection[Any]) -> None:
    plan = expected_schema(kept_connection.info.server_version, "treadle")
    indexes = kept_connection.execute(
        """select indexname, tablename from pg_indexes
        where schemaname = 'treadle' and tablename not in ('migrations', 'functions')"""
    )
    assert {name: index.table for name, index in plan.indexes.items()} == dict(indexes.fetchall())
    triggers = kept_connection.execute(
        "select tgname, relname from pg_trigger join pg_class on pg_class.oid = tgrelid where not tgisinternal"
    )
    assert plan.triggers == dict(triggers.fetchall())
    tables = kept_connection.execute(
        """select relname, coalesce((select jsonb_object_agg(option_name, option_value)
            from pg_options_to_table(reloptions)), '{}')
        from pg_class where relnamespace = 'treadle'::regnamespace and relkind = 'r'
            and relname not in ('migrations', 'functions')"""
    )
    assert plan.options == dict(tables.fetchall())
    functions = kept_connection.execute(
        "select proname from pg_proc where pronamespace = 'treadle'::regnamespace"
    ).fetchall()
    assert plan.functions.keys() == {name for (name,) in functions}
    definitions = kept_connection.execute(
        """select proname, prosecdef, coalesce(proconfig, '{}') from pg_proc
        where pronamespace = 'treadle'::regnamespace"""
    ).fetchall()
    assert {name: (each.security_definer, sorted(each.settings)) for name, each in plan.definitions.items()} == {
        name: (definer, sorted(settings)) for name, definer, settings in definitions
    }
    unique = kept_connection.execute(
        """select relname, indisunique from pg_index join pg_class on pg_class.oid = indexrelid
        where relnamespace = 'treadle'::regnamespace"""
    )
    assert {name: index.unique for name, index in plan.indexes.items()}.items() <= dict(unique.fetchall()).items()
    assert plan.options["jobs"]["fillfactor"] == "90"


def test_a_missing_schema_is_found(empty_url: str) -> None:
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
def test_a_schema_of_another_version_is_found(
    own_url: str, own_connection: Connection[Any], version: int | None, title: str, remedy: str
) -> None:
    if version:
        own_connection.execute("insert into migrations (version, name) values (%s, 'later')", [version])
    else:
        own_connection.execute("delete from migrations where version = (select max(version) from migrations)")
    found = findings(own_url)
    assert found["schema"].level is Severity.CRITICAL
    assert title in found["schema"].title
    assert found["schema"].remedy == remedy
    assert "indexes" not in found


def test_a_newer_schema_that_is_compatible_is_no_problem(own_url: str, own_connection: Connection[Any]) -> None:
    own_connection.execute("insert into migrations (version, name) values (99, '0099_more.compatible.sql')")
    found = findings(own_url)
    assert (found["schema"].level, found["schema"].remedy) == (
        Severity.NOTE,
        "Upgrade the treadle package when all processes can be.",
    )
    assert "indexes" in found


def test_functions_of_another_version_are_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute("update functions set digest = 'old' where name = 'tick'")
    found = findings(kept_url)
    assert (found["schema"].level, found["schema"].detail) == (Severity.WARNING, "tick")
    assert found["functions"].level is Severity.OK
    migrate(kept_url)
    assert_ok(kept_url, "schema")


def test_changed_or_dropped_functions_are_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute(
        "create or replace function channel(p_kind text) returns text language sql as 'select p_kind'"
    )
    changed = get_finding(kept_url, "functions")
    assert (changed.level, changed.detail) == (Severity.WARNING, "channel was changed")
    kept_connection.execute("drop function find_claimed_jobs")
    dropped = get_finding(kept_url, "functions")
    assert (dropped.level, dropped.detail) == (Severity.CRITICAL, "find_claimed_jobs is missing\nchannel was changed")
    statement, then = dropped.remedy.splitlines()
    assert then == "then: treadle migrate"
    kept_connection.execute(statement.encode())
    migrate(kept_url)
    assert_ok(kept_url, "functions")


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ("alter function confirm_blocked security invoker", "confirm_blocked is no longer security definer"),
        ("alter function complete_job security definer", "complete_job is now security definer"),
        ("alter function operate reset search_path", "operate has lost the setting search_path=pg_catalog, pg_temp"),
        (
            "alter function operate set search_path = public",
            "operate has lost the setting search_path=pg_catalog, pg_temp",
        ),
    ],
)
def test_a_function_with_other_rights_or_settings_is_found(
    kept_url: str, kept_connection: Connection[Any], change: str, detail: str
) -> None:
    kept_connection.execute(change.encode())
    found = get_finding(kept_url, "functions")
    assert (found.level, found.detail) == (Severity.WARNING, detail)
    kept_connection.execute(found.remedy.splitlines()[0].encode())
    migrate(kept_url)
    assert_ok(kept_url, "functions")


def test_an_additional_setting_of_a_function_is_ok(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute("alter function operate set work_mem = '8MB'")
    assert_ok(kept_url, "functions")
    kept_connection.execute("alter function operate reset work_mem")


def test_an_index_that_is_not_unique_is_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute("drop index idx_jobs_key_running")
    kept_connection.execute("create index idx_jobs_key_running on jobs (priority)")
    assert_critical_and_mended(kept_url, kept_connection, "indexes", "idx_jobs_key_running on jobs is not unique")


def test_a_missing_index_is_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    assert_ok(kept_url, "indexes")
    kept_connection.execute("drop index idx_jobs_claimable")
    assert_critical_and_mended(kept_url, kept_connection, "indexes", "idx_jobs_claimable on jobs is missing")


def test_the_remedy_recreates_any_index_unchanged(kept_connection: Connection[Any]) -> None:
    definitions = "select indexname, indexdef from pg_indexes where schemaname = 'treadle' order by 1"
    before = kept_connection.execute(definitions).fetchall()
    for name, index in expected_schema(kept_connection.info.server_version, "treadle").indexes.items():
        if name == "stored_pkey":  # foreign keys refer to it
            continue
        kept_connection.execute(
            f"alter table {index.table} drop constraint {name}" if "_pkey" in name else f"drop index {name}"
        )
        apply_remedy(kept_connection, index.statement)
    assert kept_connection.execute(definitions).fetchall() == before


def test_an_index_that_a_migration_exchanged_is_expected(own_url: str, tmp_path: Path) -> None:
    write_next_version(tmp_path)
    with sql_of(tmp_path):
        assert get_finding(own_url, "schema").level is Severity.CRITICAL
        migrate(own_url)
        for name in ("schema", "indexes", "functions"):
            assert_ok(own_url, name)
        with connected(own_url) as connection:
            connection.execute("drop index idx_jobs_claimable")
            assert "region" in get_finding(own_url, "indexes").remedy
            assert_critical_and_mended(own_url, connection, "indexes", "idx_jobs_claimable on jobs is missing")


def test_an_unfinished_index_build_is_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute("insert into jobs (job_type) values ('a'), ('a')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        kept_connection.execute("create unique index concurrently extra on jobs (job_type)")
    found = get_finding(kept_url, "indexes")
    assert (found.level, found.detail) == (Severity.WARNING, "extra is invalid, and not one of Treadle's")
    apply_remedy(kept_connection, found.remedy)
    assert_ok(kept_url, "indexes")
    kept_connection.execute("delete from jobs")


@pytest.mark.parametrize(
    ("isolation", "statement", "ready"),
    [
        ("read committed", "insert into jobs (job_type) values ('a')", False),
        ("repeatable read", "select from pg_class", True),
    ],
)
def test_an_invalid_index_of_the_schema_is_found(
    kept_url: str, kept_connection: Connection[Any], isolation: str, statement: str, ready: bool
) -> None:
    # A concurrent build that is cancelled while it waits for a transaction leaves an invalid index behind.
    kept_connection.execute("drop index idx_jobs_worker")
    with connected(kept_url) as open_transaction, connected(kept_url) as builder, ThreadPoolExecutor(1) as thread:
        open_transaction.execute(f"begin isolation level {isolation}")
        open_transaction.execute(statement.encode())
        made = thread.submit(builder.execute, "create index concurrently idx_jobs_worker on jobs (worker_id)")
        until_waiting_for_lock(kept_connection)
        kept_connection.execute("select pg_cancel_backend(%s)", [builder.info.backend_pid])
        with pytest.raises(psycopg.errors.QueryCanceled):
            made.result()
        open_transaction.execute("rollback")
    left = "select indisready, indisvalid from pg_index where indexrelid = 'idx_jobs_worker'::regclass"
    assert kept_connection.execute(left).fetchone() == (ready, False)
    assert_critical_and_mended(kept_url, kept_connection, "indexes", "idx_jobs_worker on jobs is invalid")


def test_a_disabled_trigger_is_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    assert_ok(kept_url, "triggers")
    kept_connection.execute("alter table jobs disable trigger register_lanes")
    assert_critical_and_mended(kept_url, kept_connection, "triggers", "register_lanes is disabled")
    kept_connection.execute("alter table jobs enable replica trigger register_lanes")
    assert get_finding(kept_url, "triggers").level is Severity.CRITICAL
    kept_connection.execute("alter table jobs enable trigger register_lanes")


def test_a_missing_trigger_is_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute("drop trigger job_ended on jobs")
    found = get_finding(kept_url, "triggers")
    assert (found.level, found.detail) == (Severity.CRITICAL, "job_ended is missing")
    statement, then = found.remedy.splitlines()
    assert then == "then: treadle migrate"
    kept_connection.execute(statement.encode())
    migrate(kept_url)
    assert_ok(kept_url, "triggers")


def test_missing_table_settings_are_found(kept_url: str, kept_connection: Connection[Any]) -> None:
    assert_ok(kept_url, "table_settings")
    kept_connection.execute("alter table jobs reset (autovacuum_vacuum_scale_factor, fillfactor)")
    found = get_finding(kept_url, "table_settings")
    assert found.level is Severity.WARNING
    assert found.detail.splitlines() == [
        "jobs: fillfactor = 90 is missing",
        "jobs: autovacuum_vacuum_scale_factor = 0.01 is missing",
    ]
    apply_remedy(kept_connection, found.remedy)
    assert_ok(kept_url, "table_settings")


def test_table_settings_that_were_changed_are_a_note(kept_url: str, kept_connection: Connection[Any]) -> None:
    kept_connection.execute("alter table jobs set (autovacuum_vacuum_scale_factor = 0.005)")
    found = get_finding(kept_url, "table_settings")
    assert (found.level, found.detail) == (
        Severity.NOTE,
        "jobs: autovacuum_vacuum_scale_factor is 0.005 instead of 0.01",
    )
    kept_connection.execute("alter table jobs set (autovacuum_vacuum_scale_factor = 0.010)")
    assert_ok(kept_url, "table_settings")
    kept_connection.execute("alter table jobs set (autovacuum_vacuum_scale_factor = 0.01)")


def test_a_missing_table_is_found(own_url: str, own_connection: Connection[Any]) -> None:
    own_connection.execute("drop table audit")
    found = get_finding(own_url, "table_settings")
    assert (found.level, found.detail) == (Severity.CRITICAL, "audit")


@pytest.mark.parametrize(("table", "level"), [("logs", Severity.WARNING), ("jobs", Severity.CRITICAL)])
def test_an_unlogged_table_is_found(
    kept_url: str, kept_connection: Connection[Any], table: str, level: Severity
) -> None:
    assert_ok(kept_url, "unlogged_tables")
    kept_connection.execute(f"alter table {table} set unlogged")
    found = get_finding(kept_url, "unlogged_tables")
    assert (found.level, found.detail) == (level, table)
    apply_remedy(kept_connection, found.remedy)
    assert_ok(kept_url, "unlogged_tables")


@pytest.mark.parametrize(("table", "level"), [("logs", Severity.WARNING), ("jobs", Severity.CRITICAL)])
def test_disabled_autovacuum_of_a_table_is_found(
    kept_url: str, kept_connection: Connection[Any], table: str, level: Severity
) -> None:
    kept_connection.execute(f"alter table {table} set (autovacuum_enabled = off)")
    found = get_finding(kept_url, "autovacuum_off")
    assert (found.level, found.detail) == (level, f"autovacuum is off for the table {table}")
    apply_remedy(kept_connection, found.remedy)
    assert_ok(kept_url, "autovacuum_off")


@pytest.mark.parametrize("table", ["jobs", "migrations"])
def test_row_security_that_applies_to_a_worker_is_found(
    kept_url: str, kept_connection: Connection[Any], table: str
) -> None:
    assert_ok(kept_url, "row_security")
    kept_connection.execute(f"alter table {table} enable row level security")
    owner = kept_connection.info.user
    unaffected = get_finding(kept_url, "row_security")
    assert unaffected.level is Severity.NOTE
    assert unaffected.detail == (
        f"{table}: no policy, so no row is visible; applies to no user, "
        f"but not to the owner {owner}, superusers and roles with bypassrls"
    )
    with granted_roles(kept_url) as roles:
        for url in (kept_url, roles.url_of("worker"), roles.url_of("viewer")):
            found = get_finding(url, "row_security")
            assert found.level is Severity.CRITICAL
            assert f"{roles.prefix}_user_worker" in found.detail
        kept_connection.execute(f"create policy everything on {table} using (true)")
        found = get_finding(kept_url, "row_security")
        assert found.level is Severity.WARNING
        assert found.detail.startswith(f"{table}: 1 policy; applies to ")
        apply_remedy(kept_connection, found.remedy)
        assert_ok(kept_url, "row_security")
        kept_connection.execute(f"drop policy everything on {table}")


def test_forced_row_security_applies_to_the_owner(own_url: str) -> None:
    with schema_owner(own_url) as owner_url:
        migrate(owner_url, "other")
        with connected(owner_url) as connection:
            connection.execute("alter table other.jobs enable row level security")
            assert findings(owner_url, schema="other")["row_security"].level is Severity.NOTE
            connection.execute("alter table other.jobs force row level security")
            found = findings(owner_url, schema="other")["row_security"]
            assert found.level is Severity.CRITICAL
            assert f"applies to {connection.info.user}, but not to superusers" in found.detail
