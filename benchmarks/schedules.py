"""Measures what 10,000 schedules cost of which 10 are due each second: python -m benchmarks.schedules [--quick]

Two workers run on a new database for each measurement, in interleaved rounds:

idle        nothing to do
jobs        10 jobs are enqueued each second, with one statement
added       10,000 schedules that were added at run time enqueue 10 jobs each second
declared    the same, declared in the code of both workers

The cost of the schedules is that of `added` or `declared` without that of `jobs`. CPU is in percent of one core, of all
processes of the server and of the workers. Statements are transactions per second. The claims are of a third client,
at the end of each measurement.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from psycopg import Connection

from benchmarks import processor
from benchmarks.lanes.server import Server, connect, cpu_seconds, running_server
from benchmarks.lanes.statements import claim_cost, enqueue, vacuum
from benchmarks.schedules_app import DECLARED, SCHEDULES, expression

ROOT = Path(__file__).parent.parent
KINDS = ("idle", "jobs", "added", "declared")
WORKERS = 2
Figures = dict[str, float]


@contextmanager
def workers(connection: Connection[Any], url: str, declared: bool) -> Iterator[list[psutil.Popen]]:
    command = [sys.executable, "-m", "treadle", "worker", "benchmarks.schedules_app:app"]
    environment = os.environ | {"TREADLE_DATABASE_URL": url, DECLARED: "yes" if declared else ""}
    with tempfile.TemporaryFile() as log:
        started = [
            psutil.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
            for _ in range(WORKERS)
        ]
        try:
            _until(connection, f"select count(*) = {WORKERS} from treadle.workers")
            yield started
        finally:
            for each in started:
                each.terminate()
            for each in started:
                each.wait()


def measure(server: Server, kind: str, seconds: float) -> Figures:
    url, over = server.fresh(), threading.Event()
    producer = threading.Thread(target=_enqueue, args=[url, over])
    with connect(url) as connection:
        if kind == "added":
            with connection.cursor() as cursor:
                cursor.executemany(
                    "select treadle.put_schedule(%s, 'nothing', %s)",
                    [(f"schedule {number}", expression(number)) for number in range(SCHEDULES)],
                )
        with workers(connection, url, kind == "declared") as programs:
            wanted = SCHEDULES if kind in ("added", "declared") else 0
            _until(connection, f"select count(next_at) = {wanted} from treadle.schedules")
            connection.execute("vacuum analyze treadle.schedules")
            if kind == "jobs":
                producer.start()
            time.sleep(5)
            before = _used(connection, url, programs)
            begin = time.monotonic()
            time.sleep(seconds)
            after = _used(connection, url, programs)
            took = time.monotonic() - begin
        over.set()
        if kind == "jobs":
            producer.join()
        figures = {
            "server CPU %": (after[0] - before[0]) / took * 100,
            "worker CPU %": (after[1] - before[1]) / took * 100,
            "statements/s": (after[2] - before[2]) / took,
            "WAL kB/s": (after[3] - before[3]) / took / 1000,
        }
        return figures | _jobs(connection) | _claims(connection)


def _used(connection: Connection[Any], url: str, programs: list[psutil.Popen]) -> tuple[float, float, float, float]:
    """CPU seconds of the server and of the workers, transactions, and bytes of WAL."""
    mine = processor.cpu_seconds(program.pid for program in programs)
    found = connection.execute(
        """select (select sum(xact_commit)::float8 from pg_stat_database),
        pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"""
    ).fetchone()
    assert found
    return cpu_seconds(url), mine, found[0], found[1]


def _jobs(connection: Connection[Any]) -> Figures:
    found = connection.execute(
        """select count(*), percentile_cont(array[0.5, 0.99]) within group (order by late)
        from (
            select extract(epoch from created_at - (origin ->> 'for')::timestamptz)::float8 * 1000 as late
            from treadle.jobs
        ) as job"""
    ).fetchone()
    assert found
    late = [each or 0.0 for each in found[1] or (0.0, 0.0)]
    return {"jobs": found[0], "late p50 ms": late[0], "late p99 ms": late[1]}


def _claims(connection: Connection[Any]) -> Figures:
    vacuum(connection)
    idle = claim_cost(connection, ["other"])
    enqueue(connection, 100, ["other"])
    vacuum(connection)
    ten = claim_cost(connection, ["other"])
    return {"buffers of an idle claim": idle["claim buffers"], "of a claim of 10": ten["claim buffers"]}


def _enqueue(url: str, over: threading.Event) -> None:
    with connect(url) as connection:
        while not over.wait(1.0):
            connection.execute("select treadle.enqueue_jobs('nothing', array_fill('{}'::text, array[10]))")


def _until(connection: Connection[Any], query: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while connection.execute(query.encode()).fetchone() != (True,):
        if time.monotonic() > end:
            raise TimeoutError(f"not true after {seconds:g} s: {query}")
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules")
    parser.add_argument("kind", nargs="*", choices=[*KINDS, []], metavar="KIND", help="all if none is named")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement, default 60")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one round of 5 seconds, to see that everything works")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the figures as JSON")
    options = parser.parse_args()
    rounds, seconds = (1, 5.0) if options.quick else (options.rounds, options.seconds)
    measured: dict[str, list[Figures]] = defaultdict(list)
    with running_server() as server:
        for number in range(rounds):
            for kind in options.kind or KINDS:
                measured[kind].append(measure(server, kind, seconds))
                print(number + 1, kind, _shown(measured[kind][-1]), flush=True)
        server.close()
    print(f"\nmedians of {rounds} rounds of {seconds:g} s")
    for kind, figures in measured.items():
        print(kind, _shown({name: median(each[name] for each in figures) for name in figures[0]}))
    if options.output:
        options.output.write_text(json.dumps(measured, indent=1) + "\n")


def _shown(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())


if __name__ == "__main__":
    main()
