"""Workers whose event loop does not run: stopped, or blocked by a handler."""

import time
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support.handlers import backtrack, block_the_interpreter, block_the_loop
from tests.support.workers import Ledger, locked_file, until, worker_process

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]


def test_it(url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger) -> None:
    def row() -> Any:
        return connection.execute(
            "select stuck_kind, stuck_job, stuck_job_type, stuck_stack, clock_timestamp() - stuck_since from workers"
        ).fetchone()

    with worker_process(url, tmp_path, "--concurrency", "3") as one:
        process = until(one.worker_process)
        time.sleep(1)
        process.suspend()
        began = time.monotonic()
        until(lambda: row()[0])
        print(time.monotonic() - began, row())
        process.resume()
        began = time.monotonic()
        until(lambda: not row()[0])
        print(time.monotonic() - began, row())
        for job in (block_the_loop, block_the_interpreter):
            with locked_file(tmp_path) as lock:
                handle = job.enqueue(lock=lock)
                until(lambda: ledger.starts(str(handle.id)))
                began = time.monotonic()
                until(lambda: row()[0])
                print(time.monotonic() - began, row()[:3])
                print(row()[3])
            began = time.monotonic()
            until(lambda: not row()[0])
            print(time.monotonic() - began, row())
            assert handle.result(5)
        handle = backtrack.enqueue()
        until(lambda: ledger.starts(str(handle.id)))
        began = time.monotonic()
        until(lambda: row()[0])
        print(time.monotonic() - began, row()[:3])
        print(row()[3])
        print(one.log.read_text())
        assert 0
