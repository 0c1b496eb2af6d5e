"""The doctor as a whole: healthy servers, checks that fail, connections of the caller, and the command."""

import ast
import asyncio
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chaos.ledger import FOLDER
from chaos.proxy import Proxy
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from tests.support.commands import run_treadle as treadle
from tests.support.doctor import connected, findings
from tests.support.workers import one, until_completed, worker_process
from treadle import Connections, DatabaseUnreachable, Treadle, migrate
from treadle.db.database import Database
from treadle.db.embedded import embedded_url, leave
from treadle.db.examination import aexamination, examination
from treadle.db.queries.listing import get_clock
from treadle.db.query import Query, QueryFailed
from treadle.doctor import Finding, Severity, by_severity, worst
from treadle.doctor import examine as doctor
from treadle.doctor.examine import aexamine, examine


@pytest.mark.own_database
@pytest.mark.long
def test_a_new_server_after_some_thousand_jobs_has_no_findings(
    new_server_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    url = embedded_url(new_server_folder, quiet=True)
    migrate(url)
    with connected(url) as connection, worker_process(url, tmp_path):
        connection.execute("select enqueue_jobs('noop', array_agg('{}'::text)) from generate_series(1, 3000)")
        until_completed(connection, 3000)
        found = findings(url)
    assert {name: each for name, each in found.items() if each.level is not Severity.OK} == {}
    assert sorted(found) == sorted(doctor.NAMES)


def test_sync_and_async_examinations_find_the_same(url: str, app: Treadle) -> None:
    async def both() -> list[Finding]:
        try:
            return await aexamine(app.database)
        finally:
            await app.aclose()

    def names_and_levels(found: list[Finding]) -> list[tuple[str, Severity]]:
        return [(each.name, each.level) for each in found]

    assert names_and_levels(asyncio.run(both())) == names_and_levels(examine(app.database))


def write(_: Any = None) -> Query[None]:
    return Query("select setval('treadle.wake_clock', 7)", {}, lambda _: None)


def test_a_check_cannot_write(url: str, connection: Connection[Any]) -> None:
    with examination(Database(url, "treadle")) as read:
        refused = read(write())
        assert isinstance(refused, QueryFailed)
        assert "read-only transaction" in refused.message
    assert one(connection, "select last_value from wake_clock") == 0


def test_a_check_is_stopped_at_its_time_limit(url: str) -> None:
    async def aread(query: Query[None]) -> object:
        async with aexamination(Database(url, "treadle"), 0.05) as read:
            return await read(query)

    sleep: Query[None] = Query("select pg_sleep(30)", {}, lambda _: None)
    with examination(Database(url, "treadle"), 0.05) as read:
        refused = read(sleep)
        assert isinstance(refused, QueryFailed)
        assert refused.timed_out
        # The next query is not affected.
        assert read(Query("select 7", {}, lambda rows: rows[0][0])) == 7
    assert asyncio.run(aread(sleep)) == refused


def test_a_connection_lost_during_the_examination_is_an_error(url: str) -> None:
    leave: Query[None] = Query("select pg_terminate_backend(pg_backend_pid())", {}, lambda _: None)
    with pytest.raises(DatabaseUnreachable, match="cannot reach PostgreSQL at"):
        with examination(Database(url, "treadle")) as read:
            read(leave)


def test_a_missing_privilege_is_a_finding_with_a_remedy(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute("create role viewer login")
        try:
            viewer = make_conninfo(small_server_url, user="viewer")
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


def test_a_missing_privilege_on_one_table_affects_only_its_checks(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute("create role viewer login in role pg_monitor")
        connection.execute("grant usage on schema treadle to viewer")
        connection.execute("grant select on migrations, functions, jobs, lanes to viewer")
        try:
            found = findings(make_conninfo(small_server_url, user="viewer"))
            refused = {name for name, each in found.items() if "lacks a privilege" in each.title}
            assert "silent_workers" in refused
            assert "indexes" not in refused
        finally:
            connection.execute("drop owned by viewer")
            connection.execute("drop role viewer")


def test_the_other_checks_run_without_a_second_connection(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute("create role viewer login connection limit 1")
        try:
            found = findings(make_conninfo(small_server_url, user="viewer"))
            assert found["listen"].level is Severity.WARNING
            assert 'too many connections for role "viewer"' in found["listen"].detail
            assert found["connections"].level is Severity.CRITICAL
        finally:
            connection.execute("drop role viewer")


def test_a_standby_can_be_examined(server_folder: Path) -> None:
    settings = {"fsync": "off"}
    migrate(embedded_url(server_folder, settings, quiet=True))
    leave(server_folder)
    shutil.copyfile(server_folder / "data" / "PG_VERSION", server_folder / "data" / "standby.signal")
    url = embedded_url(server_folder, settings, quiet=True)
    with connected(url) as connection:
        connection.execute("select pg_create_physical_replication_slot('reports', true)")
    found = findings(url)
    assert found["writable"].level is Severity.CRITICAL
    assert "standby" in found["writable"].title
    assert "LISTEN" in found["listen"].detail
    problems = {name for name, each in found.items() if each.level is not Severity.OK}
    assert problems == {"writable", "listen", "durability"}
    assert sorted(found) == sorted(doctor.NAMES)


def test_an_examination_leaves_a_callers_connection_unchanged(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table public.mine (n int)")
        before = one(connection, "show statement_timeout"), one(connection, "show enable_seqscan")
        found = {each.name: each for each in examine(Treadle(connection).database)}
        assert found["schema"].level is Severity.OK
        assert "not tested" in found["listen"].title
        assert (one(connection, "show statement_timeout"), one(connection, "show enable_seqscan")) == before
        # It is still the caller's transaction, and it can still write.
        connection.execute("insert into public.mine values (1)")
        connection.rollback()


def test_a_callers_pool_or_async_connection_can_be_examined(url: str) -> None:
    with ConnectionPool(url, min_size=1, max_size=1) as pool:
        assert sorted(each.name for each in examine(Treadle(pool).database)) == sorted(doctor.NAMES)

    async def on_async() -> list[Finding]:
        async with await AsyncConnection.connect(url) as connection:
            return await aexamine(Treadle(connection).database)

    assert sorted(each.name for each in asyncio.run(on_async())) == sorted(doctor.NAMES)


def test_every_finding_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    _, table = page.split("## Findings")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == doctor.NAMES


def test_findings_are_sorted_by_severity() -> None:
    levels = (Severity.OK, Severity.WARNING, Severity.NOTE, Severity.WARNING)
    some = [Finding(str(n), level, "") for n, level in enumerate(levels)]
    assert [each.name for each in by_severity(some)] == ["1", "3", "2", "0"]
    assert (worst(some), worst([])) == (Severity.WARNING, Severity.OK)


# The command


def test_the_command_has_exit_codes_and_json(own_url: str) -> None:
    def examine_as_json(*options: str) -> tuple[int, list[Any]]:
        result = treadle("doctor", "--json", "--database-url", own_url, *options)
        assert result.stderr == ""
        return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]

    code, found = examine_as_json()
    assert code == 0
    assert found[0]["level"] in ("ok", "note")  # the server of the tests has fsync off
    assert sorted(each["name"] for each in found) == sorted(doctor.NAMES)
    assert all(set(each) == {"name", "level", "title", "detail", "remedy"} for each in found)
    with connected(own_url) as connection:
        connection.execute("alter table logs set unlogged")
        assert examine_as_json()[0] == 1
        connection.execute("alter table jobs disable trigger job_ended")
        code, found = examine_as_json()
        assert (code, found[0]["level"], found[0]["name"]) == (3, "critical", "triggers")
    code, found = examine_as_json("--schema", "nowhere")
    assert (code, found[0]["title"]) == (3, "There is no schema nowhere in this database.")


def test_an_unreachable_server_is_a_readable_error() -> None:
    result = treadle("doctor", "--database-url", "postgresql://ada:secret@127.0.0.1:1/app")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("Error: cannot reach PostgreSQL at 127.0.0.1:1/app")
    assert "secret" not in result.stderr


def test_the_output_in_a_pipe_is_plain_text(own_url: str) -> None:
    with connected(own_url) as connection:
        connection.execute("alter table logs set unlogged")
        connection.execute("select register_worker(E'evil\\x1b[2J', '1 second', '{a}')")
        connection.execute("update workers set seen_at = clock_timestamp() - interval '1 hour'")
        connection.execute("select register_worker('live', '1 hour', '{a}')")
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


def test_a_server_that_does_not_answer_is_reported_in_seconds(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(url)
    app = Treadle(proxy.url, connections=Connections(connect_timeout=2))
    proxy.black_hole_everything(True)
    began = time.monotonic()
    with pytest.raises(DatabaseUnreachable, match="cannot reach PostgreSQL"):
        examine(app.database)
    assert time.monotonic() - began < 40
    proxy.black_hole_everything(False)
    # It stops in between, when the server's own time limit has no effect.
    monkeypatch.setattr("treadle.db.examination.ANSWER_SECONDS", 0.2)
    with examination(app.database, 0.2) as run:
        run(get_clock())
        proxy.go_silent()
        with pytest.raises(DatabaseUnreachable, match="no answer within"):
            run(get_clock())

    async def body() -> None:
        async with aexamination(app.database, 0.2) as run:
            await run(get_clock())
            proxy.go_silent()
            with pytest.raises(DatabaseUnreachable, match="no answer within"):
                await run(get_clock())

    asyncio.run(body())
    proxy.close()


def test_findings_are_in_words_that_people_know() -> None:
    """A lane is a term of the code. People know queues, job types and priorities."""
    found = []
    for path in (Path(doctor.__file__).parent).rglob("*.py"):
        tree = ast.parse(path.read_text())
        docs = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docs:
                is_sentence = " " in each.value and re.search(r"(?<![._])\blanes?\b", each.value)
                found += [f"{path.name}: {each.value}"] if is_sentence else []
    assert not found
