"""Why a schedule does not run, or a job of one: each cause is created for real and reported until it is removed."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Why
from tests.support.commands import run_treadle as treadle
from tests.support.dashboards import VIEWER, Site
from tests.support.why import register_worker
from tests.support.workers import one
from treadle import JobQueue, Reason, Treadle, UnknownSchedule
from treadle.why.decide import decide_schedule
from treadle.why.facts import LiveWorker, ScheduleFacts
from treadle.words.changes import Pause
from treadle.words.status import Status

HOSTILE = "\x1b[2J\u202e<b>\n"
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ID = UUID("0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35")

Ask = Callable[[], Reason]


@pytest.fixture
def ask(app: Treadle) -> Ask:
    return lambda: app.schedules.why("nightly")


@pytest.fixture(autouse=True)
def served(connection: Connection[Any]) -> None:
    register_worker(connection, "{report}")


def put(connection: Connection[Any], **options: Any) -> None:
    """A schedule that is due in an hour."""
    connection.execute("select put_schedule('nightly', 'report', '0 3 * * *', p_options => %s)", [json.dumps(options)])
    connection.execute("update schedules set next_at = now() + interval '1 hour'")


def test_an_unknown_schedule_is_an_error(ask: Ask) -> None:
    with pytest.raises(UnknownSchedule, match="there is no schedule 'nightly'"):
        ask()


def test_a_schedule_that_is_on_time(app: Treadle, connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    reason = ask()
    assert (reason.name, reason.also) == ("due_later", ())
    assert reason.sentence.startswith("Nothing blocks the schedule: it is due in 1h 00m, at ")
    connection.execute("update schedules set next_at = null")
    assert ask().name == "ready"
    connection.execute("update schedules set next_at = now() - interval '3 seconds'")
    assert "should be enqueued any moment" in ask().sentence

    async def aask() -> Reason:
        try:
            return await app.schedules.awhy("nightly")
        finally:
            await app.aclose()

    assert asyncio.run(aask()).name == "ready"


def test_a_paused_schedule(app: Treadle, connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    app.schedules.pause("nightly", actor="grace", reason="an earlier reason")
    app.schedules.resume("nightly", actor="grace")
    app.schedules.pause("nightly", actor="ada", reason="the mail server is down")
    reason = ask()
    assert reason.name == "paused"
    assert reason.sentence.startswith("The schedule is paused: ada paused it 0.")
    assert reason.sentence.endswith("s ago: the mail server is down.")
    assert reason.remedy == "To resume: treadle schedules resume nightly"
    connection.execute("truncate audit")
    assert "it was paused 0." in ask().sentence
    app.schedules.resume("nightly")
    assert ask().name == "ready"


def test_a_retired_schedule(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute("update schedules set digest = 'd', declared_at = now() - interval '1 hour', retired_at = now()")
    reason = ask()
    assert (reason.name, reason.also) == ("retired", ())
    assert "no worker's code declares it any longer; the last one did 1h 00m ago" in reason.sentence


def test_a_schedule_that_no_live_worker_declares(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute("update schedules set digest = 'd', declared_at = now() - interval '110 seconds'")
    assert ask().name == "due_later"
    connection.execute("update schedules set declared_at = now() - interval '130 seconds'")
    reason = ask()
    assert (reason.name, reason.data["workers"]) == ("not_declared", ["w1"])
    assert "was there 2m 10s ago" in reason.sentence


def test_a_schedule_with_an_error(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute(
        "update schedules set error = 'the minute is wrong.', retry_at = clock_timestamp() + interval '3 seconds'"
    )
    reason = ask()
    assert reason.name == "error"
    assert "failed: the minute is wrong. A worker tries again in 3.0s." in reason.sentence.replace("2.9s", "3.0s")
    assert reason.remedy == "To correct its times: treadle schedules change nightly EXPRESSION"


def test_a_schedule_that_has_ended_or_not_started(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute("update schedules set starts_at = now() + interval '55 minutes'")
    reason = ask()
    assert reason.name == "starts_later"
    assert reason.sentence.startswith("The schedule starts in 55m 00s, at ")
    connection.execute("update schedules set starts_at = null, next_at = 'infinity'")
    assert ask().sentence == "The schedule has ended: it has no further times."


def test_without_a_live_worker(queue: JobQueue, connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute("update workers set seen_at = now() - interval '2 hours'")
    reason = ask()
    assert (reason.name, reason.also) == ("no_worker", ())
    assert reason.sentence == "There is no live worker to enqueue its jobs; the last one, w1, was seen 2h 00m ago."
    connection.execute("select heartbeat('by-hand')")  # a client, which enqueues no schedules
    assert ask().name == "no_worker"


def test_a_job_type_or_queue_that_nobody_serves(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute("update schedules set job_type = 'other'")
    reason = ask()
    assert reason.name == "no_worker_for_type"
    assert "No live worker serves the job type other: the only one serves report." in reason.sentence
    register_worker(connection, "{other}", "w2", queues="{slow}")
    assert ask().name == "no_worker_for_queue"


def test_its_workers_have_a_concurrency_of_0(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    before = ask().name
    connection.execute("select set_concurrency(worker_id, 0) from workers")
    reason = ask()
    assert reason.name == "workers_paused"
    assert "serves the job type report claims nothing: its concurrency was set to 0" in reason.sentence
    connection.execute("select set_concurrency(worker_id, null) from workers")
    assert ask().name == before


def test_its_jobs_are_paused(queue: JobQueue, connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    queue.pause("report", reason="the bank is closed")
    reason = ask()
    assert reason.name == "jobs_paused"
    assert "do not run: the type report was paused by" in reason.sentence
    assert reason.remedy == "To resume: treadle resume --type report"


def test_its_last_job_has_not_finished(queue: JobQueue, connection: Connection[Any], ask: Ask) -> None:
    put(connection, overlap="skip")
    connection.execute("select operate_schedule('run', 'nightly')")
    (job,) = queue.claim(["report"])
    queue.start(job)
    assert ask().name == "due_later"  # nothing was left out yet
    connection.execute(
        "insert into occurrences (schedule, scheduled_for, skipped) values ('nightly', clock_timestamp(), 'overlap')"
    )
    reason = ask()
    assert (reason.name, reason.data["last_job_reason"], reason.data["skipped"]) == ("overlap", "running", 1)
    assert f"1 time was left out since job {job.id}, which has been running on worker-1 for" in reason.sentence
    queue.complete(job)
    assert ask().name == "due_later"


def test_a_schedule_that_is_late_although_there_are_workers(connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    connection.execute("update schedules set next_at = now() - interval '40 seconds'")
    reason = ask()
    assert reason.name == "late"
    assert "has been due for 40s" in reason.sentence


def test_several_causes_are_named_in_order(app: Treadle, connection: Connection[Any], ask: Ask) -> None:
    put(connection)
    app.schedules.pause("nightly")
    connection.execute("update schedules set error = 'e', job_type = 'other'")
    assert [ask().name, *(each.name for each in ask().also)] == ["paused", "error", "no_worker_for_type"]


# Jobs of schedules


def test_a_job_waits_because_its_schedule_runs_one_at_a_time(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    put(connection, overlap="wait")
    for _ in range(2):
        connection.execute("select operate_schedule('run', 'nightly')")
    first, second = [row[0] for row in connection.execute("select id from jobs order by id").fetchall()]
    reason = why(second)
    assert reason.name == "key_blocked"
    assert reason.sentence.startswith(
        f'The schedule nightly runs its jobs one after the other (overlap="wait"): it waits for job {first}, which '
    )
    assert reason.data["schedule"] == "nightly"
    assert reason.data["scheduled_for"] == one(connection, "select max(scheduled_for) from occurrences")
    assert why(first).data["schedule"] == "nightly"


def test_a_job_is_delayed_by_the_jitter_of_its_schedule(connection: Connection[Any], why: Why) -> None:
    put(connection)
    connection.execute("select operate_schedule('run', 'nightly')")
    connection.execute("update jobs set run_at = now() + interval '30 seconds'")
    reason = why(one(connection, "select id from jobs"))
    assert reason.sentence.startswith(
        "The job is delayed at random by the jitter of its schedule nightly: it is due in "
    )


def test_an_origin_that_was_written_by_hand_is_ignored(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    made = queue.enqueue("report")
    for text in ('"x"', "{}", '{"schedule": "a", "for": 7, "before": null}', '{"schedule": "a", "for": "no"}'):
        connection.execute("update jobs set origin = %s", [text])
        assert "schedule" not in why(made).data


# The command and the API


def test_the_command(connection: Connection[Any], url: str) -> None:
    put(connection)
    connection.execute("select operate_schedule('pause', 'nightly', %s, %s)", ["ada\x1b[2J", "api_key=hush-hush-hush"])
    shown = treadle("schedules", "why", "nightly", "--database-url", url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[1] == "To resume: treadle schedules resume nightly"
    assert "hush" not in shown.stdout
    assert "\x1b" not in shown.stdout
    shown = treadle("schedules", "why", "nightly", "--json", "--database-url", url)
    assert (json.loads(shown.stdout)["schedule"], json.loads(shown.stdout)["name"]) == ("nightly", "paused")
    assert "there is no schedule 'nope'" in treadle("schedules", "why", "nope", "--database-url", url).stderr


def test_the_api(site: Site, connection: Connection[Any]) -> None:
    put(connection)
    viewer = site.program(VIEWER)
    assert viewer.send("GET", "/api/schedules/why?name=nightly").json()["name"] == "due_later"
    assert viewer.send("GET", "/api/schedules/why?name=nope").status_code == 404
    assert viewer.send("GET", "/api/schedules/why").status_code == 400


# From values


def test_every_combination_has_a_readable_reason() -> None:
    served = LiveWorker("w1", False, ["report"], None, True, None, None, NOW)
    ago, later = NOW - timedelta(hours=1), NOW + timedelta(hours=1)
    choices: dict[str, list[Any]] = {
        "in_code": [True, False],
        "declared_at": [None, NOW, ago],
        "retired_at": [None, ago],
        "paused_at": [None, ago],
        "starts_at": [None, later],
        "next_at": [None, ago, NOW, later],
        "ended": [False, True],
        "last": [(None, None), (ago, Status.COMPLETED), (ago, Status.RUNNING)],
        "error": [None, HOSTILE],
        "pauses": [[], [Pause(None, HOSTILE, ago, HOSTILE, HOSTILE)]],
        "workers": [
            [],
            [served],
            [served._replace(serves=False, job_types=["other"])],
            [served._replace(is_client=True, serves=False, job_types=None)],
        ],
    }
    unfinished = Reason("running", "It runs.", "", "runs", {})
    for values in product(*choices.values()):
        known = dict(zip(choices, values, strict=True))
        last_at, status = known.pop("last")
        facts = ScheduleFacts(
            NOW,
            HOSTILE,
            "report",
            "default",
            "skip",
            **known,
            last_at=last_at,
            last_job=ID,
            last_status=status,
            skipped=3,
        )
        reason = decide_schedule(facts, unfinished if status is Status.RUNNING else None)
        assert reason.sentence.isprintable()
        assert reason.sentence.endswith(".")
        assert not reason.remedy.endswith(".")
        assert reason.remedy.isprintable()
        assert reason.name not in [each.name for each in reason.also if each.name != "jobs_paused"]
