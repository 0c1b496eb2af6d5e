"""treadle ping."""

import pytest
from chaos.proxy import Proxy
from psycopg.conninfo import make_conninfo

from tests.support.commands import json_output_of, output_of, run_treadle


def test_a_database_that_answers(url: str) -> None:
    assert "answers, and schema treadle fits this version of Treadle" in output_of("ping", "--database-url", url)
    (said,) = json_output_of("ping", "--database-url", url)
    assert said["ok"]
    assert said["milliseconds"] > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"port": 1}, "cannot reach PostgreSQL"), ({"dbname": "missing"}, 'database "missing" does not exist')],
)
def test_a_database_that_cannot_be_reached(url: str, changes: dict[str, str | int], said: str) -> None:
    result = run_treadle("ping", "--database-url", make_conninfo(url, **changes))
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_missing_schema(url: str) -> None:
    result = run_treadle("ping", "--database-url", url, "--schema", "missing")
    assert result.exit_code == 1
    assert "there is no schema missing in this database; run: treadle migrate" in result.stderr


def test_a_server_that_accepts_and_never_answers(url: str) -> None:
    proxy = Proxy(url)
    proxy.ignore_new_connections()
    try:
        result = run_treadle("ping", "--database-url", proxy.url, "--timeout", "0.3s")
    finally:
        proxy.close()
    assert result.exit_code == 1
    assert "connection timeout expired" in result.stderr


def test_a_worker_that_does_not_answer() -> None:
    result = run_treadle("ping", "--health-port", 1)
    assert result.exit_code == 1
    assert "no answer from 127.0.0.1:1: " in result.stderr
