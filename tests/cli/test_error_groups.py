"""treadle errors."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from tests.support.error_groups import count_now, fail, groups
from treadle import JobQueue, Treadle
from treadle.cli.errors import trend_text


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


@pytest.fixture
def group(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> str:
    """Three failed jobs and one that waits for another attempt; the number of their group."""
    connection.execute("insert into worker_versions (worker_id, version) values ('worker-1', 'v7')")
    fail(queue, [f"ValueError: order {n} is gone\x1b[J" for n in range(3)])
    fail(queue, ["ValueError: order 7 is gone\x1b[J"], retries=True)
    count_now(app)
    return str(groups(app)["ValueError: order <number> is gone [J"].id)


def test_groups_are_listed(group: str, app: Treadle, queue: JobQueue) -> None:
    head, line = output_of("errors").splitlines()
    assert head.split() == ["ID", "TYPE", "24H", "TOTAL", "TREND", "FIRST", "LAST", "VERSION", "ERROR"]
    cells = line.split(maxsplit=8)
    assert cells[:4] == [group, "a", "4", "4"]
    assert cells[7:] == ["v7", "ValueError: order <number> is gone [J"]
    (found,) = json_output_of("errors")
    assert (found["id"], found["failures"], found["versions"], found["muted"]) == (int(group), 4, ["v7"], None)
    assert len(found["trend"]) == 24
    assert run_treadle("errors", "--type", "b").stderr == "There are no errors.\n"
    assert run_treadle("errors", "--queue", "b").stderr == "There are no errors.\n"
    fail(queue, ["TypeError: x"], "b")
    count_now(app)
    assert [each["job_type"] for each in json_output_of("errors", "--order", "first")] == ["b", "a"]


def test_a_group_is_shown(group: str, connection: Connection[Any]) -> None:
    connection.execute("update error_groups set example_traceback = e'Traceback:\\n  x\\nValueError: password=hunter2'")
    said = output_of("errors", "show", group)
    for piece in (
        "a  ValueError: order <number> is gone",
        "4 in 24 hours, 4 in total",
        "v7  4",
        "Traceback:",
        "failed jobs",
    ):
        assert piece in said
    assert "jobs that wait for another attempt" in said
    assert "hunter2" not in said
    assert "\x1b" not in said
    found = json_output_of("errors", "show", group)[0]
    assert (len(found["failed"]["jobs"]), len(found["pending"]["jobs"])) == (3, 1)


def test_the_failed_jobs_of_a_group_are_retried(group: str, connection: Connection[Any]) -> None:
    refused = run_treadle("errors", "retry", group)
    assert refused.exit_code == 1
    assert "This would retry 3 failed jobs of a: ValueError: order <number> is gone" in refused.stderr
    assert "add --yes to change the jobs" in refused.stderr
    assert "3" in run_treadle("errors", "retry", group, "--dry-run").stderr
    assert connection.execute("select count(*) from jobs where status = 'failed'").fetchone() == (3,)
    assert run_treadle("errors", "retry", group, "--yes", "--actor", "ann").stdout == "Retried 3 jobs.\n"
    audit = connection.execute("select distinct actor, reason from audit").fetchall()
    assert audit == [("ann", f"error group {group}")]
    again = run_treadle("errors", "retry", group, "--yes")
    assert (again.exit_code, again.stdout) == (1, "Retried 0 jobs.\n")


def test_pending_retries_of_a_group_are_cancelled(group: str) -> None:
    (done,) = json_output_of("errors", "cancel", group, "--yes", "--reason", "enough")
    assert (done["action"], done["done"]) == ("cancel", 1)


def test_a_group_is_muted_and_unmuted(group: str) -> None:
    assert output_of("errors", "mute", group, "--for", "1d", "--reason", "known") == f"Group {group} is muted.\n"
    listed = run_treadle("errors")
    assert listed.stderr == "There are no errors.\n1 group muted: treadle errors --muted\n"
    assert json_output_of("errors", "--muted")[0]["muted"]["reason"] == "known"
    assert "muted     by cli:" in output_of("errors", "show", group)
    assert output_of("errors", "unmute", group) == f"Group {group} is unmuted.\n"
    assert json_output_of("errors", "unmute", group)[0]["changed"] is False
    assert output_of("errors", "mute", group, "--until-new-version") == f"Group {group} is muted.\n"
    assert "until a new version fails" in output_of("errors", "show", group)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "99"], "there is no error group 99; it is deleted 30 days after its last error"),
        (["show", "x"], "'x' is not a valid integer"),
        (["mute", "1", "--for", "soon"], '--for must be a duration such as "90s"'),
        (["mute", "1", "--for", "99999999999d"], "--for must be at most 999,999,999 days, got '99999999999d'"),
        (["mute", "1", "--for", "0s"], "more than 0 seconds and at most 366 days, got 0:00:00"),
    ],
)
def test_a_mistake_is_explained(arguments: list[str], said: str) -> None:
    result = run_treadle("errors", *arguments)
    assert result.exit_code in (1, 2)
    assert said in result.stderr


def test_the_trend_is_drawn_as_bars() -> None:
    assert trend_text([0] * 24) == "▁" * 12
    assert trend_text([0] * 21 + [1, 500, 1000]) == "▁" * 9 + "▂▄█"
