"""treadle pause, resume and pauses."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import objects, told, typed
from treadle import JobQueue

HOSTILE = "\x1b[2J[red]bold[/red]\x9b31m\u202e"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def test_a_type_is_paused_and_goes_on(queue: JobQueue) -> None:
    queue.enqueue("films")
    assert told("pause", "--type", "films", "--reason", "the disk is full", "--actor", "ada") == (
        "all jobs of type films paused; to go on: treadle resume --type films\n"
    )
    assert queue.claim(["films"]) == []
    assert "were paused already" in told("pause", "--type", "films")
    heading, line = told("pauses").splitlines()
    assert heading.split() == ["TYPE", "QUEUE", "SINCE", "BY", "REASON"]
    assert line.split(maxsplit=4)[:2] == ["films", "all"]
    assert line.endswith("ada  the disk is full")
    *_, again = told("pause").splitlines()
    assert (again.split()[:2], again.split()[3:]) == (line.split()[:2], line.split()[3:])  # all but since when
    assert told("resume", "--type", "films") == "all jobs of type films go on\n"
    assert len(queue.claim(["films"])) == 1


def test_what_is_meant(queue: JobQueue) -> None:
    told("pause", "--queue", "slow")
    told("pause", "--type", "films", "--queue", "slow")
    told("pause", "--all")
    assert [(each.job_type, each.queue) for each in queue.pauses()] == [(None, None), (None, "slow"), ("films", "slow")]
    assert told("resume", "--type", "films", "--queue", "slow") == (
        "all jobs of type films in queue slow go on, but for another pause: all jobs, all jobs in queue slow\n"
    )
    assert told("resume", "--all") == "all jobs go on\nall jobs in queue slow go on\n"
    assert queue.pauses() == []


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["resume"], 2, "name it as it was paused"),
        (["resume", "--type", "films"], 1, "there is no such pause; paused: all jobs of type mail"),
        (["pause", "--all", "--type", "films"], 2, "--all is everything"),
        (["pause", "--type", "x" * 51], 1, "job type must be a text of 1 to 50 characters"),
        (["pause", "--type", "x", "--actor", ""], 1, "actor must be a text"),
    ],
)
def test_a_mistake_is_a_sentence(queue: JobQueue, command: list[str], code: int, said: str) -> None:
    queue.pause("mail")
    result = typed(*command)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_json(queue: JobQueue) -> None:
    assert objects("pause", "--type", "films") == [{"job_type": "films", "queue": None, "changed": True}]
    assert objects("pause", "--type", "films") == [{"job_type": "films", "queue": None, "changed": False}]
    assert [each["job_type"] for each in objects("pauses")] == ["films"]
    assert objects("resume", "--all") == [{"job_type": "films", "queue": None, "changed": True}]
    assert typed("pauses").stderr == "nothing is paused\n"


def test_who_did_it_is_kept(connection: Connection[Any]) -> None:
    told("pause", "--type", "films", "--reason", "why not")
    told("resume", "--type", "films", "--actor", "ada")
    rows = connection.execute("select actor, action, job_type, reason from audit order by id").fetchall()
    assert rows[0][0].startswith("cli:")
    assert [rows[0][1:], rows[1]] == [("pause", "films", "why not"), ("ada", "resume", "films", None)]


def test_hostile_text_is_only_text(connection: Connection[Any]) -> None:
    connection.execute(
        """insert into pauses (job_type, queue, paused_by, reason)
        select t, t, t, t from (select %s::text as t) as hostile""",
        [HOSTILE],
    )
    for said in (told("pauses"), typed("resume", "--type", "nope").stderr):
        assert not any(each in said for each in "\x1b\x9b\u202e")
        assert "[red]bold[/red]" in said
