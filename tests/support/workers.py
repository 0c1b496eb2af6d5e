"""Workers for tests: in the process of the test, and as real processes, which are started, stopped and killed."""

import asyncio
import fcntl
import inspect
import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from chaos.ledger import read
from chaos.processes import ROOT, WorkerProgram
from chaos.waiting import until
from psycopg import Connection

from treadle import Backoff, Treadle
from treadle.worker import keeper as keeper_module
from treadle.worker.job_slots import JobSlots
from treadle.worker.keeper import Keeper
from treadle.worker.options import settings
from treadle.worker.worker import Worker

__all__ = ["ROOT", "WorkerProgram", "until"]

HANDLERS = "tests.support.handlers:app"
# For tests that wait until a lease runs out. Others take a longer one: on a busy machine a short one may be missed.
QUICK = ("--lease", "3s")

# For jobs that fail and run again.
SOON = Backoff(first="10ms")

# A keeper that is left running, because it is still starting, would cause a warning in another test.
keeper_module.STOP_SECONDS = 60.0

# A job that runs until an event is set; which of them have started; and the event.
WaitingJob = tuple[Any, list[int], asyncio.Event]


@asynccontextmanager
async def running_worker(app: Treadle, **options: Any) -> AsyncIterator[Worker]:
    """A worker whose keeper runs in this process, as it does in a supervisor. Starting a keeper process takes longer
    than most tests do; app.worker() starts one, for the tests that stop it or block the event loop."""
    chosen = settings(app.job_types, os.cpu_count() or 1, **options)
    slots = JobSlots.create(chosen.slots)
    worker = Worker(app.workload, slots=slots, **options)
    await worker.start()
    keeper = Keeper(app.database.url, app.schema, chosen.lease, chosen.crash_limit)
    keeper.add(worker.worker_id, slots)
    renewing = asyncio.create_task(keeper.renew())
    try:
        yield worker
    finally:
        await worker.stop()
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        if not worker.stuck:
            with suppress(TimeoutError):  # the database may be unavailable
                await asyncio.wait_for(keeper.recover(worker.worker_id, "the test is over", keep=False), 10)
            slots.close()
        await keeper.close()


def run(
    app: Treadle,
    body: Callable[[Worker], Coroutine[Any, Any, Any]],
    *,
    keeper_process: bool = False,
    **options: Any,
) -> Any:
    """Run the body beside a worker. Its lease is long: on a busy machine a keeper is late to renew a short one."""

    async def both() -> Any:
        chosen = {"lease": "30s"} | options
        try:
            async with app.worker(**chosen) if keeper_process else running_worker(app, **chosen) as worker:
                return await body(worker)
        finally:
            await app.aclose()

    return asyncio.run(both())


def drain(app: Treadle, **options: Any) -> None:
    """As app.run_worker(drain=True), but with its keeper in this process."""

    async def body(worker: Worker) -> None:
        await worker.drained()

    run(app, body, drain=True, **options)


def result_of(app: Treadle, job: Any, **arguments: Any) -> Any:
    """Enqueue one job, run it, and return its result."""

    async def body(_: Worker) -> Any:
        return await (await job.aenqueue(**arguments)).aresult(30)

    return run(app, body)


@contextmanager
def worker_process(url: str, folder: Path, *options: str, **environment: str) -> Iterator[WorkerProgram]:
    """Start a worker process and wait until it is ready; kill it at the end of the block if it still runs."""
    log = folder / f"worker-{time.monotonic_ns()}.log"
    worker = WorkerProgram(url, log, *options, **({"app": HANDLERS} | environment))
    try:
        worker.started()
        yield worker
    finally:
        worker.signal_all(signal.SIGCONT)
        worker.kill_all()


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def locked_file(folder: Path) -> Iterator[str]:
    """A locked file, for handlers that wait until the end of the block."""
    with (folder / "locked").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.name


async def auntil(condition: Callable[[], Any], seconds: float = 45) -> None:
    """Wait until the condition, which may be async, is true, while the worker goes on."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        assert time.monotonic() < end, f"the condition was not met within {seconds} seconds"
        await asyncio.sleep(0.01)


async def auntil_waiting(worker: Worker) -> None:
    """Wait until the worker has found nothing more to claim, and waits for a notification, a due job or its poll."""
    await auntil(lambda: all(claimer.is_waiting for claimer in worker.claimers))


def one(connection: Connection[Any], query: str, *params: object) -> Any:
    """The first column of the first row."""
    row = connection.execute(query, params).fetchone()
    assert row
    return row[0]


def count(connection: Connection[Any], condition: str = "true") -> int:
    found: int = one(connection, f"select count(*) from jobs where {condition}")
    return found


def until_completed(connection: Connection[Any], number: int) -> None:
    """Wait until this many jobs are completed."""
    until(lambda: count(connection, "status = 'completed'") >= number, lambda: f"{number} jobs completed", 60)


def lose_worker(connection: Connection[Any], worker_id: str = "gone") -> None:
    """Register a worker that has missed its lease."""
    connection.execute("select register_worker(%s, '1 second', '{a}')", [worker_id])
    connection.execute("update workers set seen_at = clock_timestamp() - interval '1 minute'")


class Ledger:
    """What the handlers recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.killed: dict[int, float] = {}

    def entries(self) -> list[dict[str, Any]]:
        return read(self.folder)

    def starts(self, job_id: object = None) -> list[dict[str, Any]]:
        return [each for each in self.entries() if each["what"] == "start" and job_id in (None, each["id"])]

    def check(self, jobs: dict[str, tuple[int, Any]]) -> None:
        """Compare with the database: the lease number and the result of each completed job, by id."""
        runs: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        for entry in self.entries():
            run = runs[entry["id"]].setdefault(entry["lease"], {"pid": entry["pid"]})
            assert entry["what"] not in run, f"run twice under one lease number: {entry}"
            run[entry["what"]] = entry["at"]
        assert runs.keys() == jobs.keys(), "the jobs that ran are not the jobs that exist"
        for job_id, (lease, result) in jobs.items():
            assert result == lease, f"{job_id}: the outcome of lease number {result} was accepted under {lease}"
            assert "end" in runs[job_id][lease], f"{job_id}: completed, but its handler never finished"
            in_order = sorted(runs[job_id].items())
            for (_, first), (_, second) in itertools.pairwise(in_order):
                over = first.get("end") or self.killed.get(first["pid"])
                assert over, f"{job_id}: run again before the first run had finished or was killed: {in_order}"
                assert over <= second["start"], f"{job_id}: two runs at once: {in_order}"


def completed(connection: Connection[Any]) -> dict[str, tuple[int, Any]]:
    rows = connection.execute("select id, lease, result from jobs where status = 'completed'").fetchall()
    return {str(job_id): (lease, result) for job_id, lease, result in rows}
