"""What keeps vacuum from removing dead rows: each cause is created for real, found, and not found once it is gone."""

import re
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.conninfo import make_conninfo

from tests.support.doctor import AT_ONCE, assert_ok, connected, get_finding
from tests.support.workers import one, until
from treadle.doctor import Limits, Severity
from treadle.doctor.facts import ReplicationSlot, Server, VacuumBlocker
from treadle.doctor.finding import Context
from treadle.doctor.rules.horizon import check_horizon, check_slots
from treadle.doctor.text import abbreviated

CONTEXT = Context("treadle", Limits(), "1")
SERVER = Server(datetime.now(UTC), 180000, "ada", False, True, {}, 0.0)


def use_transactions(url: str, number: int = 12) -> None:
    """Use up this many transaction ids."""
    with connected(url) as connection:
        for _ in range(number):
            connection.execute("select pg_current_xact_id()")


def test_an_idle_transaction_with_a_snapshot_is_found(small_server_url: str) -> None:
    assert_ok(small_server_url, "held_snapshot")
    with psycopg.connect(small_server_url, application_name="report") as reader:
        reader.execute("set default_transaction_isolation = 'repeatable read'")
        reader.commit()
        reader.execute("select 'hunter2' as password from treadle.jobs")
        use_transactions(small_server_url)
        found = get_finding(small_server_url, "held_snapshot", AT_ONCE)
        assert found.level is Severity.WARNING
        pid = reader.info.backend_pid
        for part in (f"process {pid}", "user postgres", "application report", "from local", "idle in transaction"):
            assert part in found.detail
        held = re.search(r"(\d+) transactions begun since", found.detail)
        assert held
        assert int(held[1]) >= 12
        assert "last statement: select …" in found.detail
        assert "hunter2" not in str(found)
        assert f"select pg_terminate_backend({pid});" in found.remedy
        # With the real limits it is not yet a finding.
        assert_ok(small_server_url, "held_snapshot")
    assert_ok(small_server_url, "held_snapshot", AT_ONCE)


def test_the_remedy_for_an_idle_transaction_works(small_server_url: str) -> None:
    with psycopg.connect(small_server_url) as reader, connected(small_server_url) as operator:
        reader.execute("select pg_current_xact_id()")
        remedy = get_finding(small_server_url, "held_snapshot", AT_ONCE).remedy
        (command,) = [line for line in remedy.splitlines() if line.startswith("select")]
        operator.execute(command.encode())
        until(lambda: not operator.execute("select from pg_stat_activity where backend_xid is not null").fetchall())
        assert_ok(small_server_url, "held_snapshot", AT_ONCE)
        with pytest.raises(psycopg.OperationalError):
            reader.execute("select 1")


def test_an_open_transaction_of_another_database_is_found(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute("create database elsewhere")
    try:
        other = make_conninfo(small_server_url, dbname="elsewhere")
        with psycopg.connect(other) as writer:
            writer.execute("select pg_current_xact_id()")
            found = get_finding(small_server_url, "open_elsewhere", AT_ONCE)
            assert found.level is Severity.NOTE
            assert f"process {writer.info.backend_pid}" in found.detail
            assert_ok(small_server_url, "held_snapshot", AT_ONCE)
        # A snapshot in another database does not matter.
        with psycopg.connect(other) as reader:
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select from pg_class")
            assert_ok(small_server_url, "open_elsewhere", AT_ONCE)
    finally:
        with connected(small_server_url) as connection:
            connection.execute("drop database elsewhere with (force)")


def test_a_running_vacuum_is_not_a_finding(small_server_url: str) -> None:
    with connected(small_server_url) as vacuum, connected(small_server_url) as monitor, ThreadPoolExecutor(1) as thread:
        vacuum.execute("set vacuum_cost_delay = 100")
        vacuum.execute("set vacuum_cost_limit = 1")
        done = thread.submit(vacuum.execute, "vacuum (freeze) pg_catalog.pg_proc")
        pid = vacuum.info.backend_pid
        until(lambda: one(monitor, "select backend_xmin is not null from pg_stat_activity where pid = %s", pid))
        assert_ok(small_server_url, "held_snapshot", AT_ONCE)
        monitor.execute("select pg_cancel_backend(%s)", [pid])
        with pytest.raises(psycopg.errors.QueryCanceled):
            done.result()


def test_a_prepared_transaction_is_found(small_server_url: str) -> None:
    assert_ok(small_server_url, "prepared_transaction", AT_ONCE)
    with connected(small_server_url) as connection:
        connection.execute("begin")
        connection.execute("select pg_current_xact_id()")
        connection.execute("prepare transaction 'booking''s'")
        found = get_finding(small_server_url, "prepared_transaction", AT_ONCE)
        assert found.level is Severity.WARNING
        assert "booking's, owner postgres" in found.detail
        assert "commit prepared 'booking''s';" in found.remedy
        assert_ok(small_server_url, "prepared_transaction")
        connection.execute("rollback prepared 'booking''s'")
    assert_ok(small_server_url, "prepared_transaction", AT_ONCE)


@contextmanager
def standby(url: str, slot: str | None = None) -> Iterator[Any]:
    """A connection that the server takes for a standby: it streams and sends hot standby feedback."""
    connection = pq.PGconn.connect(make_conninfo(url, replication="true", application_name="reports").encode())
    try:
        position = one_row(connection, b"IDENTIFY_SYSTEM")[2]
        chosen = b"SLOT " + slot.encode() + b" " if slot else b""
        started = connection.exec_(b"START_REPLICATION " + chosen + b"PHYSICAL " + position)
        assert started.status == pq.ExecStatus.COPY_BOTH, started.error_message
        yield connection
    finally:
        connection.finish()


def one_row(connection: Any, command: bytes) -> list[bytes]:
    result = connection.exec_(command)
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    return [result.get_value(0, column) for column in range(result.nfields)]


def send_feedback(connection: Any, transaction: int) -> None:
    """Send a hot standby feedback message of the replication protocol."""
    connection.put_copy_data(struct.pack("!cqIIII", b"h", 0, transaction, 0, 0, 0))
    connection.flush()


def test_the_feedback_of_a_standby_is_found(small_server_url: str) -> None:
    assert_ok(small_server_url, "standby_feedback", AT_ONCE)
    with standby(small_server_url) as streaming, connected(small_server_url) as monitor:
        send_feedback(streaming, int(str(one(monitor, "select pg_current_xact_id()"))))
        walsender = "select backend_xmin is not null from pg_stat_activity where backend_type = 'walsender'"
        until(lambda: one(monitor, walsender))
        use_transactions(small_server_url)
        found = get_finding(small_server_url, "standby_feedback", AT_ONCE)
        assert found.level is Severity.WARNING
        assert "standby reports, from local" in found.detail
        assert_ok(small_server_url, "standby_feedback")
        streaming.finish()
        until(lambda: not monitor.execute("select from pg_stat_replication").fetchall())
    assert_ok(small_server_url, "standby_feedback", AT_ONCE)


def test_a_replication_slot_without_its_standby_is_found(small_server_url: str) -> None:
    with connected(small_server_url) as monitor:
        monitor.execute("select pg_create_physical_replication_slot('reports', true)")
        try:
            with standby(small_server_url, "reports") as streaming:
                send_feedback(streaming, int(str(one(monitor, "select pg_current_xact_id()"))))
                held = "select xmin is not null from pg_replication_slots"
                until(lambda: one(monitor, held))
            use_transactions(small_server_url)
            until(lambda: not one(monitor, "select active from pg_replication_slots"))
            found = get_finding(small_server_url, "replication_slot", AT_ONCE)
            assert found.level is Severity.WARNING
            assert "slot reports (physical), inactive for" in found.detail
            assert "select pg_drop_replication_slot('reports');" in found.remedy
            log = get_finding(small_server_url, "slot_log", AT_ONCE)
            assert log.level is Severity.WARNING
            assert "slot reports (physical), inactive" in log.detail
            assert_ok(small_server_url, "replication_slot")
            assert_ok(small_server_url, "slot_log")
        finally:
            monitor.execute("select pg_drop_replication_slot('reports')")
    assert_ok(small_server_url, "replication_slot", AT_ONCE)
    assert_ok(small_server_url, "slot_log", AT_ONCE)


def blocker(**changes: Any) -> VacuumBlocker:
    one = VacuumBlocker("session", "7", "ada", "psql", "local", "idle in transaction", "select 1", 0.0, 0, True)
    return one._replace(**changes)


@pytest.mark.parametrize(
    ("seconds", "transactions", "state", "level"),
    [
        (59, 0, "idle in transaction", Severity.OK),
        (60, 0, "idle in transaction", Severity.NOTE),
        (300, 0, "idle in transaction (aborted)", Severity.WARNING),
        (3600, 0, "idle in transaction", Severity.CRITICAL),
        (599, 0, "active", Severity.OK),
        (1800, 0, "active", Severity.WARNING),
        (1, 1_000_000, "active", Severity.WARNING),
        (1, 50_000_000, "active", Severity.CRITICAL),
    ],
)
def test_a_snapshot_has_the_right_severity(seconds: float, transactions: int, state: str, level: Severity) -> None:
    held = blocker(seconds=seconds, transactions=transactions, state=state)
    assert check_horizon(CONTEXT, SERVER, [held])[0].level is level


def test_the_worst_snapshot_decides_the_severity() -> None:
    found = check_horizon(CONTEXT, SERVER, [blocker(name=str(n), seconds=60 * n) for n in range(9)])[0]
    assert found.level is Severity.WARNING
    assert found.detail.splitlines()[-1] == "and 3 more"


def test_a_role_that_cannot_see_other_sessions_gets_a_note() -> None:
    found = check_horizon(CONTEXT, SERVER._replace(sees_all=False, user="Ada"), [])[0]
    assert (found.level, found.remedy) == (Severity.NOTE, 'grant pg_monitor to "Ada";')


@pytest.mark.parametrize(
    ("slot", "level"),
    [
        (ReplicationSlot("s", "physical", True, None, 200 << 30, "extended"), Severity.OK),
        (ReplicationSlot("s", "physical", False, None, 11 << 30, "extended"), Severity.WARNING),
        (ReplicationSlot("s", "logical", False, 5, 100 << 30, "extended"), Severity.CRITICAL),
        (ReplicationSlot("s", "logical", True, 5, 1, "unreserved"), Severity.WARNING),
    ],
)
def test_a_replication_slot_has_the_right_severity(slot: ReplicationSlot, level: Severity) -> None:
    assert check_slots(CONTEXT, [slot])[0].level is level


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("select 1", "select 1"),
        ("alter role ada password 'hunter2'", "alter role ada password …"),
        ("select $$hunter2$$", "select …"),
        ("do $body$ hunter2", "do …"),
        ("select $1", "select $1"),
        ("select\n  a,\tb", "select a, b"),
        ("x" * 70, "x" * 60 + " …"),
    ],
)
def test_the_shown_part_of_a_statement_contains_no_values(statement: str, shown: str) -> None:
    assert abbreviated(statement) == shown
