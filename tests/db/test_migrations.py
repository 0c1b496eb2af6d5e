"""Migrations can run concurrently, do not stall a busy table, write nothing if up to date, and refuse newer schemas."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import SERVER
from tests.support.dump_schema import SNAPSHOT, dump
from tests.support.waiting import until_waiting_for_lock
from treadle import InvalidArgument, JobQueue, SchemaError, Treadle, migrate
from treadle.db import migrations, table_locks
from treadle.db.function_settings import READS_JOBS, function_sql
from treadle.db.migrations import function_files, migration_files, migration_sql
from treadle.db.query import in_schema


def catalog_rows(url: str) -> list[Any]:
    """The catalog rows of the schema with their row versions, which show whether anything was written."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            """select 'table', relname::text, xmin::text from pg_class where relnamespace = 'treadle'::regnamespace
            union all
            select 'function', proname::text, xmin::text from pg_proc where pronamespace = 'treadle'::regnamespace
            union all select 'migration', name, xmin::text from treadle.migrations
            union all select 'entry', name, xmin::text from treadle.functions
            order by 1, 2, 3"""
        ).fetchall()


def test_the_first_run_applies_everything_and_the_second_nothing(empty_url: str) -> None:
    applied = migrate(empty_url)
    assert applied[0] == "0001_baseline.sql"
    assert "claim_jobs()" in applied
    before = catalog_rows(empty_url)
    assert migrate(empty_url) == []
    assert catalog_rows(empty_url) == before


@pytest.mark.long
def test_concurrent_runs_apply_everything_once(empty_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(migrate, [empty_url] * 8))
    assert sorted(map(bool, results)) == [False] * 7 + [True]
    JobQueue(empty_url).close()


def test_without_the_lock_concurrent_runs_would_collide(empty_url: str) -> None:
    """Both runs wait at the lock: the second finds nothing to do once it has the lock."""
    with psycopg.connect(empty_url) as lock_owner, psycopg.connect(empty_url, autocommit=True) as monitor:
        lock_owner.execute("select pg_advisory_xact_lock(hashtextextended('treadle migrate treadle', 0))")
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(migrate, empty_url) for _ in range(2)]
            until_waiting_for_lock(monitor)
            lock_owner.rollback()
            assert sorted(bool(run.result()) for run in runs) == [False, True]


def test_a_migration_does_not_stall_a_busy_table(url: str, empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a migration waits for its lock, others queue up behind it: so it waits briefly, and tries again later."""
    migrate(empty_url)
    monkeypatch.setattr(table_locks, "LOCK_TIMEOUT", 100)
    with psycopg.connect(empty_url) as reader, psycopg.connect(empty_url, autocommit=True) as writer:
        reader.execute("select from treadle.jobs")
        # A changed trigger needs a lock on the table, which the reader's transaction prevents.
        writer.execute("delete from treadle.functions where name = 'confirm_blocked'")
        run = threading.Thread(target=migrate, args=[empty_url])
        run.start()
        until_waiting_for_lock(writer)
        writer.execute("set statement_timeout = '10s'")
        writer.execute("insert into treadle.jobs (job_type) values ('a')")
        reader.rollback()
        run.join(30)
        assert not run.is_alive()
        rows = writer.execute("select from treadle.functions where name = 'confirm_blocked'").fetchall()
        assert len(rows) == 1


def test_a_table_that_stays_busy_is_reported_and_nothing_is_changed(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_url)
    monkeypatch.setattr(table_locks, "LOCK_TIMEOUT", 20)
    monkeypatch.setattr(table_locks, "TRIES", 2)
    with psycopg.connect(empty_url) as reader, psycopg.connect(empty_url, autocommit=True) as writer:
        reader.execute("select from treadle.jobs")
        writer.execute("delete from treadle.functions where name = 'confirm_blocked'")
        before = catalog_rows(empty_url)
        with pytest.raises(SchemaError, match=r"were locked during all 2 attempts; no migration was applied"):
            migrate(empty_url)
        assert catalog_rows(empty_url) == before


def test_a_migration_is_retried_after_a_deadlock(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run waits for the table, and the transaction for a row of the migration records. The run is the victim."""
    migrate(empty_url)
    monkeypatch.setattr(table_locks, "LOCK_TIMEOUT", 60_000)
    with psycopg.connect(empty_url) as other, psycopg.connect(empty_url, autocommit=True) as monitor:
        monitor.execute("delete from treadle.functions where name in ('claim_jobs', 'confirm_blocked')")
        other.execute("set local deadlock_timeout = '1min'")
        other.execute("select from treadle.jobs")
        with ThreadPoolExecutor() as pool:
            run = pool.submit(migrate, empty_url)
            until_waiting_for_lock(monitor)
            other.execute("insert into treadle.functions (name, digest) values ('claim_jobs', '')")
            other.rollback()
            assert run.result() == ["claim_jobs()", "confirm_blocked()"]


def test_a_changed_function_is_applied_again(empty_url: str) -> None:
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("update treadle.functions set digest = 'older' where name = 'retry_delay'")
        connection.execute(
            "create or replace function treadle.retry_delay(p_attempts int) returns interval language sql"
            " as $$ select interval '1 year' $$"
        )
    assert migrate(empty_url) == ["retry_delay()"]
    with psycopg.connect(empty_url) as connection:
        assert connection.execute("select treadle.retry_delay(1) <= '1 second'").fetchone() == (True,)


def test_a_function_without_a_file_is_dropped_with_its_trigger(empty_url: str) -> None:
    """Only functions in the migration records are dropped, and only after everything else was applied."""
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        for name in ("renamed", "of_the_user"):
            body = "language plpgsql as 'begin return null; end'"
            connection.execute(f"create function treadle.{name}() returns trigger {body}".encode())
        connection.execute("create function treadle.renamed(int) returns int language sql as 'select 1'")
        connection.execute("create trigger renamed after delete on treadle.jobs execute function treadle.renamed()")
        connection.execute("insert into treadle.functions (name, digest) values ('renamed', ''), ('long_gone', '')")
        connection.execute("update treadle.functions set digest = 'older' where name = 'job_ended'")
    script = migration_sql(empty_url)
    assert script.index("-- job_ended()") < script.index("-- drop renamed()")
    assert migrate(empty_url) == ["job_ended()", "drop long_gone()", "drop renamed()"]
    with psycopg.connect(empty_url) as connection:
        left = connection.execute(
            "select proname from pg_proc where pronamespace = 'treadle'::regnamespace and proname ~ 'renamed|of_the'"
        ).fetchall()
    assert left == [("of_the_user",)]
    assert migrate(empty_url) == []


def test_a_function_that_other_objects_depend_on_is_not_dropped(empty_url: str) -> None:
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("create function treadle.renamed() returns int language sql as 'select 1'")
        connection.execute("create view of_the_user as select treadle.renamed()")
        connection.execute("insert into treadle.functions (name, digest) values ('renamed', '')")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="renamed"):
        migrate(empty_url)


def test_changed_triggers_take_the_strongest_lock_first(empty_url: str) -> None:
    """A claim locks the table to read, then to write. A weaker lock taken in between would deadlock with it."""
    migrate(empty_url)
    with psycopg.connect(empty_url) as claim, psycopg.connect(empty_url, autocommit=True) as monitor:
        monitor.execute("update treadle.functions set digest = '' where name ~ 'change_job|confirm_blocked'")
        claim.execute("select from treadle.jobs for no key update")
        with ThreadPoolExecutor() as pool:
            run = pool.submit(migrate, empty_url)
            until_waiting_for_lock(monitor)
            claim.execute("set local deadlock_timeout = '10ms'")
            claim.execute("update treadle.jobs set priority = 1")
            claim.commit()
            assert run.result() == ["change_job()", "confirm_blocked()"]


def test_no_function_has_two_files() -> None:
    folder = Path(str(files("treadle"))) / "sql" / "functions"
    names = [path.name for path in folder.rglob("*.sql")]
    assert len(names) == len(set(names))
    assert {path.parent.name for path in folder.rglob("*.sql")} == set(migrations.FOLDERS)


def test_a_newer_schema_is_refused(empty_url: str) -> None:
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("insert into treadle.migrations (version, name) values (999, '0999_future.sql')")
    known = max(number for number, _ in migration_files())
    message = f"schema treadle is at 999 but this version of Treadle supports only {known}; upgrade the treadle package"
    for act in (lambda: migrate(empty_url), lambda: migration_sql(empty_url), lambda: JobQueue(empty_url).counts()):
        with pytest.raises(SchemaError) as refused:
            act()
        assert str(refused.value) == message


def test_a_newer_schema_is_accepted_if_its_migrations_are_compatible(own_url: str) -> None:
    """A rolling deploy: processes of the old version start after the migration. And a roll-back: it migrates again."""
    add = "insert into treadle.migrations (version, name) values (%s, %s)"
    with psycopg.connect(own_url, autocommit=True) as connection:
        connection.execute(add, [998, "0998_more.compatible.sql"])
        connection.execute("update treadle.functions set digest = 'that of the newer version' where name = 'tick'")
        assert migrate(own_url) == []
        assert migration_sql(own_url) == ""
        app = Treadle(own_url)

        @app.job
        async def double(n: int) -> int:
            return 2 * n

        async def body() -> int:
            async with app.worker():
                return await (await double.aenqueue(n=3)).aresult(30)

        assert asyncio.run(body()) == 6
        app.close()
        connection.execute(add, [999, "0999_other.sql"])
        with pytest.raises(SchemaError, match="schema treadle is at 999 but this version of Treadle supports only"):
            JobQueue(own_url).counts()


def test_a_compatible_schema_must_have_all_functions(own_url: str) -> None:
    with psycopg.connect(own_url, autocommit=True) as connection:
        connection.execute("insert into treadle.migrations (version, name) values (999, '0999_more.compatible.sql')")
        connection.execute("delete from treadle.functions where name = 'tick'")
    with pytest.raises(SchemaError, match=r"supports only .*; upgrade the treadle package"):
        JobQueue(own_url).counts()


def test_the_error_for_an_older_schema_names_the_command(empty_url: str) -> None:
    migrate(empty_url)
    with psycopg.connect(empty_url) as connection:
        connection.execute("delete from treadle.functions where name = 'tick'")
    with pytest.raises(SchemaError, match="schema treadle lacks functions; run: treadle migrate"):
        JobQueue(empty_url).counts()
    with psycopg.connect(empty_url) as connection:
        connection.execute("delete from treadle.migrations")
    with pytest.raises(SchemaError, match=r"schema treadle is at 0 but this version needs \d+; run: treadle migrate"):
        JobQueue(empty_url).counts()


def test_the_printed_script_does_what_the_command_does(empty_url: str) -> None:
    script = migration_sql(empty_url)
    with psycopg.connect(empty_url, autocommit=True) as connection:
        assert connection.execute("select to_regnamespace('treadle')").fetchone() == (None,)
        connection.execute(script.encode())
    assert migration_sql(empty_url) == ""
    assert migrate(empty_url) == []


@pytest.mark.parametrize("schema", ["jobs_of_app2", "user", "order", "Mixed_Case", "_x", "z" * 63])
def test_any_plain_identifier_is_a_schema_name(empty_url: str, schema: str) -> None:
    migrate(empty_url, schema)
    with JobQueue(empty_url, schema=schema) as queue:
        queue.enqueue("a", key="k")
        (job,) = queue.claim(["a"])
        queue.complete(job)
        assert queue.prune("completed", 0) == 1


@pytest.mark.parametrize(
    "schema",
    ["", "1st", "a-b", "a.b", 'a"b', "a b", "a;drop", "ä", "a\n", "pg_x", "PG_x", "information_schema", "z" * 64],
)
def test_any_other_schema_name_is_refused_before_any_sql(schema: str) -> None:
    with pytest.raises(InvalidArgument, match="schema must be a plain identifier"):
        JobQueue("postgresql://nobody@127.0.0.1:1/nothing", schema=schema)
    with pytest.raises(InvalidArgument, match="schema must be a plain identifier"):
        in_schema("select from treadle.jobs", schema)


def test_two_schemas_do_not_see_each_other(empty_url: str) -> None:
    migrate(empty_url, "one")
    migrate(empty_url, "two")
    with JobQueue(empty_url, schema="one") as one, JobQueue(empty_url, schema="two") as two:
        one.enqueue("a", key="k")
        two.enqueue("a", key="k")
        assert len(one.claim(["a"])) == len(two.claim(["a"])) == 1
        assert one.prune("completed", 0) == two.recover_stale_jobs(60) == 0
    with psycopg.connect(empty_url) as connection:
        rows = connection.execute(
            "select prosrc from pg_proc where pronamespace = 'two'::regnamespace and prosrc ~ '(treadle|\"one\")\\.'"
        ).fetchall()
        assert rows == []


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migration_files()] == list(range(1, len(migration_files()) + 1))


def test_a_function_for_a_newer_server_replaces_the_general_one() -> None:
    assert dict(function_files(170000))["new_id"] == "parts/new_id.sql"
    assert dict(function_files(180000))["new_id"] == "parts/new_id.pg18.sql"
    assert dict(function_files(190001))["new_id"] == "parts/new_id.pg18.sql"


def test_every_function_has_a_comment_in_the_database(connection: Connection[Any]) -> None:
    rows = connection.execute(
        """select proname from pg_proc where pronamespace = 'treadle'::regnamespace
        and obj_description(oid, 'pg_proc') is null"""
    ).fetchall()
    assert rows == []


def test_every_function_that_reads_jobs_disables_sequential_scans() -> None:
    """A session keeps a plan made while the table was small: a sequential scan would remain."""
    # claim_jobs() and claim_in_turns() disable them for these
    allowed = {"claim_lanes.sql", "oldest_of_lanes.sql", "mark_claimed.sql", "raise_floors.sql", "make_dormant.sql"}
    allowed |= {"admit_jobs.sql", "taken_slots.sql", "fair_shares.sql"}
    folder = Path(str(files("treadle"))) / "sql" / "functions"
    texts = {path.name: function_sql(f"{path.parent.name}/{path.name}") for path in folder.rglob("*.sql")}
    reading = {name for name, text in texts.items() if "plpgsql" in text and READS_JOBS.search(text)}
    guarded = {name for name, text in texts.items() if re.search(r"^set enable_seqscan = off$", text, re.MULTILINE)}
    assert {"claim_jobs.sql", "tick.sql", "next_due.sql", "claim_lanes.sql", "cancel_job.sql"} <= reading
    assert reading - guarded == allowed


def test_the_schema_dump_in_the_repository_is_up_to_date(url: str, connection: Connection[Any]) -> None:
    if connection.info.server_version < 180000:
        pytest.skip("the dump in git is PostgreSQL 18's")
    assert dump(url) == SNAPSHOT.read_text(), "run: make schema, and review the difference"


def test_the_tests_use_a_real_server(server_url: str) -> None:
    assert SERVER
    with psycopg.connect(server_url) as connection:
        assert connection.info.server_version >= 140000


def test_sequences_that_logical_replication_has_left_behind_are_advanced(empty_url: str) -> None:
    migrate(empty_url)
    with JobQueue(empty_url) as queue, psycopg.connect(empty_url, autocommit=True) as connection:
        for name in "ab":
            queue.enqueue(name)
        connection.execute("alter sequence treadle.lanes_id_seq restart")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("select treadle.enqueue('c')")
        assert migrate(empty_url) == ["numbers of treadle.lanes"]
        connection.execute("select treadle.enqueue('c')")
        assert migrate(empty_url) == []
