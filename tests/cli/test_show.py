"""treadle show: the details of a job."""

import logging
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from tests.support.screens import terminal
from tests.support.workers import drain
from treadle import Job, JobQueue, Retries, Treadle
from treadle.cli.details import split_error

HOSTILE = "\x1b[2J\x1b]0;title\x07[red]bold[/red]\x9b31m\u202e"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


@pytest.fixture
def job_id(app: Treadle) -> UUID:
    """A job that failed once, then published an event, logged, saved steps and a checkpoint, and completed."""

    @app.job(name="import_rows", retry=Retries(1))
    def import_rows(job: Job, rows: int, password: str) -> dict[str, Any]:
        if job.attempt == 1:
            raise ValueError("the file is torn")
        job.progress(40, stage="reading")
        job.event("read", rows=rows, token="abc")  # noqa: S106
        logging.getLogger("shop").warning("slow disk")
        job.step("charge", lambda: {"paid": 7})
        job.step("fetch_token", lambda: "hunter2")
        job.save({"done": 3})
        return {"rows": rows, "session_id": "xyz"}

    handle = import_rows.enqueue(rows=5, password="hunter2")  # noqa: S106
    drain(app)
    with app.database.transaction() as connection:
        connection.execute("update treadle.jobs set run_at = clock_timestamp()")
    drain(app)
    return handle.id


def test_all_sections_are_shown(job_id: UUID) -> None:
    said = output_of("show", job_id)
    for piece in (
        "import_rows  completed",
        str(job_id),
        "default, priority 100",
        "attempts  2 of 2",
        "timeline",
        "+0.0s  enqueued",
        "retried: ValueError: the file is torn",
        "read  rows=5 token=********",
        "failed attempts",
        "Traceback (most recent call last):",
        'raise ValueError("the file is torn")',
        "WARNING shop: slow disk",
        'charge  {"paid": 7}',
        '"done": 3',
        '"rows": 5',
        '"password": "********"',
        '"session_id": "********"',
    ):
        assert piece in said, piece
    assert "hunter2" not in said
    assert "\x1b" not in said


def test_show_secrets_disables_masking(job_id: UUID) -> None:
    assert "hunter2" in output_of("show", job_id, "--show-secrets")
    (masked,), (whole,) = json_output_of("show", job_id), json_output_of("show", job_id, "--show-secrets")
    assert (masked["job"]["data"]["password"], whole["job"]["data"]["password"]) == ("********", "hunter2")


def test_json(job_id: UUID) -> None:
    (details,) = json_output_of("show", job_id)
    assert details["job"]["id"] == str(job_id)
    assert [each["name"] for each in details["events"]] == [
        "enqueued",
        "started",
        "retried",
        "claimed",
        "started",
        "read",
        "completed",
    ]
    assert [each["error"] for each in details["errors"]] == ["ValueError: the file is torn"]
    assert [each["message"] for each in details["logs"]] == ["slow disk"]
    assert details["steps"] == [
        {"name": "charge", "result": {"paid": 7}},
        {"name": "fetch_token", "result": "********"},
    ]


def test_the_number_of_crashes_is_shown(queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films")
    for crashes, words in ((1, "0 of 3, 1 crash\n"), (2, "0 of 3, 2 crashes\n")):
        connection.execute("update jobs set crashes = %s", [crashes])
        assert words in output_of("show", job)


def test_the_last_hundred_events_are_shown_by_default(queue: JobQueue) -> None:
    queue.enqueue("films", {})
    (job,) = queue.claim(["films"])
    for number in range(130):
        queue.event(job, f"told-{number}.")
    said = output_of("show", job.id)
    assert "… 30 earlier events; --full shows all" in said
    assert "+0.0s  enqueued" in said
    assert "told-29." not in said
    assert said.index("told-30.") < said.index("told-129.")
    assert "told-0." in output_of("show", job.id, "--full")


def test_a_waiting_job_shows_what_it_waits_for(queue: JobQueue) -> None:
    later = queue.enqueue("films", {}, delay="90m")
    queue.enqueue("films", {}, key="k")
    second = queue.enqueue("films", {}, key="k")
    assert "due in 1h " in output_of("show", later)
    assert "key       k, blocked by an earlier job with this key" in output_of("show", second)


def test_changes_by_operators_are_shown(queue: JobQueue) -> None:
    job = queue.enqueue("films", {})
    run_treadle("cancel", job, "--reason", "no longer wanted", "--actor", "ada")
    assert "cancel by ada: no longer wanted" in output_of("show", job)


def test_control_characters_and_markup_are_not_interpreted(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute(
        """with hostile as (select %(t)s::text as text, jsonb_build_object(%(t)s::text, %(t)s::text) as json)
        insert into jobs (job_type, queue, data, key, current_stage, last_error, result, checkpoint, worker_id, status)
        select text, text, json, text, text, text, json, json, text, 'running' from hostile""",
        {"t": HOSTILE},
    )
    job = queue.list().jobs[0].id
    connection.execute(
        "select record_event(%s, %s, jsonb_build_object(%s::text, %s::text))", [job, HOSTILE, HOSTILE, HOSTILE]
    )
    connection.execute(
        """insert into errors (job_id, lease, attempt, worker_id, error, traceback, failed_at)
        values (%(id)s, 0, 1, %(t)s::text, %(t)s::text, %(t)s::text, now())""",
        {"id": job, "t": HOSTILE},
    )
    connection.execute(
        "insert into audit (actor, action, job_id, reason) values (%(t)s::text, %(t)s::text, %(id)s, %(t)s::text)",
        {"id": job, "t": HOSTILE},
    )
    for said in (output_of("show", job), output_of("show", job, "--full"), run_treadle("show", job, "--json").stdout):
        assert not any(each in said for each in "\x1b\x07\x9b\u202e")
        assert said.count("bold") == said.count("[red]bold[/red]") > 0
    with terminal("show", str(job), rows=60) as screen:
        assert screen.wait_for_exit() == 0
        assert b"\x1b[2J" not in screen.raw
        assert b"\x1b]0;" not in screen.raw
        assert "\u202e".encode() not in screen.raw
        assert "[red]bold[/red]" in screen.text()


def test_an_ascii_terminal_gets_replacement_characters(queue: JobQueue) -> None:
    job = queue.enqueue("films", {"city": "Zürich ✓"})
    (claimed,) = queue.claim(["films"])
    for _ in range(101):
        queue.event(claimed, "told")
    with terminal("show", str(job), rows=150, PYTHONIOENCODING="ascii") as screen:
        assert screen.wait_for_exit() == 0
        assert '"city": "Z?rich +"' in screen.text()
        assert "~ 1 earlier event;" in screen.text()


def test_lines_are_truncated_to_the_width_of_the_terminal(queue: JobQueue) -> None:
    queue.enqueue("films", {})
    (job,) = queue.claim(["films"])
    queue.event(job, "told", text="word " * 50 + "end.")
    with terminal("show", str(job.id), rows=40) as screen:
        assert screen.wait_for_exit() == 0
        assert "end." not in screen.text()
        assert "word wor" in screen.text()
        assert all(line.endswith("…") for line in screen.lines() if "word" in line)
    assert "end." in output_of("show", job.id)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("01a1df1a-9662-7b8e-8b29-d2293fbf8aaf", 1, "it may have been pruned"),
        ("films", 2, "expected the id of a job (a UUID)"),
    ],
)
def test_wrong_input_is_one_sentence(given: str, code: int, said: str) -> None:
    result = run_treadle("show", given)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


class TornFile(Exception):
    """Its module is not builtins, so a traceback names it."""


def test_the_module_of_an_exception_stays_with_its_name(app: Treadle) -> None:
    @app.job(retry=Retries(0))
    def broken() -> None:
        raise TornFile("page 7\nis torn")

    handle = broken.enqueue()
    drain(app)
    said = output_of("show", handle.id)
    assert f"    {__name__}.TornFile: page 7\n    is torn\n" in said
    assert f"{__name__}.\n" not in said
    assert said.count("TornFile: page 7") == 3  # in the state, in the timeline, and here


@pytest.mark.parametrize(
    ("traceback", "error", "split"),
    [
        ("T:\n  x\nValueError: no\n", "ValueError: no", ("T:\n  x\n", "ValueError: no")),
        ("T:\n  x\na.b.C: no", "C: no", ("T:\n  x\n", "a.b.C: no")),
        ("a.f.<locals>.C", "C", ("", "a.f.<locals>.C")),
        ("T:\nother words: no", "words: no", ("T:\nother ", "words: no")),
        ("T:\n  x", "timed out", ("T:\n  x", "timed out")),
        (None, "timed out", ("", "timed out")),
        ("T:\n  x\nValueError\n", "", ("T:\n  x\nValueError", "")),
    ],
)
def test_an_error_is_told_apart_from_its_traceback(traceback: str | None, error: str, split: tuple[str, str]) -> None:
    assert split_error(traceback, error) == split
