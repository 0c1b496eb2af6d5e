"""One simulation: a plan is carried out, then everything must drain, then the judge speaks."""

import asyncio
import gc
import io
import logging
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import psycopg

from chaos.simulation.app import SCHEDULES, make_app
from chaos.simulation.database import SimulatedDatabase
from chaos.simulation.judge import judge
from chaos.simulation.loop import Process, SimulatedLoop, running_in, simulated_time
from chaos.simulation.machines import Machine
from chaos.simulation.network import Network
from chaos.simulation.plan import MACHINES, Choice, Plan
from chaos.simulation.record import Record
from treadle import JobQueue, Treadle, ok_to_fail
from treadle.text.log import log
from treadle.words.errors import TreadleError
from treadle.worker import tasks, worker

# How long after the last choice everything must have drained.
PATIENCE = 150.0
# What a worker may log under faults.
EXPECTED = ("job failed", "database unavailable", "lease not renewed")


@dataclass(frozen=True)
class Run:
    plan: Plan
    trace: list[str]
    problems: list[str]
    steps: int
    seconds: float
    """Of simulated time."""


class Unwatched:
    """Instead of the watchdog of a worker, a thread that notices when its event loop does not run."""

    def __init__(self, *_: Any) -> None: ...
    async def beat(self) -> None: ...
    def stop(self) -> None: ...


def simulate(database: SimulatedDatabase, plan: Plan) -> Run:
    """Carry out the plan. Tasks of processes that were killed must not be collected as garbage before the end: Python
    would run their `finally`."""
    gc.collect()
    gc.disable()
    try:
        return _simulate(database, plan)
    finally:
        with patch.object(sys, "unraisablehook", lambda _: None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.disable()
            gc.collect()
            logging.disable(logging.NOTSET)
        gc.enable()


def _simulate(database: SimulatedDatabase, plan: Plan) -> Run:
    database.empty()
    random.seed(plan.seed)
    loop = SimulatedLoop()
    record = Record(lambda: loop.elapsed)
    network = Network(loop, database, record, plan.seed)
    loop.set_exception_handler(lambda _, context: record.note("error", message=str(context)))
    with ExitStack() as stack:
        stack.callback(loop.close)
        stack.enter_context(simulated_time(loop))
        stack.enter_context(network.used())
        stack.enter_context(patch.object(worker, "Watchdog", Unwatched))
        stack.enter_context(patch.object(tasks, "_idle", set()))
        stack.enter_context(patch.object(sys, "__stderr__", io.StringIO()))  # for lines that could not be logged
        stack.enter_context(_logged(record))
        stack.callback(network.close_all)
        loop.run_until_complete(_carry_out(plan, database, loop, network, record))
        loop.set_exception_handler(lambda *_: None)
    return Run(plan, list(record.trace), judge(plan, record.notes), loop.steps, loop.elapsed)


async def _carry_out(
    plan: Plan, database: SimulatedDatabase, loop: SimulatedLoop, network: Network, record: Record
) -> None:
    app = make_app(database.url, record)
    machines = [Machine(n, app, database.url, plan.poll, loop, network, record) for n in range(MACHINES)]
    clients = Process("clients", "clients", loop)
    await asyncio.sleep(1.5)
    for each in plan.choices:
        if each.what in CLIENTS:
            clients.start(_client(each, app, network, record))
        else:
            loop.outside(each.at, _break_out, machines[each.machine], each, record)
    await asyncio.sleep(max((each.at for each in plan.choices), default=0.0))
    await asyncio.sleep(5.0)
    record.note("calm")
    end = loop.time() + PATIENCE
    while loop.time() < end and _unfinished(database):  # noqa: ASYNC110 - the table tells nobody
        await asyncio.sleep(1.0)
    for job, job_type, status, data in database.jobs():
        record.note("found", job=job, type=job_type, status=status, n=data.get("n"))


def _unfinished(database: SimulatedDatabase) -> bool:
    """The jobs of schedules never end."""
    waiting = [kind for _, kind, status, _ in database.jobs() if status in ("pending", "claimed", "running")]
    return any(kind != "beat" for kind in waiting) or len(waiting) > len(SCHEDULES)


async def _client(choice: Choice, app: Treadle, network: Network, record: Record) -> None:
    await asyncio.sleep(choice.at)
    connection: Any = await network.connect("", choice.what)
    connection.checked = True  # its first statement is the one that counts
    try:
        await CLIENTS[choice.what](choice.how, app, connection, record)
    except (psycopg.Error, TreadleError) as error:
        record.note("refused", kind=choice.what, error=type(error).__name__)
    await connection.close()


def _break_out(machine: Machine, choice: Choice, record: Record) -> None:
    record.note("fault", kind=choice.what, machine=choice.machine, **choice.how)
    getattr(machine, choice.what.replace(" ", "_"))(**choice.how)


async def _enqueue(how: dict[str, Any], app: Treadle, connection: Any, record: Record) -> None:
    n, delay = how["work"]["n"], how["options"].get("delay", 0.0)
    # Jobs that are not there, because their enqueue was rolled back, say, are not waited for.
    after = [(other, way) for other, way in how["options"].get("after", ()) if other in record.ids]
    options = how["options"] | {"after": [each for other, way in after for each in WAYS[way](record.ids[other])]}
    job = app.function(how["type"]).using(connection=connection, **options)
    facts = {"n": n, "type": how["type"], "key": options.get("key"), "delay": delay, "after": after}
    if "commits" not in how:
        connection.committed = lambda: record.note("enqueued", **facts, stored=connection.executed_at)
        record.ids[n] = (await job.aenqueue(**how["work"])).id
        return
    await _begin(connection)
    handle = await job.aenqueue(**how["work"])
    stored = connection.executed_at
    await asyncio.sleep(how["commits"])
    if how["flushes"]:
        # A commit that takes long, on a slow disk: what is done at commit has been done, and nobody sees it yet.
        await connection.execute("set constraints all immediate")
        await asyncio.sleep(how["flushes"])
    connection.committed = lambda: record.note("enqueued", **facts, stored=stored)
    await _end(connection, commits=not how["rolls_back"])
    if not how["rolls_back"]:
        record.ids[n] = handle.id


async def _claim_by_hand(how: dict[str, Any], app: Treadle, connection: Any, record: Record) -> None:
    """A client that claims in a transaction of its own, which may see only what was there before."""
    queue = JobQueue(connection, "by hand", schema=app.schema)
    await _begin(connection, how["isolation"])
    await connection.execute("select count(*) from treadle.jobs")  # from now on, it has a snapshot
    await asyncio.sleep(how["waits"])
    jobs = await queue.aclaim([how["type"]], 2)
    runs = [{"n": each.data["n"], "fence": each.lease, "process": connection.name} for each in jobs]
    for run, job in zip(runs, jobs, strict=True):
        tenant = job.data.get("tenant", "")
        record.note("start", **run, type=job.job_type, tenant=tenant, key=job.key, attempt=job.attempts)
    await asyncio.sleep(how["seconds"])
    for run, job in zip(runs, jobs, strict=True):
        record.note("end", **run, how="rolled back" if how["rolls_back"] else "returned")
        await queue.acomplete(job)
    await _end(connection, commits=not how["rolls_back"])


async def _claim_by_update(how: dict[str, Any], app: Treadle, connection: Any, record: Record) -> None:
    """A client in plain SQL claims a job, rather one that waits for others, and fails it soon."""
    reply = await connection.execute(CLAIM_BY_UPDATE)
    found = await reply.fetchone()
    if found is None:
        return
    job, n = found
    await asyncio.sleep(how["seconds"])
    connection.committed = lambda: record.note("refused by hand", n=n)
    await connection.execute(FAIL_BY_UPDATE if how["plain"] else FAIL, {"job": job})


async def _limit(how: dict[str, Any], app: Treadle, connection: Any, record: Record) -> None:
    """An operator sets a limit while jobs run."""
    connection.committed = lambda: record.note("limited", **how)
    await connection.execute(
        "select treadle.set_limit(%(name)s, %(amount)s, p_job_type => %(type)s)", {"name": f"late {how['type']}", **how}
    )


async def _begin(connection: Any, isolation: str = "read committed") -> None:
    await connection.execute(f"begin isolation level {isolation}")
    await connection.execute(f"set local simulation.began = '{round(connection.executed_at * 1e6)}'")


async def _end(connection: Any, commits: bool) -> None:
    connection.rolls_back = not commits
    await connection.execute("commit" if commits else "rollback")


CLIENTS = {
    "enqueue": _enqueue,
    "claim by hand": _claim_by_hand,
    "claim by update": _claim_by_update,
    "limit": _limit,
}
WAYS: dict[str, Any] = {
    "completed": lambda job: [job],
    "ended": lambda job: [ok_to_fail(job)],
    "both": lambda job: [job, ok_to_fail(job)],
}
CLAIM_BY_UPDATE = """
    update treadle.jobs set
        status = 'claimed', worker_id = 'by update', claimed_at = treadle.test_clock(), attempts = attempts + 1
    where id = (
        select id from treadle.jobs
        where status = 'pending' and attempts < max_attempts and job_type = 'plain' and run_at <= treadle.test_clock()
        order by holds = 0, id
        limit 1
        for update skip locked
    )
    returning id, data -> 'n'"""
FAIL_BY_UPDATE = """
    update treadle.jobs set
        status = case when attempts >= max_attempts then 'failed' else 'pending' end,
        last_error = 'by update', worker_id = null, claimed_at = null
    where id = %(job)s"""
FAIL = "select treadle.fail_job(%(job)s, 'by update', p_delay => '0')"


@contextmanager
def _logged(record: Record) -> Iterator[None]:
    """What Treadle logs as an error is a problem."""

    class Handler(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            message = entry.getMessage()
            if not message.startswith(EXPECTED):
                error = entry.exc_info[1] if entry.exc_info else None
                record.note("error", message=f"{message} {error!r}")

    def needs_request(_: logging.LogRecord) -> bool:
        process = running_in.get()
        if process is not None and process.logging_raises:
            raise LookupError("outside of a request")
        return True

    handler, level, propagate = Handler(logging.ERROR), log.level, log.propagate
    log.addHandler(handler)
    log.addFilter(needs_request)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.removeFilter(needs_request)
        log.setLevel(level)
        log.propagate = propagate
