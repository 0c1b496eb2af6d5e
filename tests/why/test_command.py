"""`treadle why` as a person uses it, and ids that are shortened."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from tests.support.commands import typed as treadle
from tests.support.screens import terminal
from tests.support.why import live
from treadle import JobQueue


def made_as(connection: Connection[Any], job_id: str) -> UUID:
    connection.execute("insert into jobs (id, job_type) values (%s, 'mail')", [job_id])
    return UUID(job_id)


def test_the_sentence_then_what_to_do_then_the_details(queue: JobQueue, connection: Connection[Any], url: str) -> None:
    live(connection, "{film}")
    made = queue.enqueue("mail")
    queue.pause("mail", reason="the bank\x1b[2J is closed")
    shown = treadle("why", str(made), "--database-url", url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("The job is paused: ")
    assert lines[0].endswith("ago: the bank [2J is closed.")
    assert lines[1] == "To resume: treadle resume --type mail"
    assert "  no_worker_for_type   it has a type that no live worker serves (mail)" in lines
    assert "name              paused" in lines
    assert "job_type          mail" in lines
    assert "\x1b" not in shown.stdout


def test_json_for_programs(queue: JobQueue, url: str) -> None:
    made = queue.enqueue("mail", delay="1h")
    shown = treadle("why", str(made), "--json", "--database-url", url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    told = json.loads(shown.stdout)
    assert (told["id"], told["name"]) == (str(made), "due_later")
    assert told["data"]["due_at"] == queue.get(made).run_at.isoformat()
    assert told["also"] == [{"name": "no_worker", "short": "has no live worker to run it"}]
    assert set(told) == {"id", "name", "sentence", "remedy", "short", "data", "also"}


def test_on_a_terminal(queue: JobQueue, url: str) -> None:
    made = queue.enqueue("mail")
    with terminal("why", str(made), TREADLE_DATABASE_URL=url, TREADLE_SCHEMA="treadle") as screen:
        screen.shows("There is no live worker.", "Start a worker: treadle worker module:app")


def test_an_unknown_id_is_a_sentence(url: str) -> None:
    unknown = str(uuid4())
    shown = treadle("why", unknown, "--database-url", url)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr == f"Error: there is no job {unknown}; it may have been pruned\n"


@pytest.mark.parametrize(
    "typed", ["0199b1c2", "0199B1C2-7A3E", "0199b1c27a3e7c51", "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1"]
)
def test_an_id_may_be_shortened(connection: Connection[Any], url: str, typed: str) -> None:
    made = made_as(connection, "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35")
    made_as(connection, "0199b1c1-ffff-7fff-bfff-ffffffffffff")
    made_as(connection, "0199b1c3-0000-7000-8000-000000000000")
    shown = treadle("why", typed, "--json", "--database-url", url)
    assert json.loads(shown.stdout)["id"] == str(made)


def test_an_id_that_is_shortened_too_much(connection: Connection[Any], url: str) -> None:
    first = made_as(connection, "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35")
    second = made_as(connection, "0199b1c2-7a3f-7c51-9d4b-2f6a8e0c1d35")
    shown = treadle("why", "0199b1c2", "--database-url", url)
    assert shown.exit_code == 1
    assert f"0199b1c2 is ambiguous: several ids begin with it, such as {first}, {second}; give more" in shown.stderr
    assert treadle("why", "0199b1c2-7a3f", "--database-url", url).exit_code == 0
    shown = treadle("why", "0199b1c4", "--database-url", url)
    assert (shown.exit_code, "no job has an id that begins with 0199b1c4" in shown.stderr) == (1, True)
    for typed in ("0199b1c", "nonsense", "0199b1c2%%%%", "0" * 33):
        shown = treadle("why", typed, "--database-url", url)
        assert shown.exit_code == 2, typed
        assert "at least its first 8 digits, got" in shown.stderr
