"""Watching jobs: live bars on a terminal, lines without one, and what is said in the end."""

import asyncio
import io
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection
from rich.cells import cell_len
from rich.console import Console

from tests.screens import terminal
from treadle import JobQueue, JobRow, Progress, Status, Treadle
from treadle.app import sight
from treadle.app.bars import Bars
from treadle.app.viewer import Viewer
from treadle.words import phrases
from treadle.words.record import RecordedEvent
from treadle.words.sight import Seen

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
ESCAPE = "\x1b"


def held(queue: JobQueue, job_type: str = "films", **options: Any) -> JobRow:
    queue.enqueue(job_type, {}, **options)
    (job,) = queue.claim([job_type])
    queue.start(job)
    return job


def seen(**changes: Any) -> Seen:
    job = Seen(uuid4(), "films", Status.RUNNING, Progress(0, None), 1, 3, None, False, 0, NOW, NOW, None, at=NOW)
    return job._replace(**changes)


@contextmanager
def piped(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`treadle …` with its output in a pipe."""
    command = [str(Path(sys.executable).parent / "treadle"), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# On a terminal


def test_a_job_is_watched_until_it_has_completed(url: str, queue: JobQueue) -> None:
    job = held(queue)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.shows("films", "0%")
        queue.progress(job, 40, stage="drawing")
        queue.event(job, "drawn", frames=12)
        shown = screen.shows("40%", "drawing", "films: drawn  frames=12")
        assert "━━━━━╾────────  40%" in shown
        queue.complete(job)
        assert screen.ended() == 0
        assert "✓ films  ━━━━━━━━━━━━━━ 100%  completed in" in screen.text()


def test_what_is_counted_is_shown_with_rate_and_time_left(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = held(queue)
    queue.progress(job, 61, stage="importing")
    connection.execute("""update jobs set pace = '{"done": 1220, "total": 2000, "rate": 212.4, "left": 3.7}'""")
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        (line,) = [line for line in screen.shows("left").splitlines() if "films" in line]
    assert line.startswith("▸ films  ━━━━━━━━╾─────  61%  importing")
    assert line.endswith("1,220/2,000  212/s  4s left")
    assert len(line) <= 80


def test_a_failure_is_a_sentence_and_exit_code_1(url: str, queue: JobQueue) -> None:
    job = held(queue, max_attempts=1)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.shows("films")
        queue.fail(job, "ValueError: the film is torn, and nobody knows how to mend it, not even the one who made it")
        assert screen.ended() == 1
        said = "films failed at attempt 1 of 1: ValueError: the film is torn, and nobody knows how to mend it, not even"
        assert said in screen.text().replace("\n", "")


def test_a_cancelled_job_is_exit_code_1_too(url: str, queue: JobQueue) -> None:
    job = held(queue)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.shows("films")
        queue.cancel(job.id, "seen enough")
        assert screen.ended() == 1
        assert "films cancelled: seen enough" in screen.text()


def test_ctrl_c_stops_watching_and_the_job_goes_on(url: str, queue: JobQueue) -> None:
    job = held(queue)
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.shows("films")
        screen.press_ctrl_c()
        assert screen.ended() == 130
        shown = screen.text()
    assert "stopped watching; the job goes on" in shown
    assert "Traceback" not in shown
    assert queue.get(job.id).status == Status.RUNNING


def test_a_job_that_waits_says_for_what(url: str, queue: JobQueue) -> None:
    ids = [queue.enqueue("soon", {}), queue.enqueue("later", {}, delay="1h"), held(queue, "first", key="k").id]
    ids.append(queue.enqueue("second", {}, key="k"))
    with terminal("watch", *map(str, ids), "--database-url", url) as screen:
        screen.shows("soon", "waits for a worker", "later", "due in 59m", "second", "waits for its turn")


def test_jobs_of_one_type_are_told_apart(url: str, queue: JobQueue) -> None:
    ids = [queue.enqueue("soon", {}) for _ in range(2)]
    with terminal("watch", *map(str, ids), "--database-url", url) as screen:
        screen.shows(*(f"soon {each.hex[-4:]}" for each in ids))


def test_without_ids_everything_that_runs_is_watched(url: str, queue: JobQueue) -> None:
    queue.enqueue("waiting", {})
    first = held(queue, "first")
    with terminal("watch", "--database-url", url) as screen:
        assert "waiting" not in screen.shows("first")
        second = held(queue, "second")
        screen.shows("first", "second")
        queue.complete(first)
        queue.fail(second, "no good", delay=0)
        screen.shows("tries again now: no good")
        (second,) = queue.claim(["second"])
        queue.complete(second)
        assert screen.ended() == 0
        assert "completed in" in screen.text()


def test_more_jobs_than_lines_are_counted(url: str, queue: JobQueue) -> None:
    ids = [queue.enqueue("many", {}) for _ in range(40)]
    with terminal("watch", *map(str, ids), "--database-url", url, rows=20) as screen:
        screen.shows("many", "and 31 more")
        assert len(screen.lines()) == 20


def test_what_jobs_say_cannot_touch_the_terminal(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = held(queue)
    hostile = f"{ESCAPE}[2J{ESCAPE}]0;title\x07[red]\x9b31m\r\n\u202e"
    queue.progress(job, 10, stage=hostile.replace("\r\n", ""))
    connection.execute("select record_event(%s, %s, jsonb_build_object('text', %s::text))", [job.id, hostile, hostile])
    with terminal("watch", str(job.id), "--database-url", url) as screen:
        screen.shows("▸ films", "10%", "[2J ]0;title [red] 31m", "text=")
        queue.fail(job, hostile, final=True)
        assert screen.ended() == 1
        assert b"\x1b[2J" not in screen.raw
        assert b"\x1b]0;" not in screen.raw
        assert "\x9b31m".encode() not in screen.raw
        assert "\u202e".encode() not in screen.raw


def test_a_terminal_of_ascii_alone(url: str, queue: JobQueue) -> None:
    job = held(queue)
    queue.progress(job, 50, stage="zürich ✓")
    with terminal("watch", str(job.id), "--database-url", url, PYTHONIOENCODING="ascii") as screen:
        screen.shows("> films  #######-------  50%")
        queue.complete(job)
        assert screen.ended() == 0


def test_a_database_that_goes_away_and_comes_back_is_said(url: str, queue: JobQueue, monkeypatch: Any) -> None:
    """The stream asks again; the screen says so meanwhile."""
    job = held(queue)
    app = Treadle(url)
    real, broken = app.database.run, threading.Event()

    def run(query: Any) -> Any:
        if broken.is_set():
            raise OSError("gone")
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    told: list[bool] = []

    def away(away: bool) -> None:
        told.append(away)
        broken.clear()

    sights = iter(sight.sights(app, [job.id], away))
    next(sights)
    broken.set()
    next(sights)
    assert told == [True, False]
    app.close()


# Without one


def test_a_pipe_gets_lines_and_no_escape_codes(url: str, queue: JobQueue) -> None:
    job = held(queue)
    with piped("watch", str(job.id), "--database-url", url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "films: 0%\n"
        queue.event(job, "drawn", frames=12)
        assert process.stdout.readline() == "films: drawn frames=12\n"
        queue.complete(job)
        rest, errors = process.communicate(timeout=30)
    assert rest.startswith("films: completed in ")
    assert (rest.count("\n"), errors, process.returncode) == (1, "", 0)


def test_a_failure_in_a_pipe_is_the_last_line(url: str, queue: JobQueue) -> None:
    job = held(queue)
    queue.fail(job, "two\nlines", final=True)
    with piped("watch", str(job.id), "--database-url", url) as process:
        said, errors = process.communicate(timeout=30)
    assert (said, errors, process.returncode) == ("films: failed at attempt 1 of 3: two lines\n", "", 1)


def test_ctrl_c_in_a_pipe(url: str, queue: JobQueue) -> None:
    job = held(queue)
    with piped("watch", str(job.id), "--database-url", url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    assert (said, errors, process.returncode) == ("stopped watching; the job goes on\n", "", 130)


def test_nothing_runs(url: str) -> None:
    with piped("watch", "--database-url", url) as process:
        assert process.communicate(timeout=30) == ("nothing is running\n", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["7"], 2, "Invalid value for ID: a job is meant by its id (a uuid) or its row, got '7'"),
        (["00000000-0000-0000-0000-000000000007"], 1, "there is no job 00000000-0000-0000-0000-000000000007; it may"),
        (["--database-url", "postgresql://ada:secret@127.0.0.1:1/app"], 1, "cannot reach PostgreSQL at 127.0.0.1:1"),
        (["--schema", "nobody"], 1, "treadle migrate"),
        (["--schema", "a-b"], 1, "plain identifier"),
    ],
)
def test_a_mistake_is_a_sentence(url: str, arguments: list[str], code: int, said: str) -> None:
    with piped("watch", "--database-url", url, *arguments) as process:
        output, errors = process.communicate(timeout=60)
    assert (output, process.returncode) == ("", code)
    assert said in errors
    assert "Traceback" not in errors
    assert "secret" not in errors


def test_a_job_that_is_pruned_meanwhile_is_said(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = held(queue)
    with piped("watch", str(job.id), "--database-url", url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        connection.execute("delete from jobs")
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"there is no job {job.id}; it may have been pruned" in errors


def test_a_flood_of_events_is_told_in_part(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = held(queue)
    connection.execute("select record_event(%s, 'drawn') from generate_series(1, 50)", [job.id])
    queue.complete(job)
    with piped("watch", str(job.id), "--database-url", url) as process:
        said, _ = process.communicate(timeout=30)
    assert "films: … 30 earlier events\n" in said
    assert said.count("films: drawn\n") == sight.NEWEST


# handle.watch


def test_a_handle_is_watched(app: Treadle, queue: JobQueue, capsys: pytest.CaptureFixture[str]) -> None:
    job = held(queue)
    ending = threading.Timer(0.2, lambda: queue.complete(job))
    ending.start()
    assert app.handle(job.id).watch() == Status.COMPLETED
    assert "films: completed in" in capsys.readouterr().out
    ending.join()
    assert not app.watch.news.futures


def test_a_handle_is_watched_on_a_loop(app: Treadle, queue: JobQueue, capsys: pytest.CaptureFixture[str]) -> None:
    job = held(queue)

    async def main() -> Status:
        watching = asyncio.create_task(app.handle(job.id).awatch())
        while not app.watch.news.futures:
            await asyncio.sleep(0.01)
        await queue.aevent(job, "drawn")
        await queue.acancel(job.id)
        status = await watching
        stopped = asyncio.create_task(app.handle(held_again.id).awatch())
        while not app.watch.news.futures:
            await asyncio.sleep(0.01)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        await queue.aclose()
        await app.aclose()
        return status

    held_again = held(queue, "songs")
    assert asyncio.run(main()) == Status.CANCELLED
    out = capsys.readouterr().out
    assert "films: drawn" in out
    assert "stopped watching; the job goes on" in out


# What it costs


def test_one_look_for_all_of_them_a_few_times_a_second(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
    jobs = [held(queue) for _ in range(10)]
    looks: list[float] = []
    real = app.database.run

    def run(query: Any) -> Any:
        if b"clock_timestamp()" in query.text and b"holds" in query.text:
            looks.append(time.monotonic())
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    done = threading.Event()

    def get_on() -> None:
        for percent in range(100):
            for job in jobs:
                queue.progress(job, percent)
            queue.event(jobs[percent % 10], "drawn")  # which wakes whoever waits
        for job in jobs:
            queue.complete(job)
        done.set()

    working = threading.Thread(target=get_on)
    began = time.monotonic()
    working.start()
    Viewer(app, [job.id for job in jobs], Console(file=io.StringIO())).run()
    seconds = time.monotonic() - began
    working.join()
    assert done.is_set()
    assert 2 <= len(looks) <= seconds / sight.SPACING_SECONDS + 3


def test_a_silent_job_is_looked_at_once_a_second(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
    job = held(queue)
    monkeypatch.setattr(sight, "PATIENCE_SECONDS", 0.3)
    sights = iter(sight.sights(app, [job.id]))
    for _ in range(2):
        next(sights)
    monkeypatch.setattr(app.watch, "change", lambda *ids: Future())
    next(sights)  # also when nobody wakes it


def test_an_event_that_comes_between_the_count_and_the_events_is_told_once(
    app: Treadle, queue: JobQueue, monkeypatch: Any
) -> None:
    job = held(queue)
    queue.event(job, "one")
    real, late = app.database.run, ["two"]

    def run(query: Any) -> Any:
        if b"unnest" in query.text and b"cross join lateral" in query.text and late:
            queue.event(job, late.pop())
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    sights = iter(sight.sights(app, [job.id]))
    assert [event.name for event in next(sights).events] == ["one", "two"]
    assert next(sights).events == []
    queue.event(job, "three")
    told = [event.name for _ in range(2) for event in next(sights).events]
    assert told == ["three"]


# The drawing itself


def draw(*jobs: Seen, width: int = 80, events: list[RecordedEvent] | None = None) -> list[str]:
    console = Console(width=width, height=24, file=io.StringIO(), force_terminal=True, color_system=None)
    made = Bars(console)
    made._jobs = list(jobs)
    made._events.extend(events or [])
    with console.capture() as captured:
        console.print(made.draw())
    return captured.get().splitlines()


def test_it_fits_whatever_the_width() -> None:
    long = seen(
        job_type="a_very_long_name_of_a_job_type_indeed",
        progress=Progress(61, "importing / the second part of it / 東京", 1_234_567, 2_000_000_000, 21_234.4, 90_000.0),
    )
    failed = seen(status=Status.FAILED, error="x" * 500)
    event = RecordedEvent(long.id, long.job_type, "checked", {"text": "y" * 500}, NOW, 1, 1, "1")
    for width in (40, 60, 80, 100, 200):
        for line in draw(long, failed, seen(), width=width, events=[event]):
            assert cell_len(line) <= width
    (line,) = draw(long)
    assert "importing / the" in line
    assert line.endswith("…  1d 1h left")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (seen(status=Status.COMPLETED, finished_at=NOW + timedelta(seconds=4.21)), "completed in 4.2s"),
        (
            seen(status=Status.COMPLETED, attempts=2, finished_at=NOW + timedelta(minutes=3, seconds=20)),
            "completed in 3m 20s, at attempt 2",
        ),
        (seen(status=Status.COMPLETED, started_at=None), "completed"),
        (seen(status=Status.FAILED, attempts=3, error="no good"), "failed at attempt 3 of 3: no good"),
        (seen(status=Status.CANCELLED), "cancelled"),
        (seen(status=Status.PENDING, run_at=NOW + timedelta(hours=2, minutes=5)), "due in 2h 05m"),
        (seen(status=Status.PENDING, held=True), "waits for its turn"),
        (seen(status=Status.PENDING), "waits for a worker"),
        (seen(status=Status.PENDING, error="no", run_at=NOW + timedelta(seconds=2.1)), "tries again in 3s: no"),
        (seen(status=Status.PENDING, error="no"), "tries again now: no"),
        (seen(status=Status.CLAIMED), "about to begin"),
    ],
)
def test_what_is_said_of_a_job_that_does_not_run(job: Seen, said: str) -> None:
    assert phrases.standing(job) == said


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (Progress(1, None), []),
        (Progress(1, None, 7), ["7"]),
        (Progress(1, None, 7, 9, 0.5, 4.0), ["7/9", "30/min", "4s left"]),
        (Progress(1, None, 7, 9, 0.0, None), ["7/9"]),
        (Progress(1, None, 999_999, 1_000_000, 3.14, 61.0), ["999,999/1.0M", "3.1/s", "1m 01s left"]),
    ],
)
def test_pace_in_words(progress: Progress, said: list[str]) -> None:
    assert phrases.pace(progress) == said
