"""Worker processes that do not start, or die while they start, beside others that work."""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.handlers import nap
from tests.support.starting_app import STARTS
from tests.support.workers import Ledger, WorkerProgram, until, worker_process
from treadle import JobQueue
from treadle.worker import supervisor
from treadle.worker.options import WorkerOptions

pytestmark = pytest.mark.own_database

MORE = "tests.support.starting_app:app"


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "starts"
    folder.mkdir()
    monkeypatch.setenv(STARTS, str(folder))
    return folder


@pytest.mark.long
def test_a_process_that_dies_at_its_start_is_restarted_beside_the_other(
    url: str, tmp_path: Path, queue: JobQueue, starts: Path
) -> None:
    (starts / "crash").touch()
    with worker_process(url, tmp_path, "--processes", "2", app=MORE) as worker:
        worker.started(2)
        assert "a worker process exited with code 3; it is restarted" in worker.log.read_text()
        job_id = queue.enqueue("light")
        until(lambda: queue.get(job_id).status == "completed")
        worker.terminate()
        assert worker.ended() == 0


@pytest.mark.long
def test_a_broken_module_does_not_stop_processes_that_work(
    url: str, tmp_path: Path, queue: JobQueue, starts: Path
) -> None:
    """A deploy has broken the module, and one process has to be restarted."""
    with worker_process(url, tmp_path, "--processes", "2", app=MORE) as worker:
        worker.started(2)
        (starts / "broken").touch()
        until(worker.worker_process).kill()
        until(lambda: "broken for a while" in worker.log.read_text())
        until(lambda: worker.log.read_text().count("it is restarted") >= 2)
        job_id = queue.enqueue("light")
        until(lambda: queue.get(job_id).status == "completed")
        (starts / "broken").unlink()
        worker.started(3)
        worker.terminate()
        assert worker.ended() == 0


@pytest.mark.long
def test_a_process_that_cannot_import_does_not_stop_one_that_works(url: str, tmp_path: Path, starts: Path) -> None:
    """A process counts as working from its start, not only from its end."""
    for name in ("first", "second"):
        (starts / name).touch()
    with worker_process(url, tmp_path, "--processes", "2", app=MORE) as worker:
        (starts / "go").touch()
        until(lambda: "a mistake of one" in worker.log.read_text())
        until(lambda: "it is restarted" in worker.log.read_text(), worker.log.read_text)
        (starts / "healed").touch()
        worker.started(2)
        assert worker.process.poll() is None


def test_a_broken_module_stops_all_before_any_has_worked(url: str, tmp_path: Path, starts: Path) -> None:
    """Also the one whose imports would take another minute."""
    for name in ("mistake", "wait"):
        (starts / name).touch()
    worker = WorkerProgram(url, tmp_path / "worker.log", "--processes", "2", app=MORE)
    try:
        assert worker.ended(50) == 1
        assert "a mistake" in worker.log.read_text()
    finally:
        worker.kill_all()


@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_worker_process_that_cannot_be_started_is_tried_again(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    real, refused = asyncio.create_subprocess_exec, 0

    async def sometimes(*args: Any, **kwargs: Any) -> Any:
        nonlocal refused
        refused += 1
        if refused <= 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return await real(*args, **kwargs)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", sometimes)
    handle = nap.enqueue(seconds=0)

    async def body() -> int:
        looks_after = supervisor.Supervisor("tests.support.handlers:app", 1, WorkerOptions(grace=0), "info", "text")
        running = asyncio.create_task(looks_after.run())
        assert await asyncio.to_thread(handle.result, 60) == 1
        looks_after.stop()
        return await asyncio.wait_for(running, 60)

    assert asyncio.run(body()) == 0
    assert refused == 3


@pytest.mark.usefixtures("handlers_use_test_database")
def test_starts_that_fail_leave_no_files_open(url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty processes in a row cannot be started."""
    open_files: list[int] = []

    async def refuse(*args: Any, **kwargs: Any) -> Any:
        open_files.append(psutil.Process().num_fds())
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)

    monkeypatch.setattr(supervisor, "restart_delay", lambda failures: 0.001)

    async def body() -> None:
        looks_after = supervisor.Supervisor("tests.support.handlers:app", 1, WorkerOptions(grace=0), "info", "text")
        running = asyncio.create_task(looks_after.run())
        while len(open_files) < 20:
            await asyncio.sleep(0)
        looks_after.stop()
        await asyncio.wait_for(running, 60)

    asyncio.run(body())
    assert open_files[-1] - open_files[0] <= 3, open_files
