"""Compares the worker with plain psycopg, in interleaved rounds: python -m benchmarks.worker [--quick]

drain        a worker with no-op async handlers, compared with a loop that executes the same claims and completions and
             runs no handler
pick-up      from enqueue to the handler's first line on an idle worker, compared with one INSERT and commit + one
             notification + one claim, one after the other
enqueue      48 connections that enqueue one job at a time while a worker is listening, compared with notifications off
sleep        jobs that sleep 5 ms at concurrency 100, compared with an asyncio loop that only sleeps
due          how late a delayed job starts on an idle worker
memory       of a worker process after 20,000 and after 200,000 jobs
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from benchmarks.jobs import app, noop, sleep5, stamp
from treadle import migrate
from treadle.db.embedded import embedded_url, leave
from treadle.db.queries import enqueueing
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.query import bind, statement

ROOT = Path(__file__).parent.parent
SCHEMA = "treadle"


def median(values: list[float]) -> float:
    return statistics.median(values)


@contextmanager
def worker(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [str(Path(sys.executable).parent / "treadle"), "worker", "benchmarks.jobs:app", *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"TREADLE_DATABASE_URL": url}
    )
    assert process.stderr
    for line in process.stderr:
        if "worker started" in line:
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def clear(connection: Any) -> None:
    connection.execute("truncate treadle.jobs")
    connection.execute("vacuum analyze treadle.jobs")


def rate(connection: Any) -> float:
    """Return jobs per second, from the first claim to the last completion, by the database's clock."""
    found = connection.execute(
        """select count(*) / extract(epoch from max(completed_at) - min(claimed_at))
        from treadle.jobs where status = 'completed'"""
    ).fetchone()
    return float(found[0])


def drain_ours(url: str, connection: Any, jobs: int, job: Any, *options: str) -> float:
    clear(connection)
    job.enqueue_many({} for _ in range(jobs))
    with worker(url, "--concurrency", "100", "--drain", *options) as process:
        process.wait()
    return rate(connection)


def drain_bare(connection: Any, jobs: int, batch: int) -> float:
    """Execute the worker's own statements one after the other, without handlers."""
    clear(connection)
    noop.enqueue_many({} for _ in range(jobs))
    types = app.job_types
    claim = worker_queries.claim("bare", types, batch, None)
    connection.execute(job_queries.tick().text)
    ticked = time.monotonic()
    while rows := connection.execute(claim.text, claim.params).fetchall():
        params = {
            "number": len(rows),
            "ids": ",".join([row[0].hex for row in rows]),
            "leases": ",".join([str(row[1]) for row in rows]),
            "worker_ids": "\n".join(["bare"] * len(rows)),
            "results": None,
            "seconds": None,
        }
        connection.execute(bind(statement("complete_jobs"), SCHEMA), params).fetchall()
        if time.monotonic() - ticked > 0.5:
            connection.execute(job_queries.tick().text)
            ticked = time.monotonic()
    return rate(connection)


def pick_up_ours(url: str, tries: int) -> list[float]:
    """Return the seconds from just before enqueue() to the handler's first line."""
    with tempfile.NamedTemporaryFile() as file, worker(url, "--concurrency", "100"):
        times = []
        for _ in range(tries):
            time.sleep(0.02)
            began = time.clock_gettime(time.CLOCK_MONOTONIC)
            handle = stamp.enqueue(path=file.name)
            while not (content := Path(file.name).read_text()).startswith(f"{handle.id} "):
                time.sleep(0.005)  # not more often, so that polling does not disturb the measurement
            times.append(float(content.split()[1]) - began)
        return times


def pick_up_bare(url: str, connection: Any, tries: int) -> list[float]:
    listener = psycopg.connect(url, autocommit=True)
    listener.execute("listen bench")
    claimer = psycopg.connect(url, autocommit=True)
    # The same claim as the worker's: for all job types of the application.
    claim = worker_queries.claim("bare", [*app.job_types, "bare"], 100, None)
    times = []
    for _ in range(tries):
        time.sleep(0.02)
        began = time.perf_counter()
        connection.execute("insert into treadle.jobs (job_type, data) values ('bare', '{}')")
        inserted = time.perf_counter()
        connection.execute("notify bench")
        for _ in listener.notifies(timeout=5, stop_after=1):
            pass
        heard = time.perf_counter()
        rows = claimer.execute(claim.text, claim.params).fetchall()
        times.append(time.perf_counter() - heard + heard - began)
        assert len(rows) == 1, inserted
    return times


def enqueue_rate(url: str, seconds: float, notify: bool) -> float:
    """Return the commits per second of 48 connections that enqueue one job at a time."""
    from multiprocessing import get_context

    context = get_context("spawn")
    with context.Pool(4) as pool:
        counts = pool.starmap(enqueue_for, [(url, 12, seconds, notify)] * 4)
    return sum(counts) / seconds


def enqueue_for(url: str, clients: int, seconds: float, notify: bool) -> int:
    async def client() -> int:
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
        await connection.execute(f"set treadle.notify = {'on' if notify else 'off'}")
        query = enqueueing.enqueue("nobody", {"n": 1}, None)
        done, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            await connection.execute(query.text, query.params)
            done += 1
        await connection.close()
        return done

    async def clients_together() -> int:
        return sum(await asyncio.gather(*(client() for _ in range(clients))))

    return asyncio.run(clients_together())


def sleep_bare(jobs: int) -> float:
    """Return how many sleeps of 5 ms per second asyncio itself completes, 100 at a time."""

    async def handler() -> None:
        await asyncio.sleep(0.005)

    async def slot(remaining: Iterator[int]) -> None:
        for _ in remaining:
            await asyncio.create_task(handler())

    async def everything() -> float:
        remaining, began = iter(range(jobs)), time.perf_counter()
        await asyncio.gather(*(slot(remaining) for _ in range(100)))
        return jobs / (time.perf_counter() - began)

    return asyncio.run(everything())


def lateness(url: str, connection: Any, tries: int) -> list[float]:
    with worker(url):
        for nth in range(tries):
            noop.using(delay=1 + nth * 0.05).enqueue()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            rows = connection.execute(
                """select extract(epoch from started_at - run_at) from treadle.jobs
                where job_type = 'noop' and status = 'completed' and run_at > created_at + interval '0.9 seconds'"""
            ).fetchall()
            if len(rows) == tries:
                return [float(row[0]) for row in rows]
            time.sleep(0.1)
    raise RuntimeError("the delayed jobs did not complete within 30 s")


def memory(url: str, connection: Any, first: int, last: int) -> tuple[float, float]:
    clear(connection)
    noop.enqueue_many({} for _ in range(last))
    with worker(url, "--concurrency", "100") as process:

        def used() -> float:
            mine = [each for each in psutil.Process(process.pid).children() if "process" in " ".join(each.cmdline())]
            return float(mine[0].memory_info().rss) / 2**20

        def until(number: int) -> float:
            while (
                connection.execute("select count(*) from treadle.jobs where status = 'completed'").fetchone()[0]
                < number
            ):
                time.sleep(0.05)
            return used()

        return until(first), until(last)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    jobs, rounds, tries = (10_000, 1, 50) if quick else (60_000, 5, 300)
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-"))
    folder.chmod(0o711)
    url = embedded_url(folder, settings={"max_connections": "200"})
    os.environ["TREADLE_DATABASE_URL"] = url
    migrate(url)
    report: dict[str, Any] = {"jobs": jobs, "rounds": rounds}
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            report["server"] = connection.execute("show server_version").fetchone()[0]  # type: ignore[index]
            drains: dict[str, list[float]] = {"ours": [], "bare 100": [], "bare 1000": [], "sleep": [], "asyncio": []}
            for nth in range(rounds + 1):
                found = {
                    "ours": drain_ours(url, connection, jobs, noop),
                    "bare 100": drain_bare(connection, jobs, 100),
                    "bare 1000": drain_bare(connection, jobs, 1000),
                    "sleep": drain_ours(url, connection, jobs, sleep5),
                    "asyncio": sleep_bare(jobs),
                }
                for name, value in found.items():
                    drains[name] += [value] * (nth > 0 or quick)
                print(nth, {name: round(value) for name, value in found.items()}, file=sys.stderr)
            report["drain"] = {name: round(median(values)) for name, values in drains.items()}
            report["drain to bare loop of 100"] = round(median(drains["ours"]) / median(drains["bare 100"]), 2)
            report["drain to bare loop of 1,000"] = round(median(drains["ours"]) / median(drains["bare 1000"]), 2)
            report["sleep to asyncio alone"] = round(median(drains["sleep"]) / median(drains["asyncio"]), 2)
            clear(connection)
            ours, bare = [], []
            for _ in range(3):
                ours += pick_up_ours(url, tries // 3)
                bare += pick_up_bare(url, connection, tries // 3)
            report["pick-up ms"] = {
                "ours median": round(median(ours) * 1000, 2),
                "ours p99": round(sorted(ours)[int(len(ours) * 0.99)] * 1000, 2),
                "bare median": round(median(bare) * 1000, 2),
                "ratio": round(median(ours) / median(bare), 2),
            }
            with_, without = [], []
            for _ in range(rounds):
                clear(connection)
                without.append(enqueue_rate(url, 2, notify=False))
                clear(connection)
                with worker(url):
                    with_.append(enqueue_rate(url, 2, notify=True))
                print(without[-1], with_[-1], file=sys.stderr)
            report["48 enqueuers"] = {
                "notifications on, a worker listening": round(median(with_)),
                "off": round(median(without)),
                "ratio": round(median(with_) / median(without), 2),
            }
            late = lateness(url, connection, 20)
            report["late by ms"] = {"median": round(median(late) * 1000, 1), "most": round(max(late) * 1000, 1)}
            first, last = memory(url, connection, 20_000, 40_000 if quick else 200_000)
            report["memory MB"] = {"after 20,000": round(first, 1), "after the last": round(last, 1)}
    finally:
        app.close()
        leave(folder)
    text = json.dumps(report, indent=2)
    print(text)
    if not quick:
        (Path(__file__).parent / "worker.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
