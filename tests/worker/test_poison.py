"""Jobs that end their worker process after their handler has returned."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.handlers import (
    cancel_all_tasks,
    exit_late,
    nap,
    nap_on_thread,
    stop_the_event_loop,
    stop_the_event_loop_in_silence,
)
from tests.support.workers import Ledger, auntil, run, until, worker_process
from treadle import Handle, Job, Retries, Treadle
from treadle.worker.exit_codes import End
from treadle.worker.worker import Worker


def test_a_job_is_responsible_until_its_outcome_is_stored(app: Treadle, connect: Connect) -> None:
    go = asyncio.Event()
    other = connect(autocommit=False)

    @app.job
    async def returns() -> None:
        await go.wait()

    @app.job(retry=Retries(0))
    async def fails() -> None:
        await go.wait()
        raise ValueError("on purpose")

    @app.job
    def completes_itself(job: Job) -> None:
        with job.transaction():
            job.complete()

    async def body(worker: Worker) -> None:
        handles = [await each.aenqueue() for each in (returns, fails)]
        ids = {each.id for each in handles}
        await auntil(lambda: set(worker.slots.blamed()) == ids)
        other.execute("select from jobs for update")  # so that their outcomes cannot be stored
        go.set()
        await auntil(lambda: worker.completer.unwritten() == ids)
        assert worker.slots.entries() == []
        assert set(worker.slots.blamed()) == ids
        other.rollback()
        await (await completes_itself.aenqueue()).aresult(30)
        await auntil(lambda: worker.slots.blamed() == [])
        assert not worker.completer.unwritten()

    run(app, body)


@pytest.mark.own_database
@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_job_that_ends_its_process_after_it_has_returned_is_blamed_and_its_neighbours_complete(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    # The exit code of a worker that ends by itself: anybody can choose it.
    ways: list[tuple[Any, dict[str, Any], str]] = [
        (cancel_all_tasks, {}, "CancelledError"),
        (stop_the_event_loop, {}, "RuntimeError: Event loop stopped before Future completed."),
        (exit_late, {"code": End.DRAINED.value}, "crashed its process 3 times"),
    ]
    with worker_process(url, tmp_path) as worker:
        for poison, arguments, error in ways:
            with connection.transaction():
                pill = poison.using(connection=connection).enqueue(**arguments)
                good = [nap.using(connection=connection).enqueue(seconds=0.01) for _ in range(4)]
            for each in good:
                each.result(60)
            until(partial(has_failed, pill), worker.log.read_text)
            job = pill.job()
            assert error in (job.last_error or "")
            # In a child process, the other two harm only themselves.
            assert (job.crashes, len(ledger.starts(str(pill.id)))) == ((3, 3) if poison is exit_late else (1, 2))
        assert worker.alive()


@pytest.mark.own_database
@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_process_that_cannot_print_why_it_ends_does_not_wait_for_its_threads(
    url: str, tmp_path: Path, ledger: Ledger, connection: Connection[Any]
) -> None:
    endless = nap_on_thread.using(connection=connection).enqueue(seconds=600)
    with worker_process(url, tmp_path) as worker:
        until(lambda: ledger.starts(str(endless.id)))
        poison = stop_the_event_loop_in_silence.using(connection=connection).enqueue()
        until(partial(has_failed, poison), worker.log.read_text)


def has_failed(handle: Handle[Any]) -> bool:
    return handle.status() == "failed"
