"""treadle bench: how fast the queue is on a database, measured in a temporary schema."""

import asyncio
import json
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from types import FrameType
from typing import Any, NoReturn
from uuid import uuid4

import click

from treadle.app.treadle import Treadle
from treadle.cli.options import database_url
from treadle.cli.output import Column, heading, screen, show_table, write
from treadle.db.database import DatabaseError
from treadle.db.migrations import migrate
from treadle.db.query import in_schema
from treadle.db.setup_connection import connect
from treadle.db.url import described, resolve
from treadle.queue import JobQueue
from treadle.words.connections import Connections
from treadle.words.errors import NotAllowed, SchemaError, TooSlow
from treadle.words.status import Status

# Of each measurement by time: a distant server is measured with fewer statements.
SECONDS = 2.0
TRIPS = 200
CONNECTIONS = 8
PICK_UPS = 150
# Seconds between two jobs for the idle worker, so that it is idle again when the next one comes.
PAUSES = (0.01, 0.03)
TIMEOUT = 60.0
# Long, because on a busy machine the process that renews it starts slowly. No other worker waits for these jobs.
LEASE = "60s"

# Milliseconds from which a figure is worth advice. A round trip takes 0.1 ms on one machine and 0.5 ms in one data
# centre; a commit takes 0.1 to 2 ms on an SSD that honours fsync; a pick-up takes a few.
SLOW_ROUND_TRIP, SLOW_COMMIT, SLOW_PICK_UP = 2.0, 5.0, 100.0

# SQLSTATEs: insufficient_privilege and read_only_sql_transaction.
DENIED, READ_ONLY = "42501", "25006"


@dataclass(frozen=True)
class Figures:
    """Milliseconds, and jobs per second."""

    round_trip_ms: float
    commit_ms: float
    """Without the round trip: until the disk, or a synchronous standby, has it."""
    pick_up_p50_ms: float
    pick_up_p95_ms: float
    pick_up_p99_ms: float
    """From the enqueue call to the first line of the handler, with an idle worker."""
    enqueue_rate: float
    """Each job by its own call, which returns after the commit."""
    enqueue_together_rate: float
    """The same on several connections."""
    enqueue_many_rate: float
    worker_rate: float
    """No-op jobs of one worker process, from the first handler until the last outcome is written."""


@click.command()
@click.option(
    "--jobs", default=20_000, show_default=True, type=click.IntRange(1000, 1_000_000), help="Number of jobs to run."
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw figures as JSON.")
@database_url
def bench(jobs: int, as_json: bool, database_url: str | None) -> None:
    """Measure the speed of the queue on this database.

    Measures round trips and commits of the server, enqueues, and the throughput and latency of a worker, and advises
    what would make it faster. Takes some 15 seconds. It uses a temporary schema, which is also dropped after Ctrl-C.

    \b
    treadle bench --jobs 50000 --database-url postgresql://localhost/app
    """
    url = resolve(database_url).url
    with _quiet(), screen(stderr=True).status("measuring") as status, scratch_schema(url) as schema:
        figures = measure(url, schema, jobs, lambda text: status.update(f"measuring: {text}"))
    if as_json:
        click.echo(json.dumps({"server": described(url), **asdict(figures), "advice": advise(figures)}, indent=2))
        return
    console = screen()
    write(console, f"{described(url)}, {jobs:,} jobs")
    rows = [
        ("round trip", f"{figures.round_trip_ms:,.2f} ms"),
        ("commit, without the round trip", f"{figures.commit_ms:,.2f} ms"),
        ("from enqueue to start by an idle worker, p50", f"{figures.pick_up_p50_ms:,.1f} ms"),
        ("p95", f"{figures.pick_up_p95_ms:,.1f} ms"),
        ("p99", f"{figures.pick_up_p99_ms:,.1f} ms"),
        ("enqueue on 1 connection", f"{figures.enqueue_rate:,.0f} jobs/s"),
        (f"enqueue on {CONNECTIONS} connections", f"{figures.enqueue_together_rate:,.0f} jobs/s"),
        ("enqueue_many", f"{figures.enqueue_many_rate:,.0f} jobs/s"),
        ("one worker process, no-op jobs", f"{figures.worker_rate:,.0f} jobs/s"),
    ]
    show_table(console, [Column("measurement"), Column("result", right=True)], rows)
    heading(console, "Advice")
    for sentence in advise(figures) or ["No figure stands out."]:
        write(console, f"  {sentence}")
    write(console, "  treadle doctor examines the settings of the server.")


def advise(figures: Figures) -> list[str]:
    found = []
    if figures.round_trip_ms >= SLOW_ROUND_TRIP:
        most = 1000 / figures.round_trip_ms
        found.append(
            f"A round trip takes {figures.round_trip_ms:.1f} ms, so one connection enqueues at most {most:,.0f} single "
            "jobs per second: run workers and producers close to the database, use enqueue_many or several connections."
        )
    if figures.commit_ms >= SLOW_COMMIT:
        found.append(
            f"A commit takes {figures.commit_ms:.1f} ms, because the server waits for its disk or for a synchronous "
            "standby: put the WAL on a faster disk, or use enqueue_many, which commits all of its jobs at once."
        )
    if figures.pick_up_p50_ms >= SLOW_PICK_UP:
        found.append(
            f"An idle worker took {figures.pick_up_p50_ms:,.0f} ms to start a job: either this machine or the server "
            "is busy, or notifications do not arrive, which treadle doctor tells."
        )
    return found


def measure(url: str, schema: str, jobs: int, report_step: Callable[[str], None] = lambda _: None) -> Figures:
    report_step("enqueue_many, and a worker process")
    many, ran = _worker(url, schema, jobs)
    report_step("pick-up of single jobs")
    points = quantiles(_pick_ups(url, schema), n=100, method="inclusive")
    report_step("single enqueues")
    one, together = (_single_enqueues(url, schema, connections) for connections in (1, CONNECTIONS))
    report_step("round trip and commit")
    round_trip, commit = _server(url, schema)
    return Figures(round_trip, commit, points[49], points[94], points[98], one, together, many, ran)


def payloads(jobs: int) -> Iterator[dict[str, Any]]:
    return ({"n": n, "path": "/tmp/picture.png"} for n in range(jobs))  # noqa: S108 - only text


def _server(url: str, schema: str) -> tuple[float, float]:
    """The medians of a round trip, and of a commit without it."""

    def typical(statement: bytes) -> float:
        connection.execute(statement)  # the first one fills caches
        taken: list[float] = []
        end = time.perf_counter() + SECONDS
        while len(taken) < TRIPS and (not taken or time.perf_counter() < end):
            begin = time.perf_counter()
            connection.execute(statement)
            taken.append((time.perf_counter() - begin) * 1000)
        return median(taken)

    with connect(url) as connection:
        round_trip = typical(b"select 1")
        connection.execute(in_schema("create table treadle.commits (n int)", schema).encode())
        commit = typical(in_schema("insert into treadle.commits values (1)", schema).encode())
    return round_trip, max(0.0, commit - round_trip)


def _single_enqueues(url: str, schema: str, connections: int) -> float:
    with (
        JobQueue(url, schema=schema, connections=Connections(pool_size=connections)) as queue,
        ThreadPoolExecutor(connections) as threads,
    ):
        list(threads.map(lambda _: queue.enqueue("warm"), range(connections)))
        begin = time.perf_counter()

        def enqueue(_: int) -> int:
            done = 0
            while time.perf_counter() < begin + SECONDS:
                queue.enqueue("single", {"n": done, "path": "/tmp/picture.png"})  # noqa: S108 - only text
                done += 1
            return done

        jobs = sum(threads.map(enqueue, range(connections)))
        return jobs / (time.perf_counter() - begin)


def _worker(url: str, schema: str, jobs: int) -> tuple[float, float]:
    """How fast jobs are enqueued at once, and then run."""
    app = Treadle(url, schema=schema)
    started: list[float] = []
    done = asyncio.Event()

    @app.job(name="noop")
    async def noop(n: int, path: str) -> None:
        started.append(time.perf_counter())
        if len(started) == jobs:
            done.set()

    async def work() -> float:
        try:
            async with app.worker(lease=LEASE):
                await _within(done, TIMEOUT + jobs / 100)
                while (await app.queue.acounts())[Status.COMPLETED] < jobs:  # noqa: ASYNC110
                    # Not more often, because counting takes some of the time that is measured.
                    await asyncio.sleep(0.01)
                return jobs / (time.perf_counter() - started[0])
        finally:
            await app.aclose()

    made = list(payloads(jobs))
    begin = time.perf_counter()
    app.queue.enqueue_many("noop", made)
    enqueued = jobs / (time.perf_counter() - begin)
    try:
        return enqueued, asyncio.run(work())
    finally:
        app.close()


def _pick_ups(url: str, schema: str) -> list[float]:
    app = Treadle(url, schema=schema)
    taken: list[float] = []
    done = asyncio.Event()
    jitter = random.Random(6)  # noqa: S311 - not used for security

    @app.job(name="stamp")
    async def stamp(at: float) -> None:
        taken.append((time.perf_counter() - at) * 1000)
        if len(taken) == PICK_UPS:
            done.set()

    async def work() -> None:
        try:
            async with app.worker(lease=LEASE):
                for _ in range(PICK_UPS):
                    await stamp.aenqueue(at=time.perf_counter())
                    await asyncio.sleep(jitter.uniform(*PAUSES))
                await _within(done, TIMEOUT)
        finally:
            await app.aclose()

    asyncio.run(work())
    return taken


async def _within(done: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(done.wait(), seconds)
    except TimeoutError:
        raise TooSlow(
            f"the benchmark's worker did not run its jobs within {seconds:,.0f} s; for the cause, run: treadle doctor"
        ) from None


@contextmanager
def scratch_schema(url: str) -> Iterator[str]:
    """A temporary schema. It is dropped however the command ends, and other schemas are not touched."""
    schema = f"treadle_bench_{uuid4().hex[:8]}"
    with _sigterm_as_exit():
        try:
            _create(url, schema)
            yield schema
        finally:
            with connect(url) as connection:
                # Only if it exists: a role that may not create schemas may not be allowed to drop them either.
                if connection.execute("select from pg_namespace where nspname = %s", [schema]).fetchall():
                    connection.execute(f'drop schema "{schema}" cascade'.encode())


def _create(url: str, schema: str) -> None:
    try:
        migrate(url, schema)
    except DatabaseError as error:
        if error.sqlstate == DENIED:
            raise NotAllowed(
                f"treadle bench needs a temporary schema, which this role may not create in {described(url)}; "
                "run: grant create on database … to …, or connect as another role with --database-url"
            ) from error
        if error.sqlstate == READ_ONLY:
            raise SchemaError(
                f"{described(url)} is read-only, so it may be a standby; treadle bench has to write: "
                "give the URL of the primary with --database-url"
            ) from error
        raise


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """By default, SIGTERM ends Python without running `finally` blocks, so the schema would not be dropped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the log of the worker, and the warnings of connection pools about Ctrl-C."""
    loggers = {logging.getLogger("treadle"): logging.WARNING, logging.getLogger("psycopg"): logging.ERROR}
    before = {each: each.level for each in loggers}
    for each, level in loggers.items():
        each.setLevel(level)
    try:
        yield
    finally:
        for each, level in before.items():
            each.setLevel(level)
