"""Worker processes and children whose start is slow, or goes wrong beside others that work."""

import asyncio
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Connect
from tests.support import handlers
from tests.support.workers import Ledger, one, until, working
from treadle import JobQueue, Treadle
from treadle.worker import supervisor
from treadle.worker.options import WorkerOptions

pytestmark = pytest.mark.own_database

STARTS = "TREADLE_TEST_SLOW_STARTS"

more = Treadle()


@more.job(max_attempts=1, process=True, deadline=1)
def leave() -> None:
    os._exit(17)


@more.job
async def light() -> None: ...


if multiprocessing.current_process().name == "treadle-child":
    time.sleep(2)
elif STARTS in os.environ and "TREADLE_SUPERVISOR" in os.environ:
    try:
        Path(os.environ[STARTS], "second").rename(Path(os.environ[STARTS], "first"))
    except FileNotFoundError:
        while not Path(os.environ[STARTS], "go").exists():
            time.sleep(0.02)
        if not Path(os.environ[STARTS], "healed").exists():
            raise ImportError("a mistake of one") from None

FINDINGS = "tests.worker.test_starts:more"


def test_a_mistake_of_one_process_does_not_stop_one_that_works(
    url: str, tmp_path: Path, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Supervisor._worked is set when a process that worked has ended, not when one works."""
    (tmp_path / "second").touch()
    monkeypatch.setenv(STARTS, str(tmp_path))
    with working(url, tmp_path, "--processes", "2", app=FINDINGS) as worker:
        (tmp_path / "go").touch()
        until(lambda: "a mistake of one" in worker.log.read_text())
        until(lambda: "it is started again" in worker.log.read_text(), worker.log.read_text)
        (tmp_path / "healed").touch()
        worker.started(2)
        assert worker.process.poll() is None


def test_a_child_that_dies_soon_after_a_slow_start_has_crashed(url: str, tmp_path: Path, queue: JobQueue) -> None:
    """Children._outcome_of_death counts from when the child was taken, not from when the handler began."""
    job_id = queue.enqueue("leave", max_attempts=1)
    with working(url, tmp_path, app=FINDINGS):
        until(lambda: queue.get(job_id).status.finished, seconds=90)
    row = queue.get(job_id)
    assert "took its process down" in (row.last_error or ""), row.last_error
    assert row.crashes == 3


@pytest.mark.usefixtures("here")
def test_starts_that_fail_leave_no_files_open(url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no process to be had, twenty times."""
    open_files: list[int] = []

    async def refuse(*args: Any, **kwargs: Any) -> Any:
        open_files.append(psutil.Process().num_fds())
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)

    async def no_pause(failures: int) -> None:
        await asyncio.sleep(0)

    async def body() -> None:
        looks_after = supervisor.Supervisor("tests.support.handlers:app", 1, WorkerOptions(grace=0), "info", "text")
        monkeypatch.setattr(looks_after, "_pause", no_pause)
        running = asyncio.create_task(looks_after.run())
        while len(open_files) < 20:
            await asyncio.sleep(0)
        looks_after._stop()
        await asyncio.wait_for(running, 60)

    asyncio.run(body())
    assert open_files[-1] - open_files[0] <= 3, open_files


@pytest.mark.usefixtures("here")
def test_what_a_killed_worker_s_last_statement_holds_is_given_back_soon_after(
    url: str, tmp_path: Path, ledger: Ledger, connect: Connect
) -> None:
    """By its supervisor: nobody has to wait for the lease to run out, an hour here."""
    handle = handlers.nap.enqueue(seconds=600)
    with working(url, tmp_path, "--lease", "1h") as worker:
        until(lambda: handle.status() == "running")
        statement, looking = connect(autocommit=False), connect()
        statement.execute("select from jobs for no key update")
        until(worker.worker_process).kill()
        # At once: its supervisor looks again for a second, no longer.
        until(lambda: one(looking, "select lost_at is not null from workers"))
        statement.rollback()
        until(lambda: handle.job().crashes == 1)
        assert "was killed by SIGKILL" in (handle.job().last_error or "")
