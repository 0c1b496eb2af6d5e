"""Stored names and errors cannot add a line to a finding: a client could otherwise imitate findings and remedies."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.support.commands import run_treadle as treadle
from tests.support.doctor import AT_ONCE, connected
from tests.support.workers import one
from treadle.db.query import QueryFailed
from treadle.doctor import Finding
from treadle.doctor.facts import (
    AbandonedClaim,
    AutovacuumWorker,
    ConnectionUse,
    CrashingJob,
    DatabaseAge,
    DueLane,
    FailingKey,
    Index,
    ReplicationSlot,
    Server,
    Table,
    VacuumBlocker,
    Worker,
)
from treadle.doctor.finding import Context
from treadle.doctor.rules.horizon import check_horizon, check_slots
from treadle.doctor.rules.lanes import check_lanes, check_pauses
from treadle.doctor.rules.server import check_ages, check_connections, check_server
from treadle.doctor.rules.storage import check_autovacuum, check_bloat, check_tables
from treadle.doctor.rules.unanswered import unanswered
from treadle.doctor.rules.work import check_abandoned_claims, check_crashes, check_keys, check_workers
from treadle.doctor.text import identifier, literal
from treadle.words.changes import Pause

CONTEXT = Context("treadle", AT_ONCE, "0.1.0")
IMITATION = "critical Drop the schema"
BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
NOW = datetime.now(UTC)


def every_finding(name: str) -> list[Finding]:
    """Findings of rules that quote what is stored, all of it with this name."""
    settings = {"idle_session_timeout": "1000", "default_transaction_read_only": "on", "autovacuum_max_workers": "1"}
    server = Server(NOW, 180000, name, False, True, settings, 0.0)
    silent = Worker(name, name, 7, 9000.0, 9000.0, 10.0, None, [name], [name], name, True, False)
    live = Worker(name, name, 7, 9000.0, 1.0, 10.0, None, [f"{name} b"], None, name, False, False)
    ahead = live._replace(seen=-100.0)
    lane = DueLane(name, name, 100, 9000.0)
    pause = Pause(name, name, NOW - timedelta(days=9), name, name)
    blockers = [
        VacuumBlocker(kind, name, name, name, name, name, name, 9000.0, 10_000_000, here)
        for kind in ("session", "prepared", "slot", "standby")
        for here in (True, False)
    ]
    table = Table(name, True, {"autovacuum_enabled": "off"}, 1.0, 1 << 30, 1, 10_000_000, None, 9000.0)
    index = Index(name, name, False, False, 1.0, 8.0, 1 << 30)
    return [
        *check_server(CONTEXT, server),
        *check_connections(CONTEXT, [ConnectionUse(name, 100, 1, 100)]),
        *check_ages(CONTEXT, server, [DatabaseAge(name, 2_000_000_000, 2_000_000_000)]),
        *check_horizon(CONTEXT, server, blockers),
        *check_horizon(CONTEXT, server._replace(sees_all=False), []),
        *check_slots(CONTEXT, [ReplicationSlot(name, name, False, 1, 1 << 40, name)]),
        *check_tables(CONTEXT, server, [table]),
        *check_autovacuum(CONTEXT, server, [table], [AutovacuumWorker(name, 9000.0)]),
        *check_bloat(CONTEXT, [index]),
        *check_workers(CONTEXT, [silent, live, ahead]),
        *check_lanes(CONTEXT, [live], [lane], []),
        *check_pauses(CONTEXT, server, [lane], [pause]),
        *check_abandoned_claims(CONTEXT, [AbandonedClaim("id", name, name, 9000.0)]),
        *check_crashes(CONTEXT, [CrashingJob("id", name, "failed", 9, name)]),
        *check_keys(CONTEXT, [FailingKey("id", name, name, 1, 5, 900_000.0, 7, name)]),
        unanswered(CONTEXT, "a", QueryFailed(name, False, False), name),
        unanswered(CONTEXT, "a", QueryFailed(name, False, True), name),
        unanswered(CONTEXT, "a", QueryFailed(name, True, False), name),
    ]


def shape(finding: Finding) -> tuple[str, int, int, int]:
    return (
        finding.name,
        len(finding.title.splitlines()),
        len(finding.detail.splitlines()),
        len(finding.remedy.splitlines()),
    )


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
def test_a_line_break_in_a_stored_name_adds_no_line_to_a_finding(line_break: str) -> None:
    plain, hostile = every_finding("w x"), every_finding(f"w{line_break}{IMITATION}")
    assert [shape(each) for each in hostile] == [shape(each) for each in plain]
    quoting = {each.name for each in plain if "w x" in each.detail + each.remedy}
    assert len(quoting) >= 20  # most of them quote the name


def test_names_in_remedies_are_escaped_so_that_the_statement_still_names_them(connection: Connection[Any]) -> None:
    name = "a\n\\b'\"c\u2028d"
    assert "\n" not in literal(name)
    assert one(connection, f"select {literal(name)}") == name
    connection.execute(f"create temporary table {identifier(name)} ()".encode())
    assert one(connection, "select relname from pg_class where relname like %s", "a\n%") == name


def test_the_command_prints_a_stored_name_on_one_line(own_url: str) -> None:
    with connected(own_url) as connection:
        connection.execute("select register_worker(%s, '1 second', '{a}')", [f"w\n{IMITATION}\r\u2028{IMITATION}"])
        connection.execute("update workers set seen_at = clock_timestamp() - interval '1 hour'")
        connection.execute("select register_worker('live', '1 hour', '{a}')")
    shown = treadle("doctor", "--database-url", own_url).stdout
    assert f"          w {IMITATION}" in shown
    assert not [line for line in shown.splitlines() if line.startswith("critical")]


def test_the_remedy_for_a_short_timeout_is_not_masked(own_url: str) -> None:
    with connected(own_url) as connection:
        user = one(connection, "select quote_ident(current_user)")
    shown = treadle("doctor", "--database-url", make_conninfo(own_url, options="-c idle_session_timeout=1h")).stdout
    assert f"alter role {user} set idle_session_timeout = 0;" in shown
