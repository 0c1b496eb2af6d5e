"""Worker processes that die, are killed or are told to stop: what becomes of their jobs and of their own processes."""

import asyncio
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support import handlers
from tests.support.handlers import block_the_loop
from tests.support.workers import Ledger, count, is_alive, locked_file, one, until, worker_process
from treadle import JobQueue, Retries
from treadle.worker import supervisor
from treadle.worker.options import WorkerOptions

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]

MORE = "tests.support.leaving_app:app"


@pytest.mark.long
def test_jobs_that_run_in_or_wait_for_a_child_of_a_killed_worker_process_have_not_crashed(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    job_id = queue.enqueue("nap_in_child", {"seconds": 60}, priority=200)
    waiting = queue.enqueue("nap_with_deadline", {"seconds": 0}, retry=Retries(0))
    with worker_process(url, tmp_path, "--children", "1") as worker:
        until(lambda: queue.get(job_id).status == "running")
        time.sleep(0.6)  # more than it takes to report a job as running
        assert queue.get(waiting).status in ("pending", "claimed")
        until(worker.worker_process).kill()
        until(lambda: len(ledger.starts()) == 2)
        assert not is_alive(ledger.starts()[0]["pid"])
        row = queue.get(job_id)
        assert (row.attempts, row.crashes) == (1, 0)
    assert queue.get(waiting).crashes == 0


@pytest.mark.long
def test_processes_that_a_dead_worker_process_left_behind_are_killed(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    queue.enqueue("leave_a_helper")
    with worker_process(url, tmp_path, app=MORE):
        (entry, *_) = until(ledger.entries)
        until(lambda: not is_alive(int(entry["what"].split()[1])))


def test_a_process_that_a_handler_forks_does_not_go_on_as_a_second_worker(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    jobs = []
    with worker_process(url, tmp_path, app=MORE) as worker:
        for name in ("fork_and_return", "fork_on_thread", "fork_and_wait"):
            job = queue.enqueue(name)
            jobs.append(job)
            until(partial(lambda job: queue.get(job).status == "completed", job), worker.log.read_text)
            child = int(ledger.entries()[-1]["what"].split()[1])
            until(partial(lambda child: not is_alive(child), child), worker.log.read_text)
        log = worker.log.read_text()
    assert [queue.get(job).attempts for job in jobs] == [1, 1, 1]
    assert log.count("was forked by a handler and has returned to the worker") == 3
    assert "unavailable" not in log
    assert "Traceback" not in log


@pytest.mark.long
def test_a_thread_of_a_worker_process_that_was_told_to_stop_has_not_crashed(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    job_id = queue.enqueue("nap_on_thread", {"seconds": 60})
    with worker_process(url, tmp_path, "--grace", "0s") as worker:
        until(ledger.starts)
        until(worker.worker_process).terminate()
        until(lambda: len(ledger.starts()) == 2)
        row = queue.get(job_id)
        assert (row.attempts, row.crashes) == (1, 0)


def test_a_worker_process_whose_supervisor_is_gone_does_not_start() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "from treadle.worker.process import main; main()"],
        stdin=subprocess.PIPE,
        env=os.environ | {"TREADLE_SUPERVISOR": "1"},
    ) as process:
        try:
            assert process.wait(60) == 1
        finally:
            process.kill()


def test_a_worker_process_that_does_not_react_is_killed(
    url: str, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    for name in ("STOP_SECONDS", "FLUSH_SECONDS"):
        monkeypatch.setattr(supervisor, name, 0.0)

    async def body() -> int:
        looks_after = supervisor.Supervisor("tests.support.handlers:app", 1, WorkerOptions(grace=0), "info", "text")
        running = asyncio.create_task(looks_after.run())
        await asyncio.to_thread(until, ledger.starts)
        looks_after.stop()
        return await asyncio.wait_for(running, 40)

    with locked_file(tmp_path) as lock:
        block_the_loop.enqueue(lock=lock)
        assert asyncio.run(body()) == 0
    assert not is_alive(ledger.starts()[0]["pid"])


@pytest.mark.long
def test_an_exit_that_looks_clean_is_a_crash(
    url: str, tmp_path: Path, connection: Connection[Any], queue: JobQueue
) -> None:
    with worker_process(url, tmp_path, "--crash-limit", "2") as worker:
        for nth, name in enumerate(("exit_with_code_0", "leave_a_task_that_exits"), 1):
            with connection.transaction():
                borrowed = JobQueue(connection)
                pill = borrowed.enqueue(name, retry=Retries(0))
                good = [borrowed.enqueue("nap", {"seconds": 0.3}, retry=Retries(0)) for _ in range(3)]
            ended = "status in ('completed', 'failed')"
            until(partial(reached, connection, ended, 4 * nth), worker.log.read_text, 90)
            assert queue.get(pill).status == "failed"
            assert {queue.get(job_id).status for job_id in good} == {"completed"}
            worker.started(nth + 1)
            assert worker.alive()


def reached(connection: Connection[Any], condition: str, number: int) -> bool:
    return count(connection, condition) == number


@pytest.mark.long
def test_a_worker_process_that_is_told_to_stop_alone_is_replaced(url: str, tmp_path: Path) -> None:
    with worker_process(url, tmp_path) as worker:
        until(worker.worker_process).terminate()
        worker.started(2)
        worker.terminate()
        assert worker.ended() == 0


def test_jobs_locked_by_the_last_statement_of_a_killed_worker_are_given_back(
    url: str, tmp_path: Path, ledger: Ledger, connect: Connect
) -> None:
    """The supervisor gives them back, long before the lease of an hour runs out."""
    handle = handlers.nap.enqueue(seconds=600)
    with worker_process(url, tmp_path, "--lease", "1h") as worker:
        until(lambda: handle.status() == "running")
        statement, looking = connect(autocommit=False), connect()
        statement.execute("select from jobs for no key update")
        until(worker.worker_process).kill()
        # At once: the supervisor tries again for one second only.
        until(lambda: one(looking, "select lost_at is not null from workers"))
        statement.rollback()
        until(lambda: handle.job().crashes == 1)
        assert "was killed by SIGKILL" in (handle.job().last_error or "")
