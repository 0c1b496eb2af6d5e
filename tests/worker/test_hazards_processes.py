"""Odd moments of processes: exits that look clean, helpers that stay, children that talk, a database that is away."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import Connection

from tests.support.workers import Ledger, count, until, working
from treadle import JobQueue, Status, migrate
from treadle.words.clock import now

pytestmark = pytest.mark.own_database

PROGRAM = """
    import asyncio, os, sys, time
    from treadle import Treadle

    app = Treadle()

    @app.job
    async def long() -> None:
        await asyncio.sleep(600)

    async def main() -> None:
        async with app.worker():
            await long.aenqueue()
            if os.fork() == 0:  # a helper that inherits everything, and stays
                time.sleep(600)
                os._exit(0)
            print("working", flush=True)
            await asyncio.sleep(600)

    asyncio.run(main())
"""


def test_the_lease_of_a_killed_program_ends_although_a_helper_of_it_lives(
    url: str, connection: Connection[Any]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == "working\n"
        until(lambda: count(connection, "status = 'running'") == 1)
        helper = [each for each in psutil.Process(program.pid).children() if "keeper" not in " ".join(each.cmdline())]
        try:
            program.kill()
            until(lambda: count(connection, "status = 'pending' and crashes = 1 and attempts = 0") == 1)
        finally:
            for each in helper:
                each.kill()


def test_a_job_in_a_child_of_a_killed_program_is_not_suspected(
    url: str, connection: Connection[Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, pathlib, time
            from treadle import Treadle

            app = Treadle()

            @app.job(process=True)
            def long() -> None:
                pathlib.Path(__file__).with_name("began").touch()
                time.sleep(600)

            @app.job
            async def beside() -> None:
                await asyncio.sleep(600)

            async def main() -> None:
                async with app.worker(lease="5s"):
                    await asyncio.sleep(600)

            if __name__ == "__main__":
                long.enqueue()
                beside.enqueue()
                asyncio.run(main())
            """
        )
    )
    environment = os.environ | {"TREADLE_DATABASE_URL": url}
    with subprocess.Popen([sys.executable, str(program)], env=environment) as running:
        until(lambda: count(connection, "status = 'running'") == 2)
        until((tmp_path / "began").exists)  # in the child itself
        running.kill()
        until(lambda: count(connection, "status = 'pending'") == 2)
    crashes = dict(connection.execute("select job_type, crashes from jobs").fetchall())
    assert crashes == {"long": 0, "beside": 1}


@pytest.mark.parametrize("name", ["leave_politely", "leave_behind"])
def test_an_exit_that_looks_clean_is_a_crash(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    queue: JobQueue,
    name: str,
) -> None:
    pill = queue.enqueue(name, max_attempts=1)
    good = [queue.enqueue("nap", {"seconds": 0.3}, max_attempts=1) for _ in range(3)]
    with working(url, tmp_path) as worker:
        until(lambda: count(connection, "status in ('completed', 'failed')") == 4, worker.log.read_text, 90)
        assert queue.get(pill).status == "failed"
        assert {queue.get(job_id).status for job_id in good} == {"completed"}
        assert worker.process.poll() is None


def test_a_worker_process_that_is_told_to_stop_alone_is_replaced(url: str, tmp_path: Path) -> None:
    with working(url, tmp_path) as worker:
        until(worker.worker_process).terminate()
        worker.started(2)
        worker.terminate()
        assert worker.ended() == 0


def test_a_child_that_talks_all_the_time_is_killed_at_its_deadline(
    url: str,
    tmp_path: Path,
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    job_id = queue.enqueue("chatter", max_attempts=1)
    with working(url, tmp_path):
        until(ledger.starts)
        began = now()
        until(lambda: queue.get(job_id).status == "failed")
        assert now() - began < 15
    assert "still ran at its deadline" in (queue.get(job_id).last_error or "")


def test_a_job_that_waited_for_a_child_has_all_of_its_time(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    """A suspect occupies the only child; what waits for it is neither late nor a crash."""
    suspect = queue.enqueue("nap", {"seconds": 5}, priority=200)
    connection.execute("update jobs set crashes = 1")
    waiting = queue.enqueue("punctual", {"seconds": 2}, max_attempts=1)
    with working(url, tmp_path, "--children", "1"):
        until(lambda: queue.get(waiting).status.finished)
        row = queue.get(waiting)
        assert (row.status, row.crashes, row.last_error) == ("completed", 0, None)
        assert queue.get(suspect).status == "completed"


def test_a_child_that_is_stopped_while_it_tells_its_result_takes_the_next_job(
    url: str,
    tmp_path: Path,
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    with working(url, tmp_path, "--children", "1"):
        job_id = queue.enqueue("slow_to_tell", max_attempts=1)
        until(lambda: any(each["what"] == "tells" for each in ledger.entries()))
        queue.cancel(job_id)
        after = queue.enqueue("apart", {"seconds": 0}, max_attempts=1)
        until(lambda: queue.get(after).status == "completed")


def test_a_worker_ends_while_the_database_is_away(tmp_path: Path, empty_url: str) -> None:
    migrate(empty_url)
    with working(empty_url, tmp_path, "--grace", "1s") as worker:
        with JobQueue(empty_url) as queue:
            queue.enqueue("doze", {"seconds": 60})
            until(lambda: queue.counts()[Status.RUNNING] == 1)
        name = psycopg.conninfo.conninfo_to_dict(empty_url)["dbname"]
        with psycopg.connect(psycopg.conninfo.make_conninfo(empty_url, dbname="postgres"), autocommit=True) as server:
            server.execute(f"alter database {name} allow_connections false".encode())
            server.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            worker.terminate()
            try:
                assert worker.ended(25) == 0
            finally:
                server.execute(f"alter database {name} allow_connections true".encode())


def test_a_program_ends_at_a_signal_although_a_thread_of_its_handler_does_not(url: str) -> None:
    program = """
        import asyncio, time
        from treadle import Treadle
        app = Treadle()

        @app.job
        async def stuck() -> None:
            print("stuck", flush=True)
            await asyncio.to_thread(time.sleep, 600)

        stuck.enqueue()
        app.run_worker(grace=0)
    """
    assert signalled(program, url, times=1) == 0


def test_a_second_signal_ends_the_grace_of_a_program(url: str, queue: JobQueue) -> None:
    """Where no supervisor does it."""
    program = """
        import asyncio
        from treadle import Treadle
        app = Treadle()

        @app.job
        async def nap() -> None:
            print("napping", flush=True)
            await asyncio.sleep(600)

        nap.enqueue()
        app.run_worker(grace=600)
    """
    # Maybe once more: two signals of one kind at the same moment are one, and nothing shows that one was taken.
    assert signalled(program, url, times=3) == 0
    (job,) = queue.list().jobs
    assert (job.status, job.attempts) == (Status.PENDING, 0)


def signalled(program: str, url: str, times: int) -> int | None:
    """Its exit code, after it said that its job runs and was told to stop."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    ) as process:
        assert process.stdout
        assert process.stdout.readline()
        for nth in range(1, times + 1):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60 if nth == times else 2)
        code = process.poll()
        process.kill()
        return code
