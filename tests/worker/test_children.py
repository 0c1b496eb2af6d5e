"""Child processes: their deadlines, their deaths, and jobs that wait for one."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.support.handlers import app as handlers_app
from tests.support.handlers import nap_in_child, note, report_forever
from tests.support.workers import ROOT, Ledger, run, until, worker_process
from treadle import Job, JobFailed, JobQueue, Treadle
from treadle.words.clock import now
from treadle.worker import Worker, children

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]

more = Treadle()
MORE = "tests.worker.test_children:more"


@more.job(max_attempts=1, process=True)
def leave_when_stopped(job: Job) -> None:
    note("start", job)
    while not job.cancelled:
        time.sleep(0.01)
    note("stopped", job)
    os._exit(17)


@more.job(max_attempts=1, process=True, timeout=0.2)
def tidy_up(job: Job, seconds: float) -> str:
    while seconds and not job.cancelled:
        time.sleep(0.01)
    time.sleep(seconds)
    return "tidy"


@more.job(max_attempts=1)
def suspect(seconds: float) -> None:
    time.sleep(seconds)


@more.job(max_attempts=1, process=True, deadline=1)
def swift(job: Job) -> None:
    note("start", job)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def warm_up(queue: JobQueue, job_type: str, **data: object) -> None:
    """Let the only child start, so that the next job begins at once."""
    first = queue.enqueue(job_type, data, max_attempts=1)
    until(lambda: queue.get(first).status == "completed")


def state(queue: JobQueue, job_id: Any) -> tuple[str, int, int]:
    row = queue.get(job_id)
    return row.status, row.attempts, row.crashes


def test_a_child_that_ends_because_it_was_interrupted_has_not_crashed(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    job_id = queue.enqueue("leave_when_stopped", max_attempts=1)
    with worker_process(url, tmp_path, "--grace", "0s", app=MORE) as worker:
        until(ledger.starts)
        worker.terminate()
        assert worker.ended() == 0
    assert state(queue, job_id) == ("pending", 0, 0)
    assert ledger.entries()[-1]["what"] == "stopped", "it was asked before it was killed"


def test_a_child_past_its_deadline_is_killed_although_its_worker_is_blocked(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    with worker_process(url, tmp_path, "--children", "1"):
        warm_up(queue, "nap_in_child", seconds=0)
        late = queue.enqueue("report_forever", max_attempts=1)
        child = until(lambda: ledger.starts(str(late)))[0]["pid"]
        blocker = queue.enqueue("block_the_interpreter", {"seconds": 9}, max_attempts=1)
        until(lambda: ledger.starts(str(blocker)))
        until(lambda: not alive(child))
        assert ledger.entries()[-1]["what"] == "start", "the worker was to be blocked"
        until(lambda: queue.get(late).status.finished)
        assert state(queue, late) == ("failed", 1, 0)
        assert "deadline" in (queue.get(late).last_error or "")


def test_a_child_past_its_deadline_is_gone(url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue) -> None:
    with worker_process(url, tmp_path, "--children", "1") as worker:
        warm_up(queue, "nap_in_child", seconds=0)
        late = queue.enqueue("report_forever", max_attempts=1)
        until(lambda: queue.get(late).status.finished)
        until(lambda: not alive(ledger.starts()[0]["pid"]))
        after = queue.enqueue("nap_in_child", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(after).status.finished)
        assert state(queue, after) == ("completed", 1, 0)
        assert worker.log.read_text().count("worker started") == 1


def test_a_child_that_died_between_two_jobs_is_replaced(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    with worker_process(url, tmp_path, "--children", "1"):
        first = queue.enqueue("nap_in_child", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(first).status == "completed")
        child = ledger.starts()[0]["pid"]
        os.kill(child, signal.SIGKILL)
        until(lambda: not alive(child))
        second = queue.enqueue("nap_in_child", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(second).status.finished)
        assert state(queue, second) == ("completed", 1, 0)


def test_a_child_that_dies_before_it_started_the_next_job_is_replaced(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    with worker_process(url, tmp_path, "--children", "1"):
        first = queue.enqueue("nap_in_child", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(first).status == "completed")
        child = ledger.starts()[0]["pid"]
        os.kill(child, signal.SIGSTOP)  # it gets the next job and cannot begin it
        second = queue.enqueue("nap_in_child", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(second).status == "claimed")
        time.sleep(0.6)  # more than it takes to report a job as running
        assert queue.get(second).status == "claimed", "its handler has not begun"
        os.kill(child, signal.SIGKILL)
        until(lambda: queue.get(second).status.finished)
        assert state(queue, second) == ("completed", 1, 0)


def test_an_interrupt_from_a_terminal_does_not_reach_a_child(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    with worker_process(url, tmp_path):
        job_id = queue.enqueue("nap_in_child", {"seconds": 0.5}, max_attempts=1)
        os.kill(until(ledger.starts)[0]["pid"], signal.SIGINT)
        until(lambda: queue.get(job_id).status.finished)
        assert state(queue, job_id) == ("completed", 1, 0)


def test_a_job_that_is_cancelled_while_it_waits_for_a_child_does_not_start(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger, queue: JobQueue
) -> None:
    """A job that has crashed before occupies the only child."""
    suspect = queue.enqueue("nap", {"seconds": 5}, priority=200)
    connection.execute("update jobs set crashes = 1")
    waiting = queue.enqueue("nap_in_child", {"seconds": 0})
    with worker_process(url, tmp_path, "--children", "1"):
        until(lambda: ledger.starts(str(suspect)))
        queue.cancel(waiting)
        assert not queue.get(suspect).status.finished
        after = queue.enqueue("nap_in_child", {"seconds": 0})
        until(lambda: queue.get(after).status == "completed")
    assert ledger.starts(str(waiting)) == []


@pytest.mark.parametrize("seconds", [4, 60])
def test_a_job_that_waits_for_a_child_is_not_running(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger, queue: JobQueue, seconds: int
) -> None:
    """It is not past its deadline, and has not crashed when the worker dies. Another job occupies the only child."""
    suspect = queue.enqueue("suspect", {"seconds": seconds}, priority=200)
    connection.execute("update jobs set crashes = 1")
    waiting = queue.enqueue("swift", max_attempts=1)
    with worker_process(url, tmp_path, "--children", "1", app=MORE) as worker:
        if seconds == 60:
            until(lambda: queue.get(suspect).status == "running")
            time.sleep(0.6)  # more than it takes to report a job as running
            assert queue.get(waiting).status in ("pending", "claimed")
            until(worker.worker_process).kill()
            worker.started(2)
        else:
            until(lambda: queue.get(waiting).status.finished)
            assert queue.get(waiting).status == "completed"
            assert worker.log.read_text().count("worker started") == 1
    assert queue.get(waiting).crashes == 0


def test_a_job_that_waited_for_a_child_has_all_of_its_time(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    """While a job that has crashed before occupies the only child, the one that waits for it loses no time."""
    suspect = queue.enqueue("nap", {"seconds": 5}, priority=200)
    connection.execute("update jobs set crashes = 1")
    waiting = queue.enqueue("nap_with_deadline", {"seconds": 2}, max_attempts=1)
    with worker_process(url, tmp_path, "--children", "1"):
        until(lambda: queue.get(waiting).status.finished)
        row = queue.get(waiting)
        assert (row.status, row.crashes, row.last_error) == ("completed", 0, None)
        assert queue.get(suspect).status == "completed"


def test_the_children_of_a_killed_program_end(url: str, ledger: Ledger) -> None:
    program = """
        import asyncio
        from tests.support.handlers import app, nap_in_child

        async def main() -> None:
            async with app.worker():
                await nap_in_child.aenqueue(seconds=600)
                await asyncio.sleep(600)

        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, env=os.environ | {"TREADLE_DATABASE_URL": url}
    ) as process:
        try:
            child = until(ledger.starts)[0]["pid"]
        finally:
            process.kill()
    until(lambda: not alive(child))


def test_a_job_without_a_free_process_is_released_without_using_an_attempt(
    ledger: Ledger, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = children.Child, 0

    def sometimes() -> children.Child:
        nonlocal refused
        refused += 1
        if refused == 1:
            raise BlockingIOError("no processes left")
        return real()

    monkeypatch.setattr(children, "Child", sometimes)

    async def body(worker: Worker) -> None:
        handle = await nap_in_child.aenqueue(seconds=0)
        assert await handle.aresult(30) == 2
        row = await handle.ajob()
        assert (row.attempts, row.crashes) == (1, 0)

    run(handlers_app, body)


def test_a_child_in_a_program_is_killed_at_its_deadline(ledger: Ledger) -> None:
    """The worker does it where there is no supervisor."""

    async def body(worker: Worker) -> None:
        await (await nap_in_child.aenqueue(seconds=0)).aresult(30)
        with pytest.raises(JobFailed, match="was still running at its deadline"):
            await (await report_forever.aenqueue()).aresult(30)

    run(handlers_app, body, children=1)
    assert not alive(ledger.starts()[0]["pid"])


def test_a_child_that_reports_all_the_time_is_killed_at_its_deadline(
    url: str,
    tmp_path: Path,
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    job_id = queue.enqueue("report_forever", max_attempts=1)
    with worker_process(url, tmp_path):
        until(ledger.starts)
        began = now()
        until(lambda: queue.get(job_id).status == "failed")
        assert now() - began < 15
    assert "was still running at its deadline" in (queue.get(job_id).last_error or "")


def test_a_child_that_does_not_stop_when_interrupted_is_killed(ledger: Ledger) -> None:
    async def body(worker: Worker) -> None:
        deaf = await nap_in_child.aenqueue(seconds=60)
        await asyncio.to_thread(until, ledger.starts)
        await deaf.acancel()
        assert await (await nap_in_child.aenqueue(seconds=0)).aresult(30) == 1

    run(handlers_app, body, children=1, grace=0)


def test_a_child_past_its_timeout_may_clean_up_until_its_deadline(url: str, tmp_path: Path, queue: JobQueue) -> None:
    with worker_process(url, tmp_path, "--children", "1", app=MORE):
        warm_up(queue, "tidy_up", seconds=0)
        job_id = queue.enqueue("tidy_up", {"seconds": 1.5}, max_attempts=1)
        until(lambda: queue.get(job_id).status.finished)
    assert queue.get(job_id).result == "tidy"


def test_a_child_that_is_interrupted_while_it_sends_its_result_takes_the_next_job(
    url: str,
    tmp_path: Path,
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    with worker_process(url, tmp_path, "--children", "1"):
        job_id = queue.enqueue("return_slow_result", max_attempts=1)
        until(lambda: any(each["what"] == "serializes" for each in ledger.entries()))
        queue.cancel(job_id)
        after = queue.enqueue("nap_in_child", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(after).status == "completed")
