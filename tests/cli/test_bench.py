"""treadle bench: its figures, its advice, and its temporary schema."""

import json
import logging
import os
import signal
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.support.commands import command_line, run_in_process, run_treadle
from tests.support.roles import schema_owner
from tests.support.workers import until
from treadle.cli import bench
from treadle.cli.bench import Figures, advise

FIGURES = Figures(0.4, 1.2, 1.5, 2.5, 6.0, 600.0, 3_000.0, 80_000.0, 20_000.0)


# Code that shortens the measurements.
QUICK = "from treadle.cli import bench\nbench.SECONDS, bench.PICK_UPS = 0.3, 30"


def schemas(connection: Connection[Any]) -> list[str]:
    rows = connection.execute("select nspname from pg_namespace where nspname like 'treadle\\_bench\\_%'").fetchall()
    return [name for (name,) in rows]


@pytest.mark.long
def test_it_prints_figures_and_drops_its_schema(url: str, connection: Connection[Any]) -> None:
    result = run_in_process("bench", "--jobs", "1000", "--json", "--database-url", url, before=QUICK)
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert 0 < report["pick_up_p50_ms"] <= report["pick_up_p95_ms"] <= report["pick_up_p99_ms"]
    for name in ("enqueue_rate", "enqueue_together_rate", "enqueue_many_rate", "worker_rate", "round_trip_ms"):
        assert report[name] > 0
    assert schemas(connection) == []


@pytest.mark.parametrize(
    ("reached", "number", "code"),
    [("jobs", signal.SIGTERM, 143), pytest.param("workers", signal.SIGINT, 130, marks=pytest.mark.long)],
)
def test_it_drops_its_schema_when_it_is_interrupted(
    url: str, connection: Connection[Any], reached: str, number: signal.Signals, code: int
) -> None:
    """Also while its worker has open connections and a child process."""
    program = subprocess.Popen(
        command_line("bench", "--jobs", "1000", "--json", before=QUICK),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    )
    try:
        (schema,) = until(lambda: schemas(connection))
        until(lambda: connection.execute(f"select from {schema}.{reached} limit 1").fetchall(), seconds=120)
        program.send_signal(number)
        output, errors = program.communicate(timeout=60)
        assert (program.returncode, output, errors.strip()) == (code, "", "")
    finally:
        program.kill()
        program.communicate()
    assert schemas(connection) == []


def test_warnings_of_the_driver_are_hidden_when_it_is_interrupted(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which statement is interrupted, and so which warning appears, varies. This forces two of them."""

    def interrupted(*_: Any) -> Figures:
        logging.getLogger("psycopg").warning("error ignored in rollback")
        logging.getLogger("psycopg.pool").warning("discarding closed connection")
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    assert run_treadle("bench", "--json", "--database-url", url).exit_code == 130
    assert caplog.messages == []


def test_a_role_that_may_not_create_a_schema_gets_a_clear_error(own_url: str) -> None:
    with schema_owner(own_url) as theirs, Connection.connect(own_url, autocommit=True) as administrator:
        user = dict(part.split("=", 1) for part in theirs.split())["user"]
        administrator.execute(f"revoke create on database {administrator.info.dbname} from {user}")
        result = run_treadle("bench", "--database-url", theirs)
    assert result.exit_code == 1
    assert "needs a temporary schema, which this role may not create" in result.stderr
    assert "grant create on database" in result.stderr


def test_a_read_only_server_gives_a_clear_error(url: str) -> None:
    only_read = make_conninfo(url, options="-c default_transaction_read_only=on")
    result = run_treadle("bench", "--database-url", only_read)
    assert result.exit_code == 1
    assert "is read-only, so it may be a standby" in result.stderr


def test_figures_are_printed_with_their_units(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measure", lambda *_: FIGURES)
    result = run_treadle("bench", "--database-url", url)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in ("round trip 0.40 ms", "p99 6.0 ms", "enqueue on 8 connections 3,000 jobs/s", "No figure stands out."):
        assert line in lines


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"round_trip_ms": 5.0}, "at most 200 single jobs per second: run workers and producers close"),
        ({"commit_ms": 10.0}, "A commit takes 10.0 ms"),
        ({"pick_up_p50_ms": 300.0}, "An idle worker took 300 ms"),
    ],
)
def test_unusual_figures_give_advice(changes: dict[str, float], said: str) -> None:
    (advice,) = advise(replace(FIGURES, **changes))
    assert said in advice


def test_usual_figures_give_no_advice() -> None:
    assert advise(FIGURES) == []
