"""Worker processes among real signals: nothing is lost, nothing runs twice at once, nothing is written twice."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.support.commands import run_treadle
from tests.support.handlers import (
    block_past_the_deadline,
    block_the_interpreter,
    block_the_loop,
    exhaust_memory,
    exit_at_once,
    ignore_the_deadline,
    nap,
    nap_and_check,
    nap_in_child,
    nap_on_thread,
    noop,
    segfault,
)
from tests.support.workers import QUICK, Ledger, completed, count, locked_file, until, until_completed, worker_process
from tests.worker.test_health import port_of, probe
from treadle import JobFailed, Retries, Status

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]


BACKLOG = 15_000


@pytest.mark.long
def test_all_jobs_are_done_although_workers_are_killed(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    chance = random.Random(7)
    nap.enqueue_many({"seconds": chance.uniform(0.02, 0.2)} for _ in range(300))
    nap_on_thread.enqueue_many({"seconds": chance.uniform(0.02, 0.2)} for _ in range(100))
    options = ("--concurrency", "10", *QUICK)
    with (
        worker_process(url, tmp_path, *options, "--processes", "2") as one,
        worker_process(url, tmp_path, *options) as two,
    ):
        for number in (60, 160):
            until_completed(connection, number)
            victim = until(one.worker_process)
            # Suspects run in its children, which are killed with it: if one went on, its end would be in the ledger.
            family = [victim, *victim.children(recursive=True)]
            # Before the kill: what it held may run again before we come to look at the clock after it.
            ledger.killed.update({each.pid: time.monotonic() for each in family})
            victim.kill()
        everybody = [each.pid for each in two.tree()]
        two.kill_all()
        ledger.killed.update(dict.fromkeys(everybody, time.monotonic()))
        until_completed(connection, 400)
        one.terminate()
        assert one.ended() == 0
    ledger.check(completed(connection))
    assert count(connection, "attempts <> 1") == 0, "a crash used an attempt"


@pytest.mark.long
def test_a_job_of_a_killed_machine_runs_again_by_itself(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with worker_process(url, tmp_path, *QUICK) as one:
        handle = nap.enqueue(seconds=60)
        until(lambda: handle.status() == "running")
        quick = [nap.enqueue(seconds=0.01) for _ in range(3)]
        for each in quick:
            each.result(30)
        one.kill_all()
    connection.execute("update jobs set data = '{\"seconds\": 0.01}' where id = %s", [handle.id])
    with worker_process(url, tmp_path, *QUICK):
        assert handle.result(30) == 2
    found = connection.execute("select attempts, crashes, losses from jobs where id = %s", [handle.id]).fetchone()
    assert found == (1, 0, 1), "that its machine was lost is not its fault"


@pytest.mark.long
def test_what_a_stopped_worker_writes_late_is_refused(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with worker_process(url, tmp_path, *QUICK, "--concurrency", "10") as one:
        handles = [job.enqueue(seconds=3) for job in (nap, nap_on_thread) for _ in range(3)]
        until(lambda: len(ledger.starts()) == 6)
        one.signal_all(signal.SIGSTOP)
        connection.execute("update jobs set data = '{\"seconds\": 0.1}'")
        with worker_process(url, tmp_path, *QUICK) as two:
            assert [handle.result(30) for handle in handles] == [2] * 6
            before = connection.execute("select * from jobs order by id").fetchall()
            one.signal_all(signal.SIGCONT)
            # It finds that its lease ran out; what its handlers did meanwhile is not accepted. (Or it is killed first.)
            until(lambda: (told := one.log.read_text()).count("lease lost") == 6 or told.count("worker started") > 1)
            fresh = nap.enqueue(seconds=0.01)
            fresh.result(30)
            two.terminate()
            two.ended()
    after = connection.execute("select * from jobs where id <> %s order by id", [fresh.id]).fetchall()
    assert before == after


def test_a_blocked_worker_keeps_its_jobs(url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger) -> None:
    """Of two worker processes, each with one job, one has a blocked event loop and the other a blocked interpreter."""
    with worker_process(url, tmp_path, *QUICK, "--processes", "2", "--concurrency", "1") as one:
        one.started(2)
        with locked_file(tmp_path) as lock:
            handles = []
            for job in (block_the_loop, block_the_interpreter):
                handles.append(job.enqueue(lock=lock))
                until(partial(ledger.starts, str(handles[-1].id)))
            with worker_process(url, tmp_path, *QUICK, "--concurrency", "1") as two:
                # Claims, completions and maintenance of other workers go on. This one looks for lost workers every
                # second, as soon as it has run for half of their lease.
                assert nap.using(queue="other").enqueue(seconds=0).result(8) == 1
                time.sleep(4)
                assert {handle.status() for handle in handles} <= {Status.RUNNING, Status.CLAIMED}
                assert "recovered" not in two.log.read_text()
        assert [handle.result(30) for handle in handles] == [1, 1]
        assert "recovered" not in one.log.read_text()
        assert one.log.read_text().count("worker started") == 2
    assert len(ledger.starts()) == 3
    assert count(connection, "crashes > 0") == 0


def test_a_job_that_kills_its_process_fails_alone(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with worker_process(url, tmp_path):
        for poison in (exit_at_once, segfault):
            with connection.transaction():
                pill = poison.using(connection=connection).enqueue()
                good = [job.using(connection=connection).enqueue(seconds=0.3) for job in (nap, nap_on_thread) * 3]
            with pytest.raises(JobFailed, match="crashed its process 3 times, which is the limit; last crash: its"):
                pill.result(60)
            for handle in good:
                handle.result(60)
            assert count(connection, "crashes > 1") == 1, "a neighbour was blamed more than once"
            row = pill.job()
            assert (row.crashes, row.attempts) == (3, 0)
            assert [error.attempt for error in pill.errors()] == [1, 1, 1]
            assert len(ledger.starts(str(pill.id))) == 3
            connection.execute("delete from jobs")


@pytest.mark.long
def test_a_memory_hog_is_killed_alone(url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger) -> None:
    hog = exhaust_memory.using(retry=Retries(0)).enqueue()
    good = [nap_in_child.enqueue(seconds=0.1) for _ in range(3)] + [nap.enqueue(seconds=0.3) for _ in range(5)]
    with worker_process(url, tmp_path) as worker:
        with pytest.raises(JobFailed, match=r"used \d+ MB of memory, more than its limit of 200 MB, and was killed"):
            hog.result(30)
        for handle in good:
            handle.result(30)
        assert worker.log.read_text().count("worker started") == 1
    assert count(connection, "crashes > 0") == 0


@pytest.mark.long
def test_a_handler_that_ignores_its_deadline_is_killed(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    with worker_process(url, tmp_path, "--grace", "10s") as worker:
        job: Any  # one is async, the other is not
        for processes, job in enumerate((ignore_the_deadline, block_past_the_deadline), 1):
            # Longer than the deadline; the supervisor, which kills a process with a blocked loop, allows two seconds.
            neighbour = nap_and_check.enqueue(seconds=1.5 if job is ignore_the_deadline else 3.5)
            until(partial(ledger.starts, str(neighbour.id)))
            connection.execute("update jobs set data = '{\"seconds\": 0}'")  # if it runs again
            handle = job.enqueue(seconds=60)
            until(partial(ledger.starts, str(handle.id)))
            began = time.monotonic()
            with pytest.raises(JobFailed, match="deadline"):
                handle.result(30)
            # While the loop is not blocked, the others have time to finish before the process goes.
            assert neighbour.result(30) in ((1,) if job is ignore_the_deadline else (1, 2))
            worker.started(processes + 1)  # the process had to go
            assert time.monotonic() - began < 40
            assert neighbour.job().crashes == 0
            assert len(ledger.starts(str(handle.id))) == 1


@pytest.mark.long
def test_a_deploy_with_a_backlog_is_quick_and_loses_nothing(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    noop.enqueue_many({"n": n} for n in range(BACKLOG))
    with worker_process(url, tmp_path, "--concurrency", "100") as worker:
        until_completed(connection, 500)
        began = time.monotonic()
        worker.terminate()
        assert worker.ended() == 0
        assert time.monotonic() - began < 20
    done = count(connection, "status = 'completed' and attempts = 1")
    assert done < BACKLOG, "the backlog was too small to show anything"
    assert (
        done + count(connection, "status = 'pending' and attempts = 0 and crashes = 0 and worker_id is null") == BACKLOG
    )
    assert connection.execute("select count(*) from workers").fetchone() == (0,)


@pytest.mark.long
def test_a_deploy_lets_jobs_finish_and_interrupts_the_rest_without_using_an_attempt(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    endless = [nap.enqueue(seconds=60), nap_and_check.enqueue(seconds=60), nap_in_child.enqueue(seconds=60)]
    stubborn = nap_on_thread.enqueue(seconds=60)
    probes = ("--health-port", "0", "--health-host", "127.0.0.1")
    with worker_process(url, tmp_path, "--grace", "3s", *probes) as worker:
        port = port_of(worker)
        until(lambda: len(ledger.starts()) == 4)
        late = nap.enqueue(seconds=0)
        late.result(30)
        # Long enough for the signal to arrive before they end.
        short = [nap.enqueue(seconds=1.2), nap_on_thread.enqueue(seconds=1.2)]
        until(lambda: len(ledger.starts()) == 7)
        worker.terminate()
        until(lambda: probe(port, "/ready") == (503, "not ready: the worker is stopping\n"))
        result = run_treadle("ping", "--health-port", port)
        assert (result.exit_code, result.stderr) == (1, "Error: not ready: the worker is stopping\n")
        assert run_treadle("ping", "--health-port", port, "--live").exit_code == 0
        until(lambda: not worker.tree() or count(connection, "status = 'completed'") == 3)
        after = nap.enqueue(seconds=0)
        assert worker.ended(40) == 0
    assert [handle.status() for handle in short] == ["completed", "completed"]
    for handle in (*endless, stubborn, after):
        row = handle.job()
        assert (row.status, row.attempts, row.crashes, row.worker_id) == ("pending", 0, 0, None)


@pytest.mark.long
def test_a_second_signal_does_not_wait(url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger) -> None:
    handles = [nap.enqueue(seconds=60), nap_on_thread.enqueue(seconds=60), nap_in_child.enqueue(seconds=60)]
    with worker_process(url, tmp_path, "--grace", "60s") as worker:
        until(lambda: len(ledger.starts()) == 3)
        worker.terminate()
        time.sleep(0.5)
        assert "worker stopped" not in worker.log.read_text()
        began = time.monotonic()
        while worker.alive():
            # Maybe again: two signals of one kind at the same moment are one, and nothing shows that one was taken.
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.ended(10)
        assert worker.ended() == 0
        assert time.monotonic() - began < 30
    for handle in handles:
        row = handle.job()
        assert (row.status, row.attempts, row.crashes) == ("pending", 0, 0)


def test_the_processes_of_a_killed_supervisor_die_with_it(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    handles = [nap_on_thread.enqueue(seconds=60), nap_in_child.enqueue(seconds=60)]
    with worker_process(url, tmp_path) as worker:
        until(lambda: len(ledger.starts()) == 2)
        _, *others = worker.tree()
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        _, alive = psutil.wait_procs(others, timeout=30)
        # The tracker of multiprocessing is Python's own, and ends when it is done.
        assert [each for each in alive if "resource_tracker" not in " ".join(each.cmdline())] == []
    assert {handle.status() for handle in handles} <= {Status.RUNNING, Status.CLAIMED}


def test_a_draining_worker_ends_when_nothing_is_left(url: str, tmp_path: Path, connection: Connection[Any]) -> None:
    noop.enqueue_many({} for _ in range(300))
    for n in range(5):
        noop.using(key="one").enqueue(n=n)
    later = noop.using(delay="1h").enqueue()
    with worker_process(url, tmp_path, "--drain", "--processes", "2", "--concurrency", "7") as worker:
        assert worker.ended() == 0
    assert count(connection, "status = 'completed'") == 305
    assert later.status() == "pending"
