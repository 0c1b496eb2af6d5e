"""treadle concurrency."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from treadle import JobQueue

HOSTILE = "web\x1b[2J[red]\u202e"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


@pytest.fixture
def workers(queue: JobQueue, connection: Connection[Any]) -> None:
    for name in ("web-1-77-aa", "web-1-78-bb", "web-1-7"):
        connection.execute("select register_worker(%s, '1 hour', '{mail,films}', null, 50)", [name])


def cells() -> list[list[str]]:
    return [line.split(maxsplit=4) for line in output_of("concurrency").splitlines()[1:]]


@pytest.mark.usefixtures("workers")
def test_a_number_is_set_and_reset(connection: Connection[Any]) -> None:
    assert output_of("concurrency", "web-1-77-aa", 20, "--actor", "ada", "--reason", "slow") == (
        "Set the concurrency of web-1-77-aa to 20. To undo: treadle concurrency web-1-77-aa --reset\n"
    )
    assert cells()[1] == ["web-1-77-aa", "0", "20", "50", "mail, films"]
    assert output_of("concurrency", "web-1-77-aa", 20) == ("Nothing to change: the concurrency of web-1-77-aa is 20.\n")
    assert ": it claims nothing. To undo:" in output_of("concurrency", "web-1-77-aa", 0)
    assert output_of("concurrency", "web-1-77-aa", "--reset") == (
        "Reset the concurrency of web-1-77-aa to 50, which it was started with.\n"
    )
    assert cells()[1] == ["web-1-77-aa", "0", "50", "50", "mail, films"]
    audit = connection.execute("select actor, action, reason, details from audit order by id").fetchall()
    assert audit[0] == ("ada", "concurrency", "slow", {"worker": "web-1-77-aa", "before": 50, "concurrency": 20})
    assert [each[1] for each in audit] == ["concurrency", "concurrency", "reset concurrency"]
    assert audit[1][0].startswith("cli:")


@pytest.mark.usefixtures("workers")
def test_the_name_may_be_shortened_to_a_unique_beginning(connection: Connection[Any]) -> None:
    output_of("concurrency", "web-1-78", 8)
    output_of("concurrency", "web-1-7", 7)  # the whole name of one
    assert [each[:3] for each in cells()] == [
        ["web-1-7", "0", "7"],
        ["web-1-77-aa", "0", "50"],
        ["web-1-78-bb", "0", "8"],
    ]
    ambiguous = run_treadle("concurrency", "web-1", 5)
    assert (ambiguous.exit_code, ambiguous.stdout) == (1, "")
    assert "web-1 is ambiguous: several workers have names that begin with it, such as web-1-7, " in ambiguous.stderr


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nobody", 5], 1, "there is no live worker 'nobody'; it may have ended; `treadle concurrency` lists those"),
        (["", 5], 1, "there is no live worker ''"),
        (["web-1-77", 10_001], 1, "concurrency must be an integer from 0 to 10,000, got 10001"),
        (["web-1-77", 10**30], 1, f"concurrency must be an integer from 0 to 10,000, got {10**30}"),
        (["web-1-77", -1], 1, "concurrency must be an integer from 0 to 10,000, got -1"),
        (["web-1-77", "--rest"], 2, "'--rest' is not a valid integer"),
        (["web-1-77", "many"], 2, "'many' is not a valid integer"),
        (["web-1-77"], 2, "give either a NUMBER or --reset"),
        (["web-1-77", 5, "--reset"], 2, "give either a NUMBER or --reset"),
        (["--reset"], 2, "--reset needs a WORKER"),
        (["x\x00", 5], 1, "there is no live worker 'x\\x00'"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: list[object], code: int, message: str) -> None:
    failed = run_treadle("concurrency", *arguments)
    assert (failed.exit_code, failed.stdout) == (code, "")
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def test_without_workers(queue: JobQueue, connection: Connection[Any]) -> None:
    assert run_treadle("concurrency").stderr == "No workers are running.\n"
    connection.execute("select register_worker('old', '1 hour', '{a}')")
    assert output_of("concurrency").splitlines()[1].split() == ["old", "0", "-", "-", "a"]
    assert "the concurrency of 'old' cannot be changed" in run_treadle("concurrency", "old", 5).stderr


@pytest.mark.usefixtures("workers")
def test_json() -> None:
    assert json_output_of("concurrency", "web-1-77", 0) == [
        {"worker_id": "web-1-77-aa", "concurrency": 0, "before": 50, "changed": True}
    ]
    assert [each["concurrency"] for each in json_output_of("concurrency")] == [50, 0, 50]
    assert json_output_of("concurrency", "web-1-77", "--reset")[0]["concurrency"] == 50


def test_hostile_names_cannot_change_the_terminal(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker(%s, '1 hour', '{a}', null, 5)", [HOSTILE])
    for said in (output_of("concurrency", "web", 9), output_of("concurrency")):
        assert "\x1b" not in said
        assert "\u202e" not in said


def test_stats_show_the_changed_number(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '1 hour', '{a}', null, 5)")
    output_of("concurrency", "w", 9)
    assert "0/9" in output_of("stats")
