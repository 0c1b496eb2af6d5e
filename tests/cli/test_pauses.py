"""treadle pause, resume and pauses."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from treadle import JobQueue

HOSTILE = "\x1b[2J[red]bold[/red]\x9b31m\u202e"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def test_a_type_is_paused_and_resumed(queue: JobQueue) -> None:
    queue.enqueue("films")
    assert output_of("pause", "--type", "films", "--reason", "the disk is full", "--actor", "ada") == (
        "Paused all jobs of type films. To resume: treadle resume --type films\n"
    )
    assert queue.claim(["films"]) == []
    assert "Already paused: all jobs of type films." in output_of("pause", "--type", "films")
    heading, line = output_of("pauses").splitlines()
    assert heading.split() == ["TYPE", "QUEUE", "AGE", "ACTOR", "REASON"]
    cells = line.split(maxsplit=4)
    assert (cells[:2], cells[3:]) == (["films", "all"], ["ada", "the disk is full"])
    *_, again = output_of("pause").splitlines()
    assert (again.split()[:2], again.split()[3:]) == (line.split()[:2], line.split()[3:])  # all columns but the age
    assert output_of("resume", "--type", "films") == "Resumed all jobs of type films.\n"
    assert len(queue.claim(["films"])) == 1


def test_pauses_by_type_queue_and_all(queue: JobQueue) -> None:
    output_of("pause", "--queue", "slow")
    output_of("pause", "--type", "films", "--queue", "slow")
    output_of("pause", "--all")
    assert [(each.job_type, each.queue) for each in queue.pauses()] == [(None, None), (None, "slow"), ("films", "slow")]
    assert output_of("resume", "--type", "films", "--queue", "slow") == (
        "Resumed all jobs of type films in queue slow; "
        "some are still paused by another pause: all jobs; all jobs in queue slow.\n"
    )
    assert output_of("resume", "--all") == "Resumed all jobs.\nResumed all jobs in queue slow.\n"
    assert queue.pauses() == []


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["resume"], 2, "give the --type and --queue of the pause"),
        (["resume", "--type", "films"], 1, "No such pause. Paused: all jobs of type mail."),
        (["pause", "--all", "--type", "films"], 2, "--all cannot be combined with --type or --queue"),
        (["pause", "--type", "x" * 51], 1, "job type must be a string of 1 to 50 characters"),
        (["pause", "--type", "x", "--actor", ""], 1, "actor must be a string"),
    ],
)
def test_wrong_input_is_one_sentence(queue: JobQueue, command: list[str], code: int, said: str) -> None:
    queue.pause("mail")
    result = run_treadle(*command)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_json(queue: JobQueue) -> None:
    assert json_output_of("pause", "--type", "films") == [{"job_type": "films", "queue": None, "changed": True}]
    assert json_output_of("pause", "--type", "films") == [{"job_type": "films", "queue": None, "changed": False}]
    assert [each["job_type"] for each in json_output_of("pauses")] == ["films"]
    assert json_output_of("resume", "--all") == [{"job_type": "films", "queue": None, "changed": True}]
    assert run_treadle("pauses").stderr == "Nothing is paused.\n"


def test_the_actor_is_recorded(connection: Connection[Any]) -> None:
    output_of("pause", "--type", "films", "--reason", "why not")
    output_of("resume", "--type", "films", "--actor", "ada")
    rows = connection.execute("select actor, action, job_type, reason from audit order by id").fetchall()
    assert rows[0][0].startswith("cli:")
    assert [rows[0][1:], rows[1]] == [("pause", "films", "why not"), ("ada", "resume", "films", None)]


def test_control_characters_and_markup_are_not_interpreted(connection: Connection[Any]) -> None:
    connection.execute(
        """insert into pauses (job_type, queue, paused_by, reason)
        select t, t, t, t from (select %s::text as t) as hostile""",
        [HOSTILE],
    )
    for said in (output_of("pauses"), run_treadle("resume", "--type", "nope").stderr):
        assert not any(each in said for each in "\x1b\x9b\u202e")
        assert "[red]bold[/red]" in said


def test_an_empty_name_pauses_nothing_and_says_so(url: str) -> None:
    """As of a shell variable that is not set."""
    for command in ("pause", "resume"):
        for option in ("--type", "--queue"):
            result = run_treadle(command, option, "", "--database-url", url)
            assert (result.exit_code, result.stdout) == (1, "")
            assert "must be a string of 1 to 50 characters, got ''" in result.stderr
        result = run_treadle(command, "--all", "--type", "", "--database-url", url)
        assert result.exit_code == 2
