"""Watching jobs on a terminal: live bars and the final message."""

from typing import Any

from psycopg import Connection

from tests.support.apps import claim_and_start
from tests.support.screens import terminal
from treadle import JobQueue, Retries, Status

ESCAPE = "\x1b"


def test_a_job_is_watched_until_it_has_completed(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = claim_and_start(queue)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.wait_for("films", "0%")
        queue.progress(job, 40, stage="drawing")
        queue.event(job, "drawn", frames=12)
        shown = screen.wait_for("40%", "drawing", "films: drawn  frames=12")
        assert "━━━━━╾────────  40%" in shown
        # Counted progress has a rate and the time left.
        connection.execute("""update jobs set progress = 61, current_stage = 'importing',
            pace = '{"done": 1220, "total": 2000, "rate": 212.4, "left": 3.7}'""")
        (line,) = [line for line in screen.wait_for("left").splitlines() if "▸ films" in line]
        assert line.startswith("▸ films  ━━━━━━━━╾─────  61%  importing")
        assert line.endswith("1,220/2,000  212/s  4s left")
        assert len(line) <= 80
        queue.complete(job)
        assert screen.wait_for_exit() == 0
        assert "✓ films  ━━━━━━━━━━━━━━ 100%  completed in" in screen.text()


def test_a_failed_job_is_described_and_the_exit_code_is_1(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue, retry=Retries(0))
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.wait_for("films")
        queue.fail(job, "ValueError: the film is torn, and nobody knows how to mend it, not even the one who made it")
        assert screen.wait_for_exit() == 1
        message = (
            "films failed on attempt 1 of 1: ValueError: the film is torn, and nobody knows how to mend it, not even"
        )
        assert message in screen.text().replace("\n", "")


def test_the_exit_code_for_a_cancelled_job_is_1(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.wait_for("films")
        queue.cancel(job.id, "seen enough")
        assert screen.wait_for_exit() == 1
        assert "films cancelled: seen enough" in screen.text()


def test_ctrl_c_stops_watching_and_the_job_continues(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.wait_for("films")
        screen.press_ctrl_c()
        assert screen.wait_for_exit() == 130
        shown = screen.text()
    assert "stopped watching; the job continues" in shown
    assert "Traceback" not in shown
    assert queue.get(job.id).status == Status.RUNNING


def test_a_pending_job_shows_what_it_waits_for_and_its_id_if_its_type_is_shown_twice(url: str, queue: JobQueue) -> None:
    twice = [queue.enqueue("soon", {}) for _ in range(2)]
    ids = [*twice, queue.enqueue("later", {}, delay="1h"), claim_and_start(queue, "first", key="k").id]
    ids.append(queue.enqueue("second", {}, key="k"))
    with terminal("watch", *map(str, ids), "--database-url", url) as screen:
        screen.wait_for(*(f"soon {each.hex[-4:]}" for each in twice))
        screen.wait_for("waiting for a worker", "later", "due in 59m", "second", "waiting for other jobs")


def test_without_ids_all_running_jobs_are_watched(url: str, queue: JobQueue) -> None:
    queue.enqueue("waiting", {})
    first = claim_and_start(queue, "first")
    with terminal("watch", "--database-url", url) as screen:
        assert "waiting" not in screen.wait_for("first")
        second = claim_and_start(queue, "second")
        screen.wait_for("first", "second")
        queue.complete(first)
        queue.fail(second, "no good", delay=0)
        screen.wait_for("retries now: no good")
        (second,) = queue.claim(["second"])
        queue.complete(second)
        assert screen.wait_for_exit() == 0
        assert "completed in" in screen.text()


def test_jobs_that_do_not_fit_on_the_screen_are_counted(url: str, queue: JobQueue) -> None:
    ids = [queue.enqueue("many", {}) for _ in range(40)]
    with terminal("watch", *map(str, ids), "--database-url", url, rows=20) as screen:
        screen.wait_for("many", "and 31 more")
        assert len(screen.lines()) == 20


def test_texts_of_jobs_cannot_control_the_terminal(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = claim_and_start(queue)
    hostile = f"{ESCAPE}[2J{ESCAPE}]0;title\x07[red]\x9b31m\r\n\u202e"
    queue.progress(job, 10, stage=hostile.replace("\r\n", ""))
    connection.execute("select record_event(%s, %s, jsonb_build_object('text', %s::text))", [job.id, hostile, hostile])
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.wait_for("▸ films", "10%", "[2J ]0;title [red] 31m", "text=")
        queue.fail(job, hostile, final=True)
        assert screen.wait_for_exit() == 1
        assert b"\x1b[2J" not in screen.raw
        assert b"\x1b]0;" not in screen.raw
        assert "\x9b31m".encode() not in screen.raw
        assert "\u202e".encode() not in screen.raw


def test_a_terminal_without_unicode_gets_ascii(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue)
    queue.progress(job, 50, stage="zürich ✓")
    with terminal("watch", str(job.id), "--database-url", url, PYTHONIOENCODING="ascii") as screen:
        screen.wait_for("> films  #######-------  50%")
        queue.complete(job)
        assert screen.wait_for_exit() == 0
