"""Guards of children that are slow to start and of processes that do not start: each of these goes red
when its guard is removed."""

import asyncio
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.handlers import apart, nap
from tests.support.handlers import app as handlers
from tests.support.workers import Ledger, WorkerProcess, auntil, run, until, working
from treadle import Job, JobFailed, JobQueue, Treadle
from treadle.words import events
from treadle.worker import Worker, children, supervisor
from treadle.worker import running_jobs as workbench
from treadle.worker.options import WorkerOptions

pytestmark = pytest.mark.own_database

LATER = "tests.worker.test_guards_starts:more"
IMPORT_SECONDS = "TREADLE_TEST_IMPORT_SECONDS"
# A folder in which worker processes of this module find out how their start is to go.
STARTS = "TREADLE_TEST_STARTS"

more = Treadle()


def _start() -> None:
    """What happens while this module is imported, in a child or in a worker process that is told so."""
    if multiprocessing.current_process().name == "treadle-child":
        time.sleep(float(os.environ.get(IMPORT_SECONDS, "0")))
    elif STARTS in os.environ and "TREADLE_SUPERVISOR" in os.environ:
        starts = Path(os.environ[STARTS])
        if (starts / "broken").exists():
            raise ImportError("broken for a while")
        for name in ("crash", "mistake", "wait"):
            try:
                (starts / name).rename(starts / f"{name} taken")
            except FileNotFoundError:
                continue
            if name == "crash":
                os._exit(3)
            if name == "mistake":
                raise ImportError("a mistake")
            time.sleep(60)


@more.job(max_attempts=1, process=True, timeout=0.5, deadline=1)
def hurried() -> str:
    return "in time"


@more.job(max_attempts=1, process=True)
def unhurried() -> str:
    return "done"


@more.job
async def light() -> int:
    return os.getpid()


_start()


@pytest.fixture
def later(url: str, monkeypatch: pytest.MonkeyPatch) -> Treadle:
    """The application of this module, as its children find it, on the test's database."""
    from treadle.db.database import Database
    from treadle.watching.watch import Watch

    database = Database(url, "treadle")
    monkeypatch.setattr(more, "database", database)
    monkeypatch.setattr(more, "queue", JobQueue(database))
    monkeypatch.setattr(more, "watch", Watch(database))
    return more


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "starts"
    folder.mkdir()
    monkeypatch.setenv(STARTS, str(folder))
    return folder


# Children that are slow to start


def test_the_time_of_a_job_begins_with_its_handler_not_with_its_process(
    url: str, tmp_path: Path, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its worker nor the supervisor, which allows two seconds more, counts the imports."""
    monkeypatch.setenv(IMPORT_SECONDS, "4")
    job_id = queue.enqueue("hurried", max_attempts=1)
    with working(url, tmp_path, app=LATER):
        until(lambda: queue.get(job_id).status.finished)
    row = queue.get(job_id)
    assert (row.status, row.result, row.last_error) == ("completed", "in time", None)


def test_a_process_that_takes_too_long_to_start_is_given_up_and_killed(
    later: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "START_SECONDS", 0.3)
    monkeypatch.setenv(IMPORT_SECONDS, "60")

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match=r"its process took more than 0\.3 seconds to start"):
            await (await unhurried.aenqueue()).aresult(30)
        monkeypatch.setattr(children, "START_SECONDS", 60.0)
        monkeypatch.setenv(IMPORT_SECONDS, "0")
        assert await (await unhurried.aenqueue()).aresult(30) == "done"

    run(later, body, children=1)


@pytest.mark.usefixtures("here")
def test_a_job_for_which_there_is_no_process_waits_a_moment(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is out of processes: asking again at once, and again, would make that worse."""
    process = multiprocessing.get_context("spawn").Process
    real, asked = process.start, 0

    def sometimes(process: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        real(process)

    monkeypatch.setattr(process, "start", sometimes)

    async def body(worker: Worker) -> None:
        handle = await apart.aenqueue(seconds=0)
        assert await handle.aresult(30) == 2
        row = await handle.ajob()
        assert (row.run_at - row.created_at).total_seconds() > 0.5
        assert (row.attempts, row.crashes) == (1, 0)
        assert await handle.aerrors() == []

    run(handlers, body)
    assert asked == 2


# Deadlines without a timeout


def test_who_stops_when_asked_at_the_deadline_is_not_given_up(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at once nor later, when its place may be another's."""
    monkeypatch.setattr(workbench, "ASKED_SECONDS", 3.0)
    lost: list[events.Event] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(deadline=0.2, max_attempts=1)
    async def sleepy() -> None:
        await asyncio.sleep(60)

    @app.job(deadline=0.2, max_attempts=1)
    def tidy(job: Job) -> str:
        while not job.cancelled:
            time.sleep(0.01)
        time.sleep(0.1)
        return "tidy"

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match=r"timed out after 0\.2 seconds"):
            await (await sleepy.aenqueue()).aresult(30)
        assert await (await tidy.aenqueue()).aresult(30) == "tidy"
        await asyncio.sleep(workbench.ASKED_SECONDS + 0.2)
        assert not worker.running.overdue.is_set()
        await worker.completer.flushed()

    run(app, body)
    assert lost == []


def test_a_thread_that_was_given_up_is_not_waited_for(app: Treadle) -> None:
    """A worker that stops lets the others finish, and then has no more patience."""
    over, began, done = threading.Event(), threading.Event(), threading.Event()

    @app.job(deadline=0.1, timeout=0.05, max_attempts=1)
    def deaf() -> None:
        over.wait(60)

    @app.job
    async def neighbour() -> None:
        began.set()
        await asyncio.sleep(0.5)
        done.set()

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match="still ran at its deadline"):
            await (await deaf.aenqueue()).aresult(30)
        await neighbour.aenqueue()
        await auntil(began.is_set)
        asked = time.monotonic()
        await worker.running.empty(10)
        patience = time.monotonic() - asked
        over.set()
        await auntil(lambda: len(worker.running) == 0)
        assert done.is_set()
        assert patience < 5

    run(app, body)


# Worker processes that do not start


def test_a_process_that_dies_at_its_start_is_started_again_beside_the_other(
    url: str, tmp_path: Path, queue: JobQueue, starts: Path
) -> None:
    (starts / "crash").touch()
    with working(url, tmp_path, "--processes", "2", app=LATER) as worker:
        worker.started(2)
        assert "a worker process ended with exit code 3; it is restarted" in worker.log.read_text()
        job_id = queue.enqueue("light")
        until(lambda: queue.get(job_id).status == "completed")
        worker.terminate()
        assert worker.ended() == 0


def test_a_mistake_comes_too_late_to_stop_those_that_work(
    url: str, tmp_path: Path, queue: JobQueue, starts: Path
) -> None:
    """A deploy has broken the module, and one process had to be started again."""
    with working(url, tmp_path, "--processes", "2", app=LATER) as worker:
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


def test_a_mistake_before_any_has_worked_stops_all(url: str, tmp_path: Path, starts: Path) -> None:
    """Also the one that would still be at its imports for a minute."""
    for name in ("mistake", "wait"):
        (starts / name).touch()
    worker = WorkerProcess(url, tmp_path / "worker.log", "--processes", "2", app=LATER)
    try:
        assert worker.ended(50) == 1
        assert "a mistake" in worker.log.read_text()
    finally:
        worker.kill_all()


@pytest.mark.usefixtures("here")
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
