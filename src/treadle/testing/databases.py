"""Databases for tests: one for each process, with a clock that can be moved, emptied before each test."""

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from treadle.db.database import DatabaseError
from treadle.db.migrations import migrate
from treadle.db.query import bind, sql_text
from treadle.db.setup_connection import connect
from treadle.db.url import described, parts_of, with_part
from treadle.words.errors import InvalidArgument, NotAllowed, TreadleError
from treadle.words.naming import SCHEMA

VARIABLE = "TREADLE_TEST_URL"
# SQLSTATEs: insufficient_privilege and lock_not_available.
DENIED, LOCKED = "42501", "55P03"
# The databases and schemas that this process has prepared.
_prepared: set[tuple[str, str]] = set()


@contextmanager
def own_database(folder: Path) -> Iterator[str]:
    """The URL of a database that no other process of tests uses meanwhile: on the server of TREADLE_TEST_URL, else on
    the embedded server of this folder.

    It is kept for the next run, which then has to apply only what has changed. Processes agree by advisory locks, which
    the server releases however a process ends.
    """
    server = os.environ.get(VARIABLE)
    if not server:
        from treadle.db.embedded import embedded_url  # here, because it is an extra

        server = embedded_url(folder, quiet=True)
    base = parts_of(server).get("dbname", "")
    prefix = "treadle_test" if base in ("", "postgres") else f"{base[:45]}_treadle_test"
    with connect(server) as connection:
        for number in itertools.count(1):
            name = f"{prefix}_{number}"
            if connection.execute("select pg_try_advisory_lock(hashtext(%s))", [name]).fetchall() == [(True,)]:
                break
        if not connection.execute("select from pg_database where datname = %s", [name]).fetchall():
            _create(connection, name, server)
        yield with_part(server, dbname=name)


def prepare(url: str, schema: str = SCHEMA) -> None:
    """Migrate a test database, and give it a clock that can be moved. Its name has to contain "test"."""
    _require_test_database(url)
    if (url, schema) in _prepared:
        return
    migrate(url, schema)
    with connect(url) as connection, connection.transaction():
        connection.execute("select pg_advisory_xact_lock(hashtext('treadle test clock'))")
        connection.execute("set local search_path = pg_catalog, pg_temp")
        connection.execute(bind(sql_text("testing", "movable_clock.sql"), schema))
    _prepared.add((url, schema))


class Emptied:
    """Empties a prepared database, on one connection that stays open."""

    def __init__(self, url: str, schema: str) -> None:
        _require_test_database(url)
        self._connection = connect(url)
        self._text = bind(sql_text("testing", "empty_queue.sql"), schema)

    def empty(self) -> None:
        try:
            self._connection.execute(self._text)
        except DatabaseError as error:
            if error.sqlstate != LOCKED:
                raise
            raise TreadleError(
                "the queue cannot be emptied after the test: a connection that it has left behind has an open "
                "transaction with changes of jobs; commit it, roll it back or close it in the test"
            ) from error

    def close(self) -> None:
        self._connection.close()


def _create(connection: Any, name: str, server: str) -> None:
    try:
        connection.execute(f'create database "{name}"'.encode())
        # The data of a test need not survive a crash of the server: a commit does not wait for the disk. This is not in
        # the URL, because other drivers do not know `options`.
        connection.execute(f'alter database "{name}" set synchronous_commit = off'.encode())
    except DatabaseError as error:
        if error.sqlstate != DENIED:
            raise
        raise NotAllowed(
            f"tests need a database of their own, which this role may not create at {described(server)}; "
            "grant it createdb, or override the fixture treadle_url"
        ) from error


def _require_test_database(url: str) -> None:
    name = parts_of(url).get("dbname", "")
    if not {"test", "tests", "testing", "pytest"} & set(re.split("[^a-z]+", name.lower())):
        raise InvalidArgument(
            f'tests would empty the database {name!r}, so its name has to contain the word "test", such as shop_test; '
            "create another for them"
        )
