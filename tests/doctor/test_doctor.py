"""The doctor as a whole: a healthy server is well, a look never harms, one that fails is a finding, and the command."""

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chaos.ledger import FOLDER
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from tests.support.commands import typed as treadle
from tests.support.doctor import connected, findings
from tests.support.workers import one, until_completed, working
from treadle import DatabaseUnreachable, Treadle, migrate
from treadle.db.database import Database
from treadle.db.embedded import embedded_url, leave
from treadle.db.examination import aexamination, examination
from treadle.db.query import Query, QueryFailed
from treadle.doctor import Finding, Severity, by_severity, worst
from treadle.doctor import examine as doctor
from treadle.doctor.examine import aexamine, examine


@pytest.mark.own_database
def test_a_fresh_server_with_a_worker_and_some_thousand_jobs_is_well(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    url = embedded_url(fresh, quiet=True)
    migrate(url)
    with connected(url) as connection, working(url, tmp_path):
        connection.execute("select enqueue_jobs('noop', array_agg('{}'::text)) from generate_series(1, 3000)")
        until_completed(connection, 3000)
        found = findings(url)
    assert {name: each for name, each in found.items() if each.level is not Severity.OK} == {}
    assert sorted(found) == sorted(doctor.NAMES)


def test_both_twins_say_the_same(url: str, app: Treadle) -> None:
    async def both() -> list[Finding]:
        try:
            return await aexamine(app.database)
        finally:
            await app.aclose()

    def told(found: list[Finding]) -> list[tuple[str, Severity]]:
        return [(each.name, each.level) for each in found]

    assert told(asyncio.run(both())) == told(examine(app.database))


def write(_: Any = None) -> Query[None]:
    return Query("select setval('treadle.wake_clock', 7)", {}, lambda _: None)


def test_a_look_cannot_write(url: str, connection: Connection[Any]) -> None:
    with examination(Database(url, "treadle")) as look:
        refused = look(write())
        assert isinstance(refused, QueryFailed)
        assert "read-only transaction" in refused.message
    assert one(connection, "select last_value from wake_clock") == 0


def test_a_look_gives_up(url: str) -> None:
    async def aread(query: Query[None]) -> object:
        async with aexamination(Database(url, "treadle"), 0.05) as look:
            return await look(query)

    sleep: Query[None] = Query("select pg_sleep(30)", {}, lambda _: None)
    with examination(Database(url, "treadle"), 0.05) as look:
        refused = look(sleep)
        assert isinstance(refused, QueryFailed)
        assert refused.timed_out
        # The next one is not affected.
        assert look(Query("select 7", {}, lambda rows: rows[0][0])) == 7
    assert asyncio.run(aread(sleep)) == refused


def test_a_server_that_goes_away_meanwhile(url: str) -> None:
    leave: Query[None] = Query("select pg_terminate_backend(pg_backend_pid())", {}, lambda _: None)
    with pytest.raises(DatabaseUnreachable, match="cannot reach PostgreSQL at"):
        with examination(Database(url, "treadle")) as look:
            look(leave)


@pytest.fixture
def locked(connection: Connection[Any]) -> Iterator[None]:
    with connection.transaction(force_rollback=True):
        connection.execute("lock table jobs in access exclusive mode")
        yield


def test_a_locked_table_is_a_finding_and_the_others_go_on(url: str, locked: None) -> None:
    found = findings(url)
    assert found["crashing_jobs"].level is Severity.WARNING
    assert "timed out" in found["crashing_jobs"].title
    assert "lock timeout" in found["crashing_jobs"].detail
    assert found["schema"].level is Severity.OK
    assert found["triggers"].level is Severity.OK
    assert sorted(found) == sorted(doctor.NAMES)


def test_a_right_that_is_missing_is_a_finding(ward: str) -> None:
    with connected(ward) as connection:
        connection.execute("create role viewer login")
        try:
            viewer = make_conninfo(ward, user="viewer")
            before = findings(viewer)
            assert before["schema"].level is Severity.WARNING
            assert before["schema"].title == "This role lacks a privilege for this check."
            assert "permission denied for schema treadle" in before["schema"].detail
            assert before["held_snapshot"].level is Severity.NOTE
            assert before["held_snapshot"].remedy == "grant pg_monitor to viewer;"
            assert before["connections"].level is Severity.OK
            for statement in before["schema"].remedy.splitlines():
                connection.execute(statement.encode())
            after = findings(viewer)
            assert {name for name, each in after.items() if each.level is not Severity.OK} == {"durability"}
            assert sorted(after) == sorted(doctor.NAMES)
        finally:
            connection.execute("drop owned by viewer")
            connection.execute("drop role viewer")


def test_a_right_to_a_single_table(ward: str) -> None:
    with connected(ward) as connection:
        connection.execute("create role viewer login in role pg_monitor")
        connection.execute("grant usage on schema treadle to viewer")
        connection.execute("grant select on migrations, functions, jobs, lanes to viewer")
        try:
            found = findings(make_conninfo(ward, user="viewer"))
            refused = {name for name, each in found.items() if "lacks a privilege" in each.title}
            assert "silent_workers" in refused
            assert "indexes" not in refused
        finally:
            connection.execute("drop owned by viewer")
            connection.execute("drop role viewer")


def test_without_a_second_connection_the_rest_is_examined(ward: str) -> None:
    with connected(ward) as connection:
        connection.execute("create role viewer login connection limit 1")
        try:
            found = findings(make_conninfo(ward, user="viewer"))
            assert found["listen"].level is Severity.WARNING
            assert 'too many connections for role "viewer"' in found["listen"].detail
            assert found["connections"].level is Severity.CRITICAL
        finally:
            connection.execute("drop role viewer")


def test_a_standby_is_examined(folder: Path) -> None:
    settings = {"fsync": "off"}
    migrate(embedded_url(folder, settings, quiet=True))
    leave(folder)
    shutil.copyfile(folder / "data" / "PG_VERSION", folder / "data" / "standby.signal")
    url = embedded_url(folder, settings, quiet=True)
    with connected(url) as connection:
        connection.execute("select pg_create_physical_replication_slot('reports', true)")
    found = findings(url)
    assert found["writable"].level is Severity.CRITICAL
    assert "standby" in found["writable"].title
    assert "LISTEN" in found["listen"].detail
    ill = {name for name, each in found.items() if each.level is not Severity.OK}
    assert ill == {"writable", "listen", "durability"}
    assert sorted(found) == sorted(doctor.NAMES)


def test_on_a_connection_of_the_caller_nothing_is_left_behind(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table public.mine (n int)")
        before = one(connection, "show statement_timeout"), one(connection, "show enable_seqscan")
        found = {each.name: each for each in examine(Treadle(connection).database)}
        assert found["schema"].level is Severity.OK
        assert "not tested" in found["listen"].title
        assert (one(connection, "show statement_timeout"), one(connection, "show enable_seqscan")) == before
        # Still its transaction, and still one that can write.
        connection.execute("insert into public.mine values (1)")
        connection.rollback()


def test_on_a_pool_and_an_async_connection_of_the_caller(url: str) -> None:
    with ConnectionPool(url, min_size=1, max_size=1) as pool:
        assert sorted(each.name for each in examine(Treadle(pool).database)) == sorted(doctor.NAMES)

    async def on_async() -> list[Finding]:
        async with await AsyncConnection.connect(url) as connection:
            return await aexamine(Treadle(connection).database)

    assert sorted(each.name for each in asyncio.run(on_async())) == sorted(doctor.NAMES)


def test_every_finding_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    _, table = page.split("## Findings")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == doctor.NAMES


def test_the_worst_comes_first() -> None:
    levels = (Severity.OK, Severity.WARNING, Severity.NOTE, Severity.WARNING)
    some = [Finding(str(n), level, "") for n, level in enumerate(levels)]
    assert [each.name for each in by_severity(some)] == ["1", "3", "2", "0"]
    assert (worst(some), worst([])) == (Severity.WARNING, Severity.OK)


# The command


def test_exit_codes_and_json(own_url: str) -> None:
    def asked(*options: str) -> tuple[int, Any]:
        result = treadle("doctor", "--json", "--database-url", own_url, *options)
        assert result.stderr == ""
        return result.exit_code, json.loads(result.stdout)

    code, found = asked()
    assert code == 0
    assert found["level"] in ("ok", "note")  # the tests' server is without fsync
    assert [each["name"] for each in found["findings"]][-1] in doctor.NAMES
    assert set(found["findings"][0]) == {"name", "level", "title", "detail", "remedy"}
    with connected(own_url) as connection:
        connection.execute("alter table logs set unlogged")
        assert asked()[0] == 1
        connection.execute("alter table jobs disable trigger unblock_next")
        code, found = asked()
        assert (code, found["level"], found["findings"][0]["name"]) == (3, "critical", "triggers")
    code, found = asked("--schema", "nowhere")
    assert (code, found["findings"][0]["title"]) == (3, "There is no schema nowhere in this database.")


def test_a_server_that_cannot_be_examined_is_a_sentence() -> None:
    result = treadle("doctor", "--database-url", "postgresql://ada:secret@127.0.0.1:1/app")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("Error: cannot reach PostgreSQL at 127.0.0.1:1/app")
    assert "secret" not in result.stderr


def test_in_a_pipe_it_is_plain_text(own_url: str) -> None:
    with connected(own_url) as connection:
        connection.execute("alter table logs set unlogged")
        connection.execute("select register_worker(E'evil\\x1b[2J', '1 second', '{a}')")
        connection.execute("update workers set seen_at = clock_timestamp() - interval '1 hour'")
    result = treadle("doctor", "--database-url", own_url)
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith("warning   Tables of the queue are unlogged: a crash of the server empties them")
    assert lines[0].endswith("  unlogged_tables")
    assert lines[1:3] == ["          logs", "          → alter table treadle.logs set logged;"]
    assert "evil [2J: last heartbeat 1h 00m ago" in result.stdout
    assert lines[-1].endswith("other checks passed; --verbose shows them.")
    shown = treadle("doctor", "--verbose", "--database-url", own_url).stdout
    assert "ok        indexes: All indexes exist and are valid." in shown
