"""Processes that have run enough jobs, or use too much memory, are replaced, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support.handlers import enqueue_later, leak_memory, nap, nap_in_child, noop, wait_for_lock
from tests.support.workers import (
    Ledger,
    completed,
    count,
    is_alive,
    locked_file,
    until,
    until_completed,
    worker_process,
)
from treadle import InvalidArgument
from treadle.worker.recycling import Limits, Recycling

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]


def test_limits_have_jitter_and_are_never_exceeded() -> None:
    drawn = [Limits.drawn(1000, "100MB") for _ in range(200)]
    assert len({each.jobs for each in drawn}) > 20
    assert all(800 <= each.jobs <= 1000 for each in drawn if each.jobs is not None)
    assert all(90 * 2**20 <= each.memory <= 100 * 2**20 for each in drawn if each.memory is not None)
    assert {Limits.drawn(1, None) for _ in range(20)} == {Limits(1, None)}


def test_a_process_that_has_run_no_job_is_not_replaced() -> None:
    assert Limits(None, 1).reached(0, 1) is None


def test_a_limit_below_what_the_application_needs_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"max_memory is 1MB, but the application uses .* before its first job"):
        Recycling(None, "1MB").check_room()
    Recycling(None, "100GB").check_room()


def test_processes_are_replaced_after_their_jobs_and_every_job_runs_once(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    nap.enqueue_many({"seconds": 0.01} for _ in range(60))
    options = ("--max-jobs-per-process", "25", "--processes", "2", "--concurrency", "10", "--drain")
    with worker_process(url, tmp_path, *options) as worker:
        until_completed(connection, 60)
        assert worker.ended() == 0
    ledger.check(completed(connection))
    by_process: dict[int, int] = {}
    for entry in ledger.starts():
        by_process[entry["pid"]] = by_process.get(entry["pid"], 0) + 1
    assert max(by_process.values()) <= 25
    assert len(by_process) >= 3
    assert count(connection, "attempts <> 1 or crashes > 0 or losses > 0") == 0
    said = worker.log.read_text()
    assert "a worker process is replaced, because it has run 2" in said
    assert "restarted" not in said


@pytest.mark.long
def test_a_worker_that_drains_also_runs_what_a_replaced_process_enqueues_at_last(
    url: str, tmp_path: Path, connection: Connection[Any]
) -> None:
    enqueue_later.enqueue(seconds=3)
    with worker_process(url, tmp_path, "--max-jobs-per-process", "1", "--drain") as worker:
        assert worker.ended() == 0
    assert count(connection, "status = 'completed'") == 2


@pytest.mark.long
def test_a_long_job_is_not_interrupted_and_its_successor_works_meanwhile(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with worker_process(url, tmp_path, "--max-jobs-per-process", "3", "--grace", "0s") as worker:
        with locked_file(tmp_path) as lock:
            handle = wait_for_lock.enqueue(lock=lock)
            until(lambda: handle.status() == "running")
            (former,) = worker.worker_processes()
            for _ in range(6):
                noop.enqueue().result(30)
            assert former.is_running()
            assert handle.status() == "running"
            assert len(worker.worker_processes()) == 2, "no more than twice as many as there should be"
        assert handle.result(30) == 1, "its first attempt has finished"
        until(lambda: not is_alive(former.pid))
        until(lambda: worker.log.read_text().count("is replaced") == 2, worker.log.read_text)
    assert count(connection, "attempts <> 1 or crashes > 0") == 0


@pytest.mark.long
def test_a_process_that_finishes_its_last_jobs_stops_at_once_when_it_is_told_to(
    url: str, tmp_path: Path, ledger: Ledger
) -> None:
    with (
        locked_file(tmp_path) as lock,
        worker_process(url, tmp_path, "--max-jobs-per-process", "1", "--grace", "0.1s") as worker,
    ):
        handle = wait_for_lock.enqueue(lock=lock)
        until(lambda: "is replaced" in worker.log.read_text())
        worker.started(2)
        worker.terminate()
        assert worker.ended(20) == 0
        assert handle.status() == "pending"


@pytest.mark.long
def test_a_process_that_uses_too_much_memory_is_replaced(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with worker_process(url, tmp_path, "--max-memory", "400MB") as worker:
        assert leak_memory.enqueue(megabytes=10).result(30) is None
        assert "is replaced" not in worker.log.read_text()
        leak_memory.enqueue(megabytes=500).result(30)
        until(lambda: "a worker process is replaced, because it uses " in worker.log.read_text())
        worker.started(2)
        noop.enqueue().result(30)
    assert count(connection, "attempts <> 1 or crashes > 0") == 0


@pytest.mark.long
def test_child_processes_are_replaced_as_well(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    nap_in_child.enqueue_many({"seconds": 0.0} for _ in range(5))
    options = ("--max-jobs-per-process", "2", "--children", "1", "--drain")
    with worker_process(url, tmp_path, *options) as worker:
        assert worker.ended() == 0
    pids = [entry["pid"] for entry in ledger.starts()]
    assert len(pids) == 5
    assert max(pids.count(each) for each in pids) <= 2
    assert "is replaced" not in worker.log.read_text(), "the jobs count for the children"
