"""treadle jobs: searches that go on by themselves, times, payload values and digits of ids."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from tests.support.screens import terminal
from tests.support.workers import until
from tests.web.test_search import HOSTILE, MATCHES, scatter
from treadle import JobQueue


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.db.queries.listing.EXAMINED_LIMIT", 50)


SMALL_STEPS = "import treadle.db.queries.listing as listing; listing.EXAMINED_LIMIT = 1"


@pytest.mark.usefixtures("small_steps")
def test_all_matches_are_found(connection: Connection[Any]) -> None:
    scatter(connection, MATCHES * 20)
    for search in (["--search", "ord-1999"], ["--where", 'data.order = "ORD-1999"', "--status", "completed"]):
        found = json_output_of("jobs", *search, "--limit", "1000")
        assert len({each["id"] for each in found}) == len(found) == MATCHES
    first = run_treadle("jobs", "--search", "ord-1999", "--limit", "40")
    assert len(first.stdout.splitlines()) == 41
    following, covered = first.stderr.splitlines()
    assert following.startswith("Next page: treadle jobs --search ord-1999 --limit 40 --after all")
    assert covered.startswith("Searched 8"), "and says what it covered"
    assert ", back to " in covered


def test_conditions_are_joined_with_and(queue: JobQueue) -> None:
    made = queue.enqueue_many("a", [{"order": 7, "paid": True}, {"order": 7}, {"paid": True}])
    (found,) = json_output_of("jobs", "--where", "data.order = 7 and data.paid exists")
    assert found["id"] == str(made[0])
    cancelled = run_treadle("cancel", "--where", "data.order = 7 and data.paid = true", "--yes")
    assert cancelled.exit_code == 0, cancelled.stderr
    assert [job.id for job in queue.list(status="cancelled").jobs] == [made[0]]


def test_progress_is_shown_and_ctrl_c_stops_a_search(connection: Connection[Any]) -> None:
    scatter(connection, MATCHES * 20)
    connection.execute("vacuum analyze jobs")
    with terminal("jobs", "--search", "ord-1999", "--limit", "1000", columns=150, before=SMALL_STEPS) as screen:
        progress = re.compile(r"Searched [0-9,]+ of about 2,220 jobs, back to .*; found [1-9][0-9]*\. Ctrl-C stops\.")
        until(lambda: progress.search(screen.text()), screen.text)
        screen.press_ctrl_c()
        assert screen.wait_for_exit() == 130
        shown = screen.text()
    assert "completed" in shown, "what was found"
    assert "Stopped. Searched " in shown
    assert "To continue: treadle jobs --search ord-1999 --limit 1000 --after " in shown


def test_jobs_are_selected_by_time(queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films")
    assert len(json_output_of("jobs", "--since", "2h")) == 1
    assert json_output_of("jobs", "--until", "2h") == []
    queue.complete(job)
    connection.execute("update jobs set finished_at = now() - interval '3 days'")
    assert len(json_output_of("jobs", "--status", "completed", "--since", "4d", "--until", "2d")) == 1
    assert json_output_of("jobs", "--status", "completed", "--since", "2d") == []
    local = (datetime.now(UTC) - timedelta(days=4)).astimezone().strftime("%Y-%m-%dT%H:%M")
    assert len(json_output_of("jobs", "--status", "completed", "--since", local)) == 1


def test_a_bulk_change_takes_the_new_filters(queue: JobQueue) -> None:
    queue.enqueue_many("films", [{"order": 7}, {"order": 8}, {}])
    changed = run_treadle("cancel", "--where", "data.order = 7", "--yes")
    assert changed.stdout == "Cancelled 1 job.\n"
    refused = run_treadle("cancel", "--since", "1h", "--yes")
    assert (refused.exit_code, "give a status as well" in refused.stderr) == (1, True)
    changed = run_treadle("cancel", "--since", "1h", "--status", "pending", "--yes")
    assert changed.stdout == "Cancelled 2 jobs.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "yesterday"], "must be a time such as 2026-11-12T14:00"),
        (["--where", "order = 1"], "expected a payload condition such as"),
        (["--where", "data.x = ORD-1999"], "must be JSON, with texts in double quotes"),
        (["--where", 'data.password = "x"'], "masked as secrets"),
    ],
)
def test_wrong_values_are_refused(arguments: list[str], message: str) -> None:
    result = run_treadle("jobs", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_only_texts(queue: JobQueue, text: str) -> None:
    made = queue.enqueue("films", {"x": text})
    queue.enqueue("films", {"x": "other"})
    quoted = json.dumps(text, ensure_ascii=False)
    assert [each["id"] for each in json_output_of("jobs", "--where", f"data.x = {quoted}")] == [str(made)]
    assert [each["id"] for each in json_output_of("jobs", "--search", quoted)] == [str(made)]
    for command in ("show", "why", "retry", "cancel", "delete", "watch"):
        assert run_treadle(command, "--", text).exit_code == 2
    for option in ("--since", "--until", "--where"):
        assert run_treadle("jobs", option, text).exit_code == 2


def test_every_command_takes_the_last_digits_of_an_id(queue: JobQueue) -> None:
    for command in ("show", "why", "cancel", "retry", "run-now", "delete"):
        job = queue.enqueue("films", delay="1h")
        if command == "retry":
            queue.cancel(job)
        assert run_treadle(command, job.hex[-8:]).exit_code == 0, command
    job = queue.enqueue("films")
    queue.complete(job)
    assert run_treadle("watch", job.hex[-8:]).exit_code == 0


def test_a_finished_job_has_no_due_time(queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films", delay="1h")
    assert "  due " in output_of("show", str(job))
    for status in ("failed", "cancelled", "completed"):
        connection.execute("update jobs set status = %s, finished_at = now() where id = %s", [status, job])
        assert "  due " not in output_of("show", str(job))
        assert "due in" not in output_of("jobs")
