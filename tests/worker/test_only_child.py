"""The only child process of a worker: its deadline, its death, and jobs that wait for it. All tests use one worker."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos.ledger import FOLDER
from psycopg import Connection

from tests.support.workers import Ledger, WorkerProgram, is_alive, locked_file, until, worker_process
from treadle import JobQueue, Retries
from treadle.words.clock import now


@pytest.fixture
def url(module_url: str) -> str:
    return module_url


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("child") / "ledger")


@pytest.fixture(scope="module")
def shared_worker(module_url: str, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProgram]:
    environment = {FOLDER: str(ledger.folder)}
    with worker_process(module_url, tmp_path_factory.mktemp("worker"), "--children", "1", **environment) as worker:
        yield worker


@pytest.fixture(autouse=True)
def worker(shared_worker: WorkerProgram) -> Iterator[WorkerProgram]:
    yield shared_worker
    assert shared_worker.log.read_text().count("worker started") == 1, "nothing here ends a worker process"


@pytest.fixture
def child(queue: JobQueue, ledger: Ledger) -> int:
    """The child process, which has started and is idle."""
    return int(ledger.starts(run_nap(queue))[0]["pid"])


def run_nap(queue: JobQueue) -> str:
    """Run a short job in the child process, and return its id."""
    job_id = queue.enqueue("nap_in_child", {"seconds": 0}, retry=Retries(0))
    until(lambda: queue.get(job_id).status.finished)
    assert state(queue, job_id) == ("completed", 1, 0)
    return str(job_id)


def enqueue_suspect(connection: Connection[Any], job_type: str, data: dict[str, Any]) -> Any:
    """A job that has crashed before, and therefore runs in the child process."""
    with connection.transaction():
        job_id = JobQueue(connection).enqueue(job_type, data, priority=200, retry=Retries(0))
        connection.execute("update jobs set crashes = 1 where id = %s", [job_id])
    return job_id


def state(queue: JobQueue, job_id: Any) -> tuple[str, int, int]:
    row = queue.get(job_id)
    return row.status, row.attempts, row.crashes


def test_a_child_that_reports_all_the_time_is_killed_at_its_deadline_and_replaced(
    ledger: Ledger, queue: JobQueue, child: int
) -> None:
    late = queue.enqueue("report_forever", retry=Retries(0))
    until(lambda: ledger.starts(str(late)))
    began = now()
    until(lambda: queue.get(late).status.finished)
    assert now() - began < 15
    assert state(queue, late) == ("failed", 1, 0)
    assert "was still running at its deadline" in (queue.get(late).last_error or "")
    until(lambda: not is_alive(child))
    run_nap(queue)


def test_a_child_past_its_deadline_is_killed_although_its_worker_is_blocked(
    tmp_path: Path, ledger: Ledger, queue: JobQueue, child: int
) -> None:
    with locked_file(tmp_path) as lock:
        late = queue.enqueue("report_forever", retry=Retries(0))
        until(lambda: ledger.starts(str(late)))
        blocker = queue.enqueue("block_the_interpreter", {"lock": lock}, retry=Retries(0))
        until(lambda: ledger.starts(str(blocker)))
        until(lambda: not is_alive(child))
        assert not queue.get(late).status.finished, "the worker was to be blocked"
    until(lambda: queue.get(late).status.finished)
    assert state(queue, late) == ("failed", 1, 0)
    assert "deadline" in (queue.get(late).last_error or "")


def test_a_child_that_died_between_two_jobs_is_replaced(queue: JobQueue, child: int) -> None:
    os.kill(child, signal.SIGKILL)
    until(lambda: not is_alive(child))
    run_nap(queue)


def test_a_child_that_dies_before_it_started_the_next_job_is_replaced(queue: JobQueue, child: int) -> None:
    os.kill(child, signal.SIGSTOP)  # it gets the next job and cannot begin it
    second = queue.enqueue("nap_in_child", {"seconds": 0}, retry=Retries(0))
    until(lambda: queue.get(second).status == "claimed")
    time.sleep(0.6)  # more than it takes to report a job as running
    assert queue.get(second).status == "claimed", "its handler has not begun"
    os.kill(child, signal.SIGKILL)
    until(lambda: queue.get(second).status.finished)
    assert state(queue, second) == ("completed", 1, 0)


def test_an_interrupt_from_a_terminal_does_not_reach_a_child(ledger: Ledger, queue: JobQueue, child: int) -> None:
    job_id = queue.enqueue("nap_in_child", {"seconds": 0.5}, retry=Retries(0))
    until(lambda: ledger.starts(str(job_id)))
    os.kill(child, signal.SIGINT)
    until(lambda: queue.get(job_id).status.finished)
    assert state(queue, job_id) == ("completed", 1, 0)
    assert is_alive(child)


def test_a_job_that_is_cancelled_while_it_waits_for_a_child_does_not_start(
    tmp_path: Path, connection: Connection[Any], ledger: Ledger, queue: JobQueue
) -> None:
    with locked_file(tmp_path) as lock:
        suspect = enqueue_suspect(connection, "wait_for_lock", {"lock": lock})
        until(lambda: ledger.starts(str(suspect)))
        waiting = queue.enqueue("nap_in_child", {"seconds": 0})
        queue.cancel(waiting)
        assert not queue.get(suspect).status.finished
    run_nap(queue)
    assert queue.get(suspect).status == "completed"
    assert ledger.starts(str(waiting)) == []


def test_a_job_that_waits_for_a_child_is_not_running_and_has_all_of_its_time_later(
    connection: Connection[Any], queue: JobQueue
) -> None:
    """Neither the worker nor the supervisor, which allows two seconds more, counts the time that it waits."""
    with connection.transaction():  # the worker claims both at once, and starts the first
        suspect = enqueue_suspect(connection, "nap", {"seconds": 3.4})
        waiting = JobQueue(connection).enqueue("nap_with_deadline", {"seconds": 0.3}, retry=Retries(0))
    until(lambda: queue.get(waiting).status.finished)
    row = queue.get(waiting)
    assert (row.status, row.crashes, row.last_error) == ("completed", 0, None)
    until(lambda: queue.get(suspect).status == "completed")


@pytest.mark.usefixtures("child")
def test_a_child_past_its_timeout_may_clean_up_until_its_deadline(queue: JobQueue) -> None:
    job_id = queue.enqueue(
        "tidy_up", {"seconds": 1.3}, retry=Retries(0)
    )  # children that are interrupted have one second
    until(lambda: queue.get(job_id).status.finished)
    assert queue.get(job_id).result == "tidy"


def test_a_child_that_is_interrupted_while_it_sends_its_result_takes_the_next_job(
    ledger: Ledger, queue: JobQueue
) -> None:
    job_id = queue.enqueue("return_slow_result", retry=Retries(0))
    until(lambda: any(each["what"] == "serializes" for each in ledger.entries()))
    queue.cancel(job_id)
    run_nap(queue)
