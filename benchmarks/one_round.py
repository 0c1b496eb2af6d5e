"""One round of against_commit.py. It uses only the public API, so that every version of Treadle can run it.

Prints rates as JSON: enqueueing in bulk and one by one, draining no-op jobs of one job type and of ten, by one process
and by eight, and the jobs that 64 connections claim per second of the server's processor time.
"""

import json
import logging
import os
import sys
import time
from typing import Any

import psycopg

from benchmarks.lanes import app as lanes
from benchmarks.lanes.claimers import claims
from benchmarks.lanes.workers import drain
from treadle import Treadle, migrate

SINGLE = 1000
PROCESSES, CLAIMERS, CLAIMS = 8, 64, 20

URL = os.environ["TREADLE_DATABASE_URL"]
app = Treadle(URL)


async def nothing() -> None:
    pass


TYPES = [app.job(name=f"nothing{number}")(nothing) for number in range(10)]


def main() -> None:
    jobs = int(sys.argv[1])
    logging.disable()
    migrate(URL)
    figures: dict[str, float] = {}
    with psycopg.connect(URL, autocommit=True) as connection:
        clear(connection)
        begin = time.perf_counter()
        TYPES[0].enqueue_many({} for _ in range(jobs))
        figures["enqueue in bulk"] = jobs / (time.perf_counter() - begin)
        figures["drain one type"] = drained(connection)
        clear(connection)
        for number in range(0, jobs, 200):
            TYPES[number // 200 % len(TYPES)].enqueue_many({} for _ in range(200))
        figures["drain ten types"] = drained(connection)
        clear(connection)
        begin = time.perf_counter()
        for _ in range(SINGLE):
            TYPES[0].enqueue()
        figures["enqueue one by one"] = SINGLE / (time.perf_counter() - begin)
        for name, types in (("one type", lanes.TYPES[:1]), ("ten types", lanes.TYPES)):
            clear(connection)
            figures[f"drain {name}, {PROCESSES} processes"] = drain(URL, jobs, types, PROCESSES)["jobs/s"]
            clear(connection)
            found = claims(URL, types, CLAIMERS, CLAIMS)
            figures[f"claimed per CPU second, {name}"] = 1e6 / found["server CPU µs/job"]
    app.close()
    print(json.dumps(figures))


def clear(connection: psycopg.Connection[Any]) -> None:
    connection.execute("truncate treadle.jobs")
    connection.execute("truncate treadle.workers")
    connection.execute("vacuum analyze treadle.jobs")


def drained(connection: psycopg.Connection[Any]) -> float:
    """Jobs per second, from the first claim to the last completion, by the database's clock."""
    app.run_worker(drain=True)
    found = connection.execute(
        """select count(*) / extract(epoch from max(completed_at) - min(claimed_at))
        from treadle.jobs where status = 'completed'"""
    ).fetchone()
    assert found
    return float(found[0])


if __name__ == "__main__":
    main()
