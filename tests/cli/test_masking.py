"""The command line and `treadle top` print no secret that the dashboard masks."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.apps import claim_and_start
from tests.support.commands import run_treadle
from tests.support.screens import terminal
from tests.support.workers import until
from treadle import JobQueue

SECRET = "hush-hush"  # noqa: S105
URL = f"postgresql://ada:{SECRET}@db/films"
ENTER = "\r"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


@pytest.fixture
def job(queue: JobQueue, connection: Connection[Any]) -> UUID:
    """A job with a secret in everything that it carries, which waits to be retried."""
    made = queue.enqueue("films", {"password": SECRET, "source": URL})
    (claimed,) = queue.claim(["films"])
    queue.event(claimed, "fetched", token=SECRET, source=URL)
    queue.fail(claimed, f"cannot reach {URL}", delay="1h")
    connection.execute(
        """update jobs set result = jsonb_build_object('token', %(s)s::text),
            checkpoint = jsonb_build_object('cookie', %(s)s::text, 'at', %(u)s::text), crashes = 9""",
        {"s": SECRET, "u": URL},
    )
    connection.execute("update errors set traceback = 'Traceback: ' || %s::text", [URL])
    connection.execute(
        """insert into steps (job_id, position, name, result, lease)
        values (%s, 1, 'fetch_token', to_jsonb(%s::text), 1)""",
        [made, SECRET],
    )
    connection.execute(
        """insert into logs (job_id, number, attempt, lease, sequence, logged_at, level, logger, message)
        values (%s, 1, 1, 1, 1, now(), 30, 'shop', %s::text)""",
        [made, f"trying {URL}"],
    )
    connection.execute(
        "insert into audit (actor, action, job_id, reason) values ('ada', 'retry', %s, %s::text)", [made, URL]
    )
    connection.execute("select pause('films', null, 'ada', %s::text)", [URL])
    return made


@pytest.mark.parametrize("options", [[], ["--full"], ["--json"]])
def test_show(job: UUID, options: list[str]) -> None:
    said = run_treadle("show", job, *options).stdout
    assert SECRET not in said
    # Payload twice, event twice, its transition, error and traceback, result, checkpoint twice, step, log, audit.
    assert said.count("********") >= 12
    assert SECRET in run_treadle("show", job, "--show-secrets", *options).stdout


def test_show_masks_each_part(job: UUID) -> None:
    shown = json.loads(run_treadle("show", job, "--json").stdout)
    for part in ("job", "events", "errors", "logs", "steps", "audit"):
        assert "********" in json.dumps(shown[part]), part
        assert SECRET not in json.dumps(shown[part]), part
    for name in ("data", "result", "checkpoint", "last_error"):
        assert "********" in json.dumps(shown["job"][name]), name


@pytest.mark.parametrize(
    "command",
    [
        ["why", "{job}"],
        ["why", "{job}", "--json"],
        ["jobs"],
        ["jobs", "--json"],
        ["pauses"],
        ["pauses", "--json"],
        ["stats", "--json"],
        ["doctor"],
        ["doctor", "--json"],
        ["cancel", "--type", "films", "--dry-run"],
    ],
    ids=" ".join,
)
def test_other_commands(job: UUID, command: list[str]) -> None:
    result = run_treadle(*(each.format(job=job) for each in command))
    assert "://ada:********@db/films" in result.output, "it is there, and masked"
    assert SECRET not in result.output


def test_watch(job: UUID, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.resume("films")
    connection.execute("update jobs set run_at = now()")
    (claimed,) = queue.claim(["films"])
    queue.fail(claimed, f"gave up on {URL}", final=True)
    said = run_treadle("watch", job).stdout
    assert "gave up on postgresql://ada:********@db/films" in said
    assert "fetched token=********" in said
    assert SECRET not in said
    with terminal("watch", str(job), columns=140) as screen:
        assert screen.wait_for_exit() == 1
        assert SECRET.encode() not in screen.raw
        assert "gave up on postgresql://ada:********@db/films" in screen.text()


def test_top(job: UUID, url: str, queue: JobQueue) -> None:
    running, failed = claim_and_start(queue, "posters"), claim_and_start(queue, "reels")
    queue.event(running, "fetched", token=SECRET, source=URL)
    queue.fail(failed, f"gave up on {URL}", final=True)
    with terminal("top", "--database-url", url, columns=140, rows=45) as screen:
        screen.wait_for("posters", "progress")
        screen.press("f")
        screen.wait_for("gave up on postgresql://ada:********@db/films")
        screen.press("f")
        until(lambda: "gave up" not in screen.text(), screen.text)
        screen.wait_for("progress", "worker-1")  # the row of the job, which follows its headings
        screen.press(ENTER)
        screen.wait_for("fetched", "token=********")
        screen.press("q")
        assert screen.wait_for_exit() == 0
        assert SECRET.encode() not in screen.raw
