"""Whole workers are killed, with their supervisors: no job is blamed that has not begun, and all of them start again
together."""

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support.handlers import nap, nap_on_thread, noop
from tests.support.workers import QUICK, Ledger, WorkerProgram, count, one, until, until_completed, worker_process

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]

SHOWN_SECONDS = 0.6  # more than it takes to report a job as running


def expire(connection: Connection[Any], machine: WorkerProgram) -> None:
    """Kill the machine and let its leases run out. (That they do so by themselves is tested in test_supervisor.py.)"""
    pids = [each.pid for each in machine.tree()]
    machine.kill_all()
    connection.execute(
        "update workers set seen_at = seen_at - interval '1 minute', lease = '1 second' where pid = any(%s)", [pids]
    )


@pytest.mark.long
def test_jobs_that_wait_for_a_child_process_are_not_blamed_for_a_lost_machine(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    nap.enqueue_many([{"seconds": 60}] * 4)
    connection.execute("update jobs set crashes = 1")
    with worker_process(url, tmp_path, *QUICK, "--children", "1") as machine:
        until(lambda: len(ledger.starts()) == 1)
        until(lambda: count(connection, "status = 'running'") == 1)
        time.sleep(SHOWN_SECONDS)
        assert count(connection, "status = 'running'") == 1, "the others have not begun"
        expire(connection, machine)
    connection.execute("update jobs set data = '{\"seconds\": 0}'")
    with worker_process(url, tmp_path, *QUICK, "--children", "1"):
        until_completed(connection, 4)
    assert count(connection, "crashes <> 1") == 0
    assert count(connection, "losses = 1") == 1
    assert count(connection, "losses is null") == 3


def all_run(connection: Connection[Any], lease: int) -> bool:
    return count(connection, f"status = 'running' and lease = {lease}") == 20


@pytest.mark.long
def test_no_job_fails_because_as_many_machines_as_crashes_are_allowed_were_lost(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    nap.enqueue_many([{"seconds": 60}] * 10)
    nap_on_thread.enqueue_many([{"seconds": 60}] * 10)
    options = (*QUICK, "--crash-limit", "2")
    for lost in range(1, 3):
        with worker_process(url, tmp_path, *options) as machine:
            until(partial(all_run, connection, lost))
            assert len(ledger.starts()) == 20 * lost, "all of them start at once, not one after the other"
            expire(connection, machine)
    connection.execute("update jobs set data = '{\"seconds\": 0}'")
    with worker_process(url, tmp_path, *options):
        until_completed(connection, 20)
    assert count(connection, "attempts <> 1 or crashes <> 0 or losses <> 2") == 0


def test_the_jobs_of_a_lost_machine_start_again_together(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with ExitStack() as stack:
        machines = [stack.enter_context(worker_process(url, tmp_path, *QUICK)) for _ in range(2)]
        nap.enqueue_many([{"seconds": 3}] * 20)
        until(lambda: len(ledger.starts()) == 20)
        until(lambda: count(connection, "status = 'running'") == 20)
        victim, lost = connection.execute(
            "select w.pid, count(*) from jobs join workers as w using (worker_id) group by 1 order by 2 desc limit 1"
        ).fetchone() or (0, 0)
        (machine,) = [each for each in machines if victim in [process.pid for process in each.tree()]]
        expire(connection, machine)
        until(lambda: len(ledger.starts()) == 20 + lost)
        again = sorted(start["at"] for start in ledger.starts() if start["lease"] > 1)
        assert again[-1] - again[0] < 2.5, "less than one of them takes"
        until_completed(connection, 20)


@pytest.mark.long
def test_the_suspects_of_a_dead_process_are_spread_over_workers(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    """Each runs alone, in a child process, of which one worker has few."""
    with ExitStack() as stack:
        first = stack.enter_context(worker_process(url, tmp_path, "--children", "1"))
        nap.enqueue_many([{"seconds": 60}] * 4)
        until(lambda: len(ledger.starts()) == 4)
        others = stack.enter_context(worker_process(url, tmp_path, "--children", "1", "--processes", "2"))
        others.started(2)
        until(first.worker_process).kill()
        until(lambda: count(connection, "crashes = 1") == 4)
        # None ends before all workers have had the time to start one.
        running = "select count(distinct worker_id) from jobs where crashes = 1 and status = 'running'"
        until(lambda: one(connection, running) > 1)


@pytest.mark.long
def test_a_worker_that_drains_recovers_the_jobs_of_lost_machines_and_counts_what_it_ends(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    # The one that drains does it after half of this time; if it did not, it would do it later, as all workers do.
    lease = ("--lease", "4s")
    with worker_process(url, tmp_path, *lease) as machine:
        nap.enqueue_many([{"seconds": 60}] * 3)
        until(lambda: count(connection, "status = 'running'") == 3)
        machine.kill_all()
    connection.execute("update workers set seen_at = seen_at - interval '1 minute'")
    connection.execute("update jobs set data = '{\"seconds\": 0}'")
    noop.enqueue_many({} for _ in range(4))
    with worker_process(url, tmp_path, *lease, "--drain") as worker:
        assert worker.ended() == 0
    assert count(connection, "status = 'completed'") == 7
    assert one(connection, "select sum(completed) from minutes") == 7
