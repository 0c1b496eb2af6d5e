"""Errors of every command that uses the database are one sentence, without a traceback and without a password."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from tests.conftest import Connect
from tests.support.commands import TREADLE, run_treadle
from tests.support.waiting import until_waiting_for_lock
from treadle import TreadleError
from treadle.cli.commands import main

ID = "01a1df1a-9662-7b8e-8b29-d2293fbf8aaf"
COMMANDS = [
    ["enqueue", "films", "--raw"],
    ["jobs"],
    ["show", ID],
    ["watch", ID],
    ["stats"],
    ["retry", ID],
    ["retry", "--status", "failed"],
    ["priority", "7", ID],
    ["pause", "--all"],
    ["resume", "--all"],
    ["pauses"],
]


def sentence(command: list[str], url: str) -> str:
    result = run_treadle(*command, "--database-url", url)
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_unreachable_server(command: list[str]) -> None:
    said = sentence(command, "postgresql://ada:secret@127.0.0.1:1/app")
    assert "cannot reach PostgreSQL at 127.0.0.1:1/app" in said
    assert "refused" in said
    assert "secret" not in said


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_database_without_the_schema(command: list[str], server_url: str) -> None:
    assert "there is no schema treadle in this database; run: treadle migrate" in sentence(command, server_url)


def test_an_outdated_schema(url: str, connection: psycopg.Connection[Any]) -> None:
    row = connection.execute(
        "delete from migrations where version = (select max(version) from migrations) returning *"
    ).fetchall()
    try:
        for command in COMMANDS:
            assert "run: treadle migrate" in sentence(command, url)
    finally:
        for each in row:
            connection.execute(f"insert into migrations values ({', '.join(['%s'] * len(each))})", each)


def test_a_role_without_privileges(url: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("drop role if exists nobody_much; create role nobody_much login password 'secret'")
    connection.execute("grant usage on schema treadle to nobody_much; grant select on migrations to nobody_much")
    try:
        limited = make_conninfo(url, user="nobody_much", password="secret")  # noqa: S106
        for command in (["jobs"], ["pauses"], ["pause", "--all"]):
            said = sentence(command, limited)
            assert "permission denied" in said
            assert "secret" not in said
    finally:
        connection.execute("drop owned by nobody_much; drop role nobody_much")


def test_an_error_that_quotes_stored_data_is_printable(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise TreadleError("stored: \x1b[2J\x9b31m\u202e")

    monkeypatch.setattr("treadle.cli.show.get_details", refuse)
    assert sentence(["show", ID], url) == "Error: stored: [2J 31m\n"


@contextmanager
def blocked(url: str, connect: Connect) -> Iterator[subprocess.Popen[str]]:
    """A command whose statement waits for a lock."""
    with connect(autocommit=False) as other:
        other.execute("lock table pauses in exclusive mode")
        with subprocess.Popen(
            [TREADLE, "pause", "--all", "--database-url", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            until_waiting_for_lock(connect(), 60)
            yield process


@pytest.mark.fresh_database
def test_a_lost_connection(url: str, connect: Connect) -> None:
    with blocked(url, connect) as process:
        connect().execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("Error: the database is unavailable or refused the statement: ")
    assert err.count("\n") == 1


def test_ctrl_c_exits_with_130_and_no_traceback(url: str, connect: Connect) -> None:
    with blocked(url, connect) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (ValueError, 1)])
def test_ctrl_c_while_it_waits_for_a_lock(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], code: int
) -> None:
    """Python reports a RuntimeError then, as it does for a bug."""
    lock = threading.RLock()

    def wait(*_: Any) -> None:
        with lock:
            lock.release()  # to wait for something; before it has the lock again, it is interrupted
            raise error

    monkeypatch.setattr(click.Group, "invoke", wait)
    result = CliRunner().invoke(main, ["stats"])
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit if code == 130 else RuntimeError)


def test_a_command_that_was_interrupted_may_choose_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_: click.Group, context: click.Context) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            context.exit(5)

    monkeypatch.setattr(click.Group, "invoke", wait)
    assert CliRunner().invoke(main, ["stats"]).exit_code == 5
