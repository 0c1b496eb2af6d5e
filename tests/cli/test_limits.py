"""treadle limits."""

from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import claim, enqueue, limit, take_turns
from tests.support.commands import json_output_of, output_of, run_treadle


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def table(*arguments: str) -> list[list[str]]:
    """The cells of each line."""
    return [line.split("  ") for line in map(_squeezed, output_of("limits", *arguments).splitlines())]


def _squeezed(line: str) -> str:
    while "   " in line:
        line = line.replace("   ", "  ")
    return line


def test_limits_are_listed(connection: Connection[Any]) -> None:
    assert run_treadle("limits").stderr == "There are no limits.\n"
    limit(connection, 2, per="tenant")
    limit(connection, 10, 3600.0, name="api", burst=20)
    enqueue(connection, 5, "acme\x1b[2J")
    enqueue(connection, 1, "globex")
    claim(connection)
    claim(connection)
    connection.execute("select set_limit('sync', 0, p_key => 'zed', p_actor => 'ann')")
    assert table() == [
        ["NAME", "KEY", "LIMIT", "IN USE", "WAITING", "NEXT", "CHANGED BY"],
        ["sync", "acme [2J", "2 at once", "2", "3", "when one ends", "-"],
        ["api", "-", "10 per hour, burst 20", "17 left", "0", "now", "-"],
        ["sync", "each tenant", "2 at once", "-", "0", "-", "-"],
        ["sync", "globex", "2 at once", "1", "0", "now", "-"],
        ["sync", "zed", "0 at once", "0", "0", "paused", "ann"],
    ]
    assert [line[0] for line in table("--name", "api")] == ["NAME", "api"]
    first, *_ = json_output_of("limits")
    assert (first["name"], first["key"], first["limit"], first["waiting"]) == ("sync", "acme\x1b[2J", "2 at once", 3)


def test_when_the_next_may_start_is_listed(connection: Connection[Any]) -> None:
    limit(connection, 1)
    enqueue(connection, 2)
    claim(connection)
    connection.execute("update jobs set status = 'running', started_at = now() where lease > 0")
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed, ran)
        values (date_trunc('minute', now()), 'default', 'sync', 1, 3600)"""
    )
    ((*_, following, _),) = table()[1:]
    assert following in ("in about 1h 00m", "in about 59m 59s")
    limit(connection, 1, 7200.0, name="api")
    connection.execute("update jobs set status = 'completed' where status = 'running'")
    claim(connection)
    assert [line[5] for line in table("--name", "api")][1:] == ["in 2h 00m"]


def test_weights_of_fairness_are_listed(connection: Connection[Any]) -> None:
    take_turns(connection)
    assert output_of("limits", "set", "sync fair", 5, "--key", "acme") == "Set sync fair for tenant acme: weight 5\n"
    assert [line[:6] for line in table()[1:]] == [
        ["sync fair", "each tenant", "weight 1", "-", "-", "-"],
        ["sync fair", "acme", "weight 5", "-", "-", "-"],
    ]
    refused = run_treadle("limits", "pause", "sync fair", "--key", "acme")
    assert (refused.exit_code, "does not limit which jobs start" in refused.stderr) == (1, True)


def test_a_limit_is_set_paused_and_reset(connection: Connection[Any]) -> None:
    limit(connection, 2, per="tenant")
    assert output_of("limits", "set", "sync", 5, "--key", "acme") == "Set sync for tenant acme: 5 at once\n"
    assert output_of("limits", "pause", "sync", "--reason", "broken") == "Paused sync: 0 at once\n"
    assert output_of("limits", "reset", "sync", "--key", "acme") == "Reset sync for tenant acme: 0 at once\n"
    assert output_of("limits", "reset", "sync", "--key", "acme") == "Nothing was set: sync\n"
    assert json_output_of("limits", "reset", "sync") == [
        {"name": "sync", "key": None, "changed": True, "limit": "2 at once"}
    ]
    rows = connection.execute("select actor, action, reason from audit order by id").fetchall()
    assert all(actor.startswith("cli:") for actor, *_ in rows)
    assert rows[1][1:] == ("limit", "sync: 0: broken")


def test_a_limit_is_added_changed_and_removed() -> None:
    added = output_of("limits", "add", "api", 10, "--period", "1s", "--type", "sync", "--per", "tenant")
    assert added == "Added api: 10 per second\n"
    assert output_of("limits", "set", "api", 20, "--per-period", "1m", "--burst", 40).endswith(
        "20 per minute, burst 40\n"
    )
    assert output_of("limits", "add", "slow", 1, "--queue", "slow") == "Added slow: 1 at once\n"
    assert output_of("limits", "reset", "api") == "Removed api: no code declares it\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", "nope", "3"), "there is no limit 'nope'; there are: sync"),
        (("pause", "nope"), "there is no limit 'nope'; there are: sync"),
        (("reset", "nope"), "there is no limit 'nope'; there are: sync"),
        (("set", "sync", "many"), "'many' is not a valid integer"),
        (("set", "sync", "3", "--period", "1s"), "counts the jobs that run at once: it has no period and no burst"),
        (("set", "sync", "3", "--key", "acme"), "limit 'sync' has no keys"),
        (("set", "sync", "99999999999"), "the amount of a limit must be an integer from 0 to 100,000"),
        (("set", "sync", "--", "-1"), "the amount of a limit must be an integer from 0"),
        (("add", "new", "3"), "say which jobs the limit is for, with --type or --queue"),
        (("add", "new", "3", "--queue", "q", "--period", "soon"), "period must be a duration such as"),
        (("add", "sync", "3", "--queue", "q", "--per", "tenant"), "there is already a limit 'sync'"),
    ],
)
def test_mistakes_are_one_sentence(connection: Connection[Any], arguments: tuple[str, ...], message: str) -> None:
    limit(connection, 3)
    result = run_treadle("limits", *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
