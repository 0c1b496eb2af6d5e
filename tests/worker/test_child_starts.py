"""Child processes that start slowly, or cannot be started."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.support import slow_children_app
from tests.support.apps import use_database
from tests.support.handlers import app as handlers_app
from tests.support.handlers import nap_in_child
from tests.support.slow_children_app import IMPORT_SECONDS, unhurried
from tests.support.workers import Ledger, auntil, run, until, worker_process
from treadle import JobQueue, Retries, Treadle
from treadle.worker import children
from treadle.worker.job_slots import State
from treadle.worker.worker import Worker

pytestmark = pytest.mark.own_database

MORE = "tests.support.slow_children_app:app"


@pytest.fixture
def later(url: str, monkeypatch: pytest.MonkeyPatch) -> Treadle:
    """The application of that module, as its children find it, on the test's database."""
    use_database(slow_children_app.app, url, monkeypatch)
    return slow_children_app.app


def test_the_time_of_a_job_counts_from_its_handler_not_from_its_process(
    url: str, tmp_path: Path, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its worker nor the supervisor, which allows two seconds more, counts the imports."""
    monkeypatch.setenv(IMPORT_SECONDS, "3")
    job_id = queue.enqueue("hurried", retry=Retries(0))
    with worker_process(url, tmp_path, app=MORE):
        until(lambda: queue.get(job_id).status.finished)
    row = queue.get(job_id)
    assert (row.status, row.result, row.last_error) == ("completed", "in time", None)


def test_a_job_whose_process_starts_is_noted(later: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not begun, so it is neither blamed for its worker nor late."""
    monkeypatch.setenv(IMPORT_SECONDS, "0.5")

    async def body(worker: Worker) -> None:
        handle = await unhurried.aenqueue()
        await auntil(lambda: [(each.id, each.state) for each in worker.slots.all_entries()])
        assert [(each.id, each.state) for each in worker.slots.all_entries()] == [(handle.id, State.STARTING)]
        assert (worker.slots.entries(), worker.slots.blamed()) == ([], [])
        assert await handle.aresult(30) == "done"
        await auntil(lambda: worker.slots.all_entries() == [])

    run(later, body, children=1)


def test_a_process_that_takes_too_long_to_start_is_killed_and_its_job_uses_no_attempt(
    later: Treadle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(children, "START_SECONDS", 0.3)
    monkeypatch.setattr(children, "START_DELAY", 0.1)
    monkeypatch.setenv(IMPORT_SECONDS, "60")

    async def body(worker: Worker) -> None:
        handle = await unhurried.aenqueue()
        await auntil(lambda: caplog.text.count("took more than") == 2)
        known = worker._executor._children
        assert known._times == 4, "the next one gets more time"
        monkeypatch.setattr(children, "START_SECONDS", 60.0)
        monkeypatch.setenv(IMPORT_SECONDS, "0")
        assert await handle.aresult(30) == "done"
        assert known._times == 1
        row = await handle.ajob()
        assert (row.attempts, row.crashes) == (1, 0)
        assert await handle.aerrors() == []

    run(later, body, children=1)


@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_job_without_a_free_process_waits_before_it_is_tried_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is out of processes: trying again at once would make that worse."""
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
        handle = await nap_in_child.aenqueue(seconds=0)
        assert await handle.aresult(30) == 2
        row = await handle.ajob()
        assert (row.run_at - row.created_at).total_seconds() > 0.5
        assert (row.attempts, row.crashes) == (1, 0)
        assert await handle.aerrors() == []

    run(handlers_app, body)
    assert asked == 2


def test_a_child_that_dies_soon_after_a_slow_start_has_crashed(
    url: str, tmp_path: Path, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was past its deadline counts from the start of the handler."""
    monkeypatch.setenv(IMPORT_SECONDS, "1")
    job_id = queue.enqueue("leave", retry=Retries(0))
    with worker_process(url, tmp_path, "--crash-limit", "1", app=MORE):
        until(lambda: queue.get(job_id).status.finished, seconds=90)
    row = queue.get(job_id)
    assert "crashed its process" in (row.last_error or ""), row.last_error
    assert row.crashes == 1
