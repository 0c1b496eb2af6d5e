"""Findings about the server: settings, limits, clock, and a pooler in front of it."""

from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import psycopg
import pytest
from chaos.servers import bouncer

from tests.support.doctor import assert_ok, connected, findings, get_finding, server_settings
from tests.support.workers import one, until
from treadle.db.database import Database
from treadle.db.examination import receives_notifications
from treadle.doctor import Finding, Limits, Severity
from treadle.doctor.facts import ClockOffset, ConnectionUse, DatabaseAge, Server
from treadle.doctor.finding import Context
from treadle.doctor.rules.server import (
    check_ages,
    check_clock,
    check_connections,
    check_notifications,
    check_server,
    check_writable,
)

CONTEXT = Context("treadle", Limits(), "1")
SERVER = Server(datetime.now(UTC), 180000, "ada", False, True, {}, 0.0)


@pytest.mark.parametrize("setting", ["full_page_writes", "synchronous_commit"])
def test_a_setting_that_risks_data_is_a_note(small_server_url: str, setting: str) -> None:
    with server_settings(small_server_url, **{setting: "off"}):
        found = get_finding(small_server_url, "durability")
        assert found.level is Severity.NOTE
        assert f"{setting} is off: " in found.detail
        assert f"alter system set {setting} = on;" in found.remedy
    assert setting not in get_finding(small_server_url, "durability").detail


def test_disabled_fsync_is_found(small_server_url: str) -> None:
    """The server of the tests has fsync off. (test_doctor.py examines one that has it on.)"""
    assert get_finding(small_server_url, "durability").detail.startswith("fsync is off: ")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("statement_timeout", "9s"),
        ("lock_timeout", "1s"),
        ("transaction_timeout", "59s"),
        ("idle_in_transaction_session_timeout", "59s"),
        ("idle_session_timeout", "1h"),
    ],
)
def test_a_low_timeout_setting_is_found(small_server_url: str, setting: str, value: str) -> None:
    assert_ok(small_server_url, "timeouts")
    with connected(small_server_url) as connection:
        connection.execute(f"alter role postgres set {setting} = '{value}'")
        try:
            found = get_finding(small_server_url, "timeouts")
            assert found.level is Severity.NOTE
            assert found.detail.startswith(f"{setting} is ")
            connection.execute(found.remedy.encode())
            assert_ok(small_server_url, "timeouts")
        finally:
            connection.execute(f"alter role postgres reset {setting}")


def test_a_read_only_role_is_found(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute("alter role postgres set default_transaction_read_only = on")
        try:
            assert get_finding(small_server_url, "writable").level is Severity.CRITICAL
        finally:
            connection.execute("alter role postgres reset default_transaction_read_only")
    assert_ok(small_server_url, "writable")


def test_a_shortage_of_connections_is_found(small_server_url: str) -> None:
    assert_ok(small_server_url, "connections")
    with ExitStack() as opened:
        for number in range(14):
            opened.enter_context(
                connected(small_server_url, application_name="treadle worker" if number < 3 else "shop")
            )
        found = get_finding(small_server_url, "connections")
        assert found.level.rank >= Severity.WARNING.rank
        assert found.detail.startswith("the server: 1")
        # The connection of the doctor is one more.
        assert " of 17 in use, 4 by Treadle" in found.detail
    until(lambda: get_finding(small_server_url, "connections").level is Severity.OK)


def test_connection_limits_of_roles_and_databases_are_respected(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        for kind in ("role", "database"):
            connection.execute(f"alter {kind} postgres connection limit 1")
            found = get_finding(small_server_url, "connections")
            assert found.level is Severity.CRITICAL
            assert f"{kind} postgres: 2 of 1 in use, 1 by Treadle" in found.detail
            connection.execute(f"alter {kind} postgres connection limit -1")
    assert_ok(small_server_url, "connections")


def test_a_full_notification_queue_is_found(small_server_url: str) -> None:
    assert_ok(small_server_url, "notification_queue")
    with psycopg.connect(small_server_url) as sleeper, connected(small_server_url) as sender:
        sleeper.execute("listen news")
        sleeper.commit()
        sleeper.execute("select 1")  # in a transaction, it receives no notifications
        for _ in range(30):
            sender.execute("select pg_notify('news', repeat('x', 7900))")
        found = get_finding(small_server_url, "notification_queue")
        assert found.level is Severity.WARNING
        assert "From 90 % on, Treadle sends no notifications" in found.detail
        with suppress(psycopg.errors.ProgramLimitExceeded):
            while True:
                sender.execute("select pg_notify('news', repeat('x', 7900))")
        assert get_finding(small_server_url, "notification_queue").level is Severity.CRITICAL
        assert_ok(small_server_url, "listen")
    with connected(small_server_url) as sender:

        def emptied() -> bool:
            # PostgreSQL shortens the queue when the next notification is sent, or, if it is full, when asked how full.
            with suppress(psycopg.errors.ProgramLimitExceeded):
                sender.execute("select pg_notify('news', '')")
            return bool(one(sender, "select pg_notification_queue_usage()") < 0.05)

        until(emptied)
    assert_ok(small_server_url, "notification_queue")


def test_the_clock_and_notifications_of_a_local_server_are_ok(url: str) -> None:
    found = findings(url)
    assert found["clock"].level is Severity.OK
    assert found["listen"] == Finding("listen", Severity.OK, "Notifications arrive.")


@pytest.mark.skipif(which("pgbouncer") is None, reason="pgbouncer is not installed (Debian: apt-get install pgbouncer)")
@pytest.mark.parametrize(("mode", "expected"), [("transaction", Severity.WARNING), ("session", Severity.OK)])
def test_a_pooler_without_support_for_listen_is_found(
    small_server_url: str, project_folder: Path, mode: str, expected: Severity
) -> None:
    with bouncer(small_server_url, project_folder, mode) as url:
        found = findings(url)
        assert found["listen"].level is expected
        # Everything else is still examined through the pooler.
        assert found["schema"].level is Severity.OK
        assert found["indexes"].level is Severity.OK
        # The result does not depend on chance.
        database = Database(url, "treadle")
        assert [receives_notifications(database, 0.3) for _ in range(3)] == [expected is Severity.OK] * 3


def level(found: list[Finding]) -> Severity:
    (one,) = found
    return one.level


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "expected"),
    [
        (0.1, 0.01, Severity.OK),
        (2.0, 0.1, Severity.OK),
        (-2.2, 0.1, Severity.NOTE),
        (31.0, 0.1, Severity.WARNING),
        (-3600.0, 0.1, Severity.WARNING),
        (5.0, 4.0, Severity.OK),  # the round trip took as long
    ],
)
def test_a_clock_difference_has_the_right_severity(seconds: float, uncertainty: float, expected: Severity) -> None:
    assert level(check_clock(CONTEXT, ClockOffset(seconds, uncertainty))) is expected


def test_the_finding_says_which_clock_is_ahead() -> None:
    assert "is 40s ahead of this machine's" in check_clock(CONTEXT, ClockOffset(40, 0))[0].title
    assert "is 40s behind this machine's" in check_clock(CONTEXT, ClockOffset(-40, 0))[0].title


@pytest.mark.parametrize(
    ("version", "expected"),
    [(130012, Severity.CRITICAL), (140000, Severity.OK), (180006, Severity.OK), (190001, Severity.NOTE)],
)
def test_a_server_version_has_the_right_severity(version: int, expected: Severity) -> None:
    assert check_server(CONTEXT, SERVER._replace(version=version))[0].level is expected


def test_a_standby_is_a_finding_because_it_is_read_only() -> None:
    assert check_writable(CONTEXT, SERVER._replace(in_recovery=True), None)[0].level is Severity.CRITICAL


@pytest.mark.parametrize(("usage", "expected"), [(0.04, Severity.OK), (0.05, Severity.NOTE), (0.75, Severity.CRITICAL)])
def test_a_full_notification_queue_has_the_right_severity(usage: float, expected: Severity) -> None:
    assert check_server(CONTEXT, SERVER._replace(notifications=usage))[3].level is expected


@pytest.mark.parametrize(
    ("used", "allowed", "expected"),
    [
        (74, 100, Severity.OK),
        (75, 100, Severity.NOTE),
        (85, 100, Severity.WARNING),
        (95, 100, Severity.CRITICAL),
        (1, 0, Severity.CRITICAL),
    ],
)
def test_a_number_of_connections_has_the_right_severity(used: int, allowed: int, expected: Severity) -> None:
    assert level(check_connections(CONTEXT, [ConnectionUse("the server", used, 1, allowed)])) is expected


@pytest.mark.parametrize(
    ("transactions", "allowed", "expected"),
    [
        (299_999_999, None, Severity.OK),
        (300_000_000, None, Severity.WARNING),
        (1_600_000_000, None, Severity.CRITICAL),
        (1_599_999_999, "1500000000", Severity.OK),
        (1_600_000_000, "1500000000", Severity.CRITICAL),
    ],
)
def test_old_transaction_ids_have_the_right_severity(
    transactions: int, allowed: str | None, expected: Severity
) -> None:
    server = SERVER._replace(settings={"autovacuum_freeze_max_age": allowed} if allowed else {})
    first, second = check_ages(CONTEXT, server, [DatabaseAge("shop", transactions, 5), DatabaseAge("other", 5, 5)])
    assert (first.level, second.level) == (expected, Severity.OK)
    assert ("database shop" in first.detail) == (expected is not Severity.OK)
    assert "other" not in first.detail


def test_old_multixacts_have_the_right_severity() -> None:
    server = SERVER._replace(settings={"autovacuum_multixact_freeze_max_age": "400000000"})
    for number, expected in (
        (599_999_999, Severity.OK),
        (600_000_000, Severity.WARNING),
        (1_600_000_000, Severity.CRITICAL),
    ):
        assert check_ages(CONTEXT, server, [DatabaseAge("shop", 5, number)])[1].level is expected


def test_notifications_are_not_tested_on_a_callers_connection() -> None:
    assert level(check_notifications(CONTEXT, None)) is Severity.OK
    assert level(check_notifications(CONTEXT, False)) is Severity.WARNING
