"""One simulation: a plan is carried out, then everything must drain, then the judge speaks."""

import asyncio
import gc
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import psycopg

from chaos.simulation.app import SCHEDULES, make_app
from chaos.simulation.database import SimulatedDatabase
from chaos.simulation.judge import judge
from chaos.simulation.loop import Process, SimulatedLoop, simulated_time
from chaos.simulation.machines import Machine, break_out
from chaos.simulation.network import Network
from chaos.simulation.plan import MACHINES, Choice, Plan
from chaos.simulation.record import Record
from treadle import Treadle
from treadle.words.errors import TreadleError
from treadle.words.own_log import log
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
    database.empty()
    random.seed(plan.seed)
    loop = SimulatedLoop()
    record = Record(lambda: loop.elapsed)
    network = Network(loop, database, record, plan.seed)
    loop.set_exception_handler(lambda _, context: record.note("error", message=str(context)))
    with ExitStack() as stack:
        stack.enter_context(simulated_time(loop))
        stack.enter_context(network.used())
        stack.enter_context(patch.object(worker, "Watchdog", Unwatched))
        stack.enter_context(patch.object(tasks, "_idle", set()))
        stack.enter_context(_logged(record))
        stack.enter_context(_without_garbage(loop))
        try:
            loop.run_until_complete(_carry_out(plan, database, loop, network, record))
        finally:
            network.close_all()
    return Run(plan, record.trace, judge(plan, record.notes), loop.steps, loop.elapsed)


async def _carry_out(
    plan: Plan, database: SimulatedDatabase, loop: SimulatedLoop, network: Network, record: Record
) -> None:
    app = make_app(database.url, record)
    machines = [Machine(n, app, database.url, plan.poll, loop, network, record) for n in range(MACHINES)]
    producers = Process("producers", "producers", loop)
    await asyncio.sleep(1.5)
    for each in plan.choices:
        if each.what == "enqueue":
            producers.start(_enqueue(each, app, network, database.url, record))
        else:
            loop.outside(each.at, _break_out, machines[each.who], each, network, record)
    await asyncio.sleep(max((each.at for each in plan.choices), default=0.0))
    await asyncio.sleep(5.0)
    record.note("calm")
    end = loop.time() + PATIENCE
    while loop.time() < end and _unfinished(database):
        await asyncio.sleep(1.0)
    for job, job_type, status, data in database.jobs():
        record.note("found", job=job, type=job_type, status=status, n=data.get("n"))


def _unfinished(database: SimulatedDatabase) -> bool:
    """The jobs of schedules never end."""
    waiting = [kind for _, kind, status, _ in database.jobs() if status in ("pending", "claimed", "running")]
    return any(kind != "beat" for kind in waiting) or len(waiting) > len(SCHEDULES)


def _break_out(machine: Machine, choice: Choice, network: Network, record: Record) -> None:
    record.note("fault", kind=choice.what, machine=choice.who, **choice.how)
    break_out(machine, choice.what, network, **choice.how)


async def _enqueue(choice: Choice, app: Treadle, network: Network, url: str, record: Record) -> None:
    await asyncio.sleep(choice.at)
    how = choice.how
    connection: Any = await network.connect(url, "producer")
    n, delay = how["work"]["n"], how["options"].get("delay", 0.0)
    function: Any = app.function(how["type"])
    job = function.using(connection=connection, **how["options"])
    facts = {"n": n, "type": how["type"], "key": how["options"].get("key"), "delay": delay}
    try:
        if "commits" not in how:
            connection.committed = lambda: record.note("enqueued", **facts, stored=network.now)
            await job.aenqueue(**how["work"])
        else:
            await connection.execute("begin")
            await connection.execute(f"select set_config('simulation.began', '{round(network.now * 1e6)}', true)")
            await job.aenqueue(**how["work"])
            stored = network.now
            await asyncio.sleep(how["commits"])
            connection.committed = lambda: record.note("enqueued", **facts, stored=stored)
            connection.rolls_back = how["rolls_back"]
            await connection.execute("rollback" if how["rolls_back"] else "commit")
    except (psycopg.Error, TreadleError) as error:
        record.note("refused", n=n, error=type(error).__name__)
    await connection.close()


@contextmanager
def _logged(record: Record) -> Iterator[None]:
    """What Treadle logs as an error is a problem."""

    class Handler(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            message = entry.getMessage()
            if not message.startswith(EXPECTED):
                error = entry.exc_info[1] if entry.exc_info else None
                record.note("error", message=f"{message} {error!r}")

    handler, level, propagate = Handler(logging.ERROR), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


@contextmanager
def _without_garbage(loop: SimulatedLoop) -> Iterator[None]:
    """The tasks of processes that were killed must not be collected while others run: Python would run their `finally`."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        loop.set_exception_handler(lambda *_: None)
        loop.close()
        log.handlers.clear()
        with patch.object(sys, "unraisablehook", lambda _: None):
            gc.collect()
        gc.enable()
