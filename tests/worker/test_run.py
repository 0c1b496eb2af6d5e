"""A worker as a program of its own: how it ends at a signal."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.workers import WorkerProgram, until
from treadle import JobQueue, Status

pytestmark = pytest.mark.own_database


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


def test_what_follows_in_the_program_is_run_when_the_worker_has_ended(url: str) -> None:
    """Also if its handlers have used threads, which end at about the same time."""
    program = """
        import asyncio, os, signal, time
        from treadle import Treadle
        app = Treadle()

        @app.job
        async def threads() -> None:
            await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(30)))
            os.kill(os.getpid(), signal.SIGTERM)

        threads.enqueue()
        app.run_worker()
        print("the end", flush=True)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "the end\n")


def test_a_second_signal_ends_the_grace_of_a_program(url: str, queue: JobQueue) -> None:
    """The program does it where there is no supervisor."""
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
    """Start the program, signal it when its job runs, and return its exit code."""
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


@pytest.mark.own_database
def test_a_worker_that_is_started_before_the_database_waits_for_it(url: str, server_url: str, tmp_path: Path) -> None:
    name = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f'alter database "{name}" with allow_connections false')
        worker = WorkerProgram(url, tmp_path / "worker.log", app="tests.support.handlers:app")
        try:
            until(lambda: "database unavailable, retrying" in worker.log.read_text())
            time.sleep(0.5)  # it tries several times
            server.execute(f'alter database "{name}" with allow_connections true')
            worker.started()
            said = worker.log.read_text()
            assert said.count("database unavailable, retrying") == 1
            assert said.count("database is back") == 1
            worker.terminate()
            assert worker.ended() == 0
        finally:
            worker.kill_all()
