"""Watching jobs without a terminal: the output is plain lines."""

import asyncio
import io
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from rich.console import Console

from tests.support.apps import claim_and_start
from tests.support.commands import run_treadle
from treadle import JobQueue, Status, Treadle
from treadle.watching import snapshots
from treadle.watching.viewer import Viewer


@contextmanager
def piped(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `treadle …` with its output in a pipe."""
    command = [str(Path(sys.executable).parent / "treadle"), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# In a pipe


def test_the_output_in_a_pipe_has_no_escape_codes(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue)
    with piped("watch", str(job.id), "--database-url", url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "films: 0%\n"
        queue.event(job, "drawn", frames=12)
        assert process.stdout.readline() == "films: drawn frames=12\n"
        queue.complete(job)
        rest, errors = process.communicate(timeout=60)
    assert rest.startswith("films: completed in ")
    assert (rest.count("\n"), errors, process.returncode) == (1, "", 0)


def test_the_last_line_in_a_pipe_describes_the_failure(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue)
    queue.fail(job, "two\nlines", final=True)
    result = run_treadle("watch", job.id, "--database-url", url)
    assert (result.stdout, result.stderr) == ("films: failed on attempt 1 of 3: two lines\n", "")
    assert result.exit_code == 1


def test_ctrl_c_stops_watching_in_a_pipe(url: str, queue: JobQueue) -> None:
    job = claim_and_start(queue)
    with piped("watch", str(job.id), "--database-url", url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=60)
    assert (shown, errors, process.returncode) == ("stopped watching; the job continues\n", "", 130)


def test_watch_without_running_jobs_says_so(url: str) -> None:
    result = run_treadle("watch", "--database-url", url)
    assert (result.stdout, result.stderr, result.exit_code) == ("No jobs are running.\n", "", 0)


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (
            ["7"],
            2,
            "expected the id of a job (a UUID), or at least 4 of its first or last digits, got '7'",
        ),
        (["00000000-0000-0000-0000-000000000007"], 1, "there is no job 00000000-0000-0000-0000-000000000007; it may"),
        (["--database-url", "postgresql://ada:secret@127.0.0.1:1/app"], 1, "cannot reach PostgreSQL at 127.0.0.1:1"),
        (["--schema", "nobody"], 1, "treadle migrate"),
        (["--schema", "a-b"], 1, "plain identifier"),
    ],
)
def test_invalid_arguments_give_a_readable_error(url: str, arguments: list[str], code: int, shown: str) -> None:
    result = run_treadle("watch", "--database-url", url, *arguments)
    assert (result.stdout, result.exit_code) == ("", code)
    assert shown in result.stderr
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr


def test_a_job_that_is_pruned_while_watched_is_reported(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = claim_and_start(queue)
    with piped("watch", str(job.id), "--database-url", url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        connection.execute("delete from jobs")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"there is no job {job.id}; it may have been pruned" in errors


def test_only_the_newest_of_many_events_are_shown(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = claim_and_start(queue)
    connection.execute("select record_event(%s, 'drawn') from generate_series(1, 50)", [job.id])
    queue.complete(job)
    shown = run_treadle("watch", job.id, "--database-url", url).stdout
    assert "films: … 30 earlier events\n" in shown
    assert shown.count("films: drawn\n") == snapshots.NEWEST


# handle.watch


def test_a_handle_can_be_watched(app: Treadle, queue: JobQueue, capsys: pytest.CaptureFixture[str]) -> None:
    job = claim_and_start(queue)
    completing = threading.Timer(0.2, lambda: queue.complete(job))
    completing.start()
    assert app.handle(job.id).watch() == Status.COMPLETED
    assert "films: completed in" in capsys.readouterr().out
    completing.join()
    assert not app.watch.until_changed.futures


def test_a_handle_can_be_watched_asynchronously(
    app: Treadle, queue: JobQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    job = claim_and_start(queue)

    async def main() -> Status:
        watching = asyncio.create_task(app.handle(job.id).awatch())
        while not app.watch.until_changed.futures:
            await asyncio.sleep(0.01)
        await queue.aevent(job, "drawn")
        await queue.acancel(job.id)
        status = await watching
        stopped = asyncio.create_task(app.handle(second_job.id).awatch())
        while not app.watch.until_changed.futures:
            await asyncio.sleep(0.01)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        await queue.aclose()
        await app.aclose()
        return status

    second_job = claim_and_start(queue, "songs")
    assert asyncio.run(main()) == Status.CANCELLED
    out = capsys.readouterr().out
    assert "films: drawn" in out
    assert "stopped watching; the job continues" in out


@pytest.mark.parametrize("interrupted", [True, False])
def test_ctrl_c_while_it_waits_for_a_lock_stops_watching(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    job, output, lock = claim_and_start(queue), io.StringIO(), threading.RLock()
    viewer = Viewer(app.database, app.watch, [job.id], Console(file=output))

    def interrupted_snapshots() -> Iterator[Any]:
        with lock:
            lock.release()  # to wait for something; before it has the lock again, it is interrupted
            raise KeyboardInterrupt if interrupted else ValueError
        yield

    monkeypatch.setattr(viewer, "_snapshots", interrupted_snapshots)
    with nullcontext() if interrupted else pytest.raises(RuntimeError):
        viewer.run()
    assert output.getvalue() == ("stopped watching; the job continues\n" if interrupted else "")
