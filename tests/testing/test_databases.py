"""Databases for tests: one for each process, and never one that may be in use otherwise."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.databases import create_database
from treadle import InvalidArgument, NotAllowed, Treadle, TreadleError
from treadle.db.query import sql_text
from treadle.testing import databases, harness_for, own_database, prepare
from treadle.testing.databases import Emptied
from treadle.testing.sessions import MOST, Sessions


@pytest.fixture
def own_server(server_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Names of databases on it that no other test uses."""
    for url in create_database(server_url, "template0"):
        monkeypatch.setenv("TREADLE_TEST_URL", url)
        return str(conninfo_to_dict(url)["dbname"])
    raise AssertionError


def drop(server_url: str, *urls: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        for url in urls:
            connection.execute(f'drop database "{conninfo_to_dict(url)["dbname"]}" with (force)')


def test_two_at_once_have_two_databases_which_the_next_ones_use_again(server_url: str, own_server: str) -> None:
    with own_database(Path("unused")) as first, own_database(Path("unused")) as second:
        names = [conninfo_to_dict(each)["dbname"] for each in (first, second)]
    assert names == [f"{own_server}_treadle_test_1", f"{own_server}_treadle_test_2"]
    with own_database(Path("unused")) as again:
        assert again == first
    drop(server_url, first, second)


def test_the_url_is_one_for_every_driver_and_commits_do_not_wait_for_the_disk(
    server_url: str, own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although a connection string was given. SQLAlchemy and asyncpg read only URLs, and do not know `options`."""
    from sqlalchemy import make_url

    odd = "a b/@:"
    monkeypatch.setenv("TREADLE_TEST_URL", make_conninfo(server_url, dbname=own_server, password=odd))
    with own_database(Path("unused")) as url:
        read = make_url(url)
        assert (read.drivername, read.password, read.database) == (
            "postgresql",
            "a b/@:",
            f"{own_server}_treadle_test_1",
        )
        assert "options" not in read.query
        with psycopg.connect(url) as connection:
            assert connection.execute("show synchronous_commit").fetchone() == ("off",)
    drop(server_url, url)


def test_a_role_that_may_not_create_databases_is_told_what_to_do(
    server_url: str, own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("create role treadle_powerless login")
        try:
            monkeypatch.setenv(
                "TREADLE_TEST_URL", make_conninfo(server_url, user="treadle_powerless", dbname=own_server)
            )
            with pytest.raises(NotAllowed, match="grant it createdb, or override the fixture treadle_url"):
                with own_database(Path("unused")):
                    pass
        finally:
            connection.execute("drop role treadle_powerless")


@pytest.mark.parametrize("name", ["shop", "latest", "contest_2026"])
@pytest.mark.parametrize("what", [prepare, lambda url: Emptied(url, "treadle")])
def test_a_database_whose_name_does_not_say_test_is_never_changed(what: Any, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"would empty the database '{name}', so its name has to contain"):
        what(f"postgresql://nobody@production.invalid/{name}")


def test_preparing_again_changes_nothing_and_mends_what_a_migration_replaced(
    prepared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(prepared_url, autocommit=True) as connection:
        connection.execute("alter table treadle.jobs alter column created_at set default now()")
        monkeypatch.setattr(databases, "_prepared", set())
        prepare(prepared_url)
        prepare(prepared_url)
        shown = connection.execute(
            "select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'treadle.jobs'::regclass "
            "and adnum = (select attnum from pg_attribute where attrelid = adrelid and attname = 'created_at')"
        ).fetchall()
    assert shown == [("treadle.test_now()",)]


def test_another_schema_works_too(app: Treadle, prepared_url: str) -> None:
    other = Treadle("postgresql://nobody@production.invalid/shop", schema="other")

    @other.job
    def work() -> None: ...

    with harness_for(other, url=prepared_url) as harness:
        work.using(delay="1d").enqueue()
        harness.travel("1d")
        assert harness.drain().completed == 1


def test_the_application_has_its_own_database_again_after_the_tests(prepared_url: str, tmp_path: Path) -> None:
    app = Treadle("postgresql://nobody@production.invalid/shop")
    before = dict(vars(app.database))
    sessions = Sessions(tmp_path)
    with sessions.test(app, prepared_url):
        assert vars(app.database) != before
        assert app.queue.counts()
    sessions.close()
    assert vars(app.database) == before


def test_a_project_that_makes_an_application_for_each_test_keeps_few_connections(
    prepared_url: str, tmp_path: Path
) -> None:
    sessions = Sessions(tmp_path)
    apps = [Treadle("postgresql://nobody@production.invalid/shop") for _ in range(MOST + 2)]
    before = [dict(vars(app.database)) for app in apps]
    for app in apps:
        with sessions.test(app, prepared_url):
            assert app.queue.counts()
    changed = [vars(app.database) != former for app, former in zip(apps, before, strict=True)]
    assert changed == [False, False, True, True, True, True]
    sessions.close()


def test_a_transaction_that_a_test_leaves_open_is_explained(
    app: Treadle, prepared_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sql_text("testing", "empty_queue.sql").replace("'5s'", "'50ms'")
    monkeypatch.setattr(databases, "sql_text", lambda *_: text)
    emptied = Emptied(prepared_url, "treadle")
    with psycopg.connect(prepared_url) as connection:
        connection.execute("select treadle.enqueue('left', '{}')")
        connection.commit()
        connection.execute("select from treadle.jobs for update")
        with pytest.raises(TreadleError, match="a connection that it has left behind has an open transaction"):
            emptied.empty()
    emptied.empty()
    emptied.close()
