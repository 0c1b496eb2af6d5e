"""Child processes when the worker or program they belong to is stopped or killed, and without a supervisor."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support import handlers
from tests.support.handlers import app as handlers_app
from tests.support.handlers import load_slowly_in_child, nap_in_child, replace_in_child, report_forever
from tests.support.workers import ROOT, Ledger, is_alive, run, until, worker_process
from treadle import JobFailed, JobQueue, Retries
from treadle.worker.worker import Worker

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]

MORE = "tests.support.leaving_app:app"


def state(queue: JobQueue, job_id: Any) -> tuple[str, int, int]:
    row = queue.get(job_id)
    return row.status, row.attempts, row.crashes


def test_a_child_that_ends_because_it_was_interrupted_has_not_crashed(
    url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue
) -> None:
    job_id = queue.enqueue("leave_when_stopped", retry=Retries(0))
    with worker_process(url, tmp_path, "--grace", "0s", app=MORE) as worker:
        until(ledger.starts)
        worker.terminate()
        assert worker.ended() == 0
    assert state(queue, job_id) == ("pending", 0, 0)
    assert ledger.entries()[-1]["what"] == "stopped", "it was asked before it was killed"


def test_the_children_of_a_killed_program_end(url: str, ledger: Ledger) -> None:
    program = """
        import asyncio
        from tests.support.handlers import app, nap_in_child

        async def main() -> None:
            async with app.worker():
                await nap_in_child.aenqueue(seconds=600)
                await asyncio.sleep(600)

        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, env=os.environ | {"TREADLE_DATABASE_URL": url}
    ) as process:
        try:
            child = until(ledger.starts)[0]["pid"]
        finally:
            process.kill()
    until(lambda: not is_alive(child))


def test_a_call_in_a_child_has_its_own_timeout() -> None:
    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match=r"was still running at its deadline, after 0\.2 seconds"):
            await (await nap_in_child.using(timeout=(None, 0.2)).aenqueue(seconds=60)).aresult(60)
        with pytest.raises(JobFailed, match=r"timed out after 0\.1 seconds"):
            await (await load_slowly_in_child.using(timeout=0.1).aenqueue(1)).aresult(60)

    run(handlers_app, body, children=1)


def test_a_job_in_a_child_is_replaced() -> None:
    async def body(worker: Worker) -> None:
        handle = await replace_in_child.aenqueue(["a", "b"])
        assert await handle.aresult(30) == ["aa", "bb"]

    run(handlers_app, body, children=1)


@pytest.mark.long
def test_a_child_in_a_program_is_killed_at_its_deadline_or_when_it_does_not_stop(ledger: Ledger) -> None:
    """The worker does it where there is no supervisor."""

    async def body(worker: Worker) -> None:
        await (await nap_in_child.aenqueue(seconds=0)).aresult(30)
        with pytest.raises(JobFailed, match="was still running at its deadline"):
            await (await report_forever.aenqueue()).aresult(30)
        assert not is_alive(ledger.starts()[0]["pid"])
        deaf = await nap_in_child.aenqueue(seconds=60)
        await asyncio.to_thread(until, lambda: ledger.starts(str(deaf.id)))
        await deaf.acancel()
        assert await (await nap_in_child.aenqueue(seconds=0)).aresult(30) == 1

    run(handlers_app, body, children=1, grace=0)


def test_a_handler_that_exits_does_not_harm_the_next_one_in_its_process() -> None:
    async def body(_: Worker) -> None:
        for how in ("exit", "interrupt", "task"):
            leaving = await handlers.exit_in_child.aenqueue(how=how)
            with pytest.raises(JobFailed, match="KeyboardInterrupt" if how == "interrupt" else "SystemExit: 7"):
                await leaving.aresult(60)
            napping = await handlers.nap_on_loop_of_child.aenqueue(seconds=0.2)
            await napping.aresult(60)
            assert (await napping.ajob()).attempts == 1, how

    run(handlers_app, body, types=["exit_in_child", "nap_on_loop_of_child"], children=1)
