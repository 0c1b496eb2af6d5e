"""The command `treadle why`, and shortened ids."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from tests.support.commands import run_treadle as treadle
from tests.support.screens import terminal
from tests.support.why import register_worker
from treadle import JobQueue


def insert_job(connection: Connection[Any], job_id: str) -> UUID:
    connection.execute("insert into jobs (id, job_type) values (%s, 'mail')", [job_id])
    return UUID(job_id)


def test_the_output_has_the_sentence_the_remedy_and_the_details(
    queue: JobQueue, connection: Connection[Any], url: str
) -> None:
    register_worker(connection, "{film}")
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


def test_the_reason_is_available_as_json(queue: JobQueue, url: str) -> None:
    made = queue.enqueue("mail", delay="1h")
    shown = treadle("why", str(made), "--json", "--database-url", url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    shown_reason = json.loads(shown.stdout)
    assert (shown_reason["id"], shown_reason["name"]) == (str(made), "due_later")
    assert shown_reason["data"]["due_at"] == queue.get(made).run_at.isoformat()
    assert shown_reason["also"] == [{"name": "no_worker", "short": "has no live worker to run it"}]
    assert set(shown_reason) == {"id", "name", "sentence", "remedy", "short", "data", "also"}


def test_the_reason_is_shown_on_a_terminal(queue: JobQueue, url: str) -> None:
    made = queue.enqueue("mail")
    with terminal("why", str(made), TREADLE_DATABASE_URL=url, TREADLE_SCHEMA="treadle") as screen:
        screen.wait_for("There is no live worker.", "Start a worker: treadle worker module:app")


def test_an_unknown_id_is_a_readable_error(url: str) -> None:
    unknown = str(uuid4())
    shown = treadle("why", unknown, "--database-url", url)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr == f"Error: there is no job {unknown}; it may have been pruned\n"


@pytest.mark.parametrize(
    "short_id", ["0199b1c2", "0199B1C2-7A3E", "0199b1c27a3e7c51", "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1"]
)
def test_an_id_may_be_shortened(connection: Connection[Any], url: str, short_id: str) -> None:
    made = insert_job(connection, "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35")
    insert_job(connection, "0199b1c1-ffff-7fff-bfff-ffffffffffff")
    insert_job(connection, "0199b1c3-0000-7000-8000-000000000000")
    shown = treadle("why", short_id, "--json", "--database-url", url)
    assert json.loads(shown.stdout)["id"] == str(made)


def test_an_ambiguous_or_too_short_id_is_refused(connection: Connection[Any], url: str) -> None:
    first = insert_job(connection, "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35")
    second = insert_job(connection, "0199b1c2-7a3f-7c51-9d4b-2f6a8e0c1d35")
    shown = treadle("why", "0199b1c2", "--database-url", url)
    assert shown.exit_code == 1
    assert (
        f"0199b1c2 is ambiguous: several ids begin or end with it, such as {second}, {first}; give more" in shown.stderr
    )
    assert treadle("why", "0199b1c2-7a3f", "--database-url", url).exit_code == 0
    shown = treadle("why", "0199b1c4", "--database-url", url)
    assert (shown.exit_code, "no job whose id begins or ends with 0199b1c4" in shown.stderr) == (1, True)
    for short_id in ("019", "nonsense", "0199b1c2%%%%", "0" * 33):
        shown = treadle("why", short_id, "--database-url", url)
        assert shown.exit_code == 2, short_id
        assert "at least 4 of its first or last digits, got" in shown.stderr
