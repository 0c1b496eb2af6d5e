"""Statements of the SQL contract, and what one of them costs: milliseconds and buffers.

Only public functions and the table of jobs are used, so that the same benchmark measures every version of the schema.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from psycopg import Connection
from psycopg.errors import QueryCanceled

from benchmarks.lanes.app import TYPES

CLAIM = "select * from treadle.claim_jobs('bench', %(types)s, %(batch)s)"
CLAIM_BATCH = "select * from treadle.claim_job_batch('bench', %(types)s, %(batch)s)"
TICK = "select treadle.tick('0')"

WARM = 2  # repetitions that are not counted
ENOUGH = 10.0  # seconds, after which a statement is not repeated
LIMIT = 60  # seconds, after which a statement is ended


def enqueue(connection: Connection[Any], jobs: int, types: list[str], chunk: int = 200) -> None:
    """Jobs of all types in turn, some of one type at a time, as applications enqueue them."""
    for number, begin in enumerate(range(0, jobs, chunk)):
        connection.execute(
            "select treadle.enqueue_jobs(%s, array_fill('{}'::text, array[%s]))",
            [types[number % len(types)], min(chunk, jobs - begin)],
        )


def claim_and_complete(connection: Connection[Any], types: list[str], batch: int, claim: str = CLAIM) -> int:
    """Claim jobs and complete them, in two transactions. Returns how many there were."""
    rows = connection.execute(f"select id, lease from ({claim}) as job", {"types": types, "batch": batch}).fetchall()
    if rows:
        ids, leases = [row[0] for row in rows], [row[1] for row in rows]
        connection.execute("select treadle.complete_jobs(%s, %s, %s)", [ids, leases, ["bench"] * len(rows)])
    return len(rows)


def settle(connection: Connection[Any], most: int = 50) -> None:
    """Tick until nothing moves any more, for a minute at most, and let the server know its tables."""
    end = time.monotonic() + LIMIT
    for _ in range(most):
        time.sleep(0.02)
        if connection.execute(TICK).fetchone() == (0,) or time.monotonic() > end:
            break
    vacuum(connection)


def vacuum(connection: Connection[Any]) -> None:
    connection.execute("vacuum analyze treadle.jobs")
    connection.execute("vacuum analyze treadle.lanes")


def milliseconds(connection: Connection[Any], statement: str, params: Any = None, times: int = 10) -> float:
    """The median time of a statement whose effects are kept."""
    return _median(_timed(connection, statement, params) for _ in range(times + WARM))


def claim_cost(
    connection: Connection[Any],
    types: list[str],
    batch: int = 10,
    tick: bool = False,
    claim: str = CLAIM,
    times: int = 10,
) -> dict[str, float]:
    """What a claim costs. It is rolled back, so that each one finds the same jobs. `tick`: right after a tick."""
    params = {"types": types, "batch": batch}

    def claims() -> Iterator[float]:
        for _ in range(times + WARM):
            if tick:
                connection.execute(TICK)
            with connection.transaction(force_rollback=True):
                yield _timed(connection, claim, params)

    try:
        with _limited(connection):
            taken = _median(claims())
            if tick:
                connection.execute(TICK)
            with connection.transaction(force_rollback=True):
                plan = _plan(connection, claim, params)
    except QueryCanceled:
        return {"claimed": 0, "claim ms": inf, "claim buffers": inf}
    return {"claimed": plan["Actual Rows"], "claim ms": taken, "claim buffers": _buffers(plan)}


def buffers(connection: Connection[Any], statement: str, params: Any = None) -> int:
    return _buffers(_plan(connection, statement, params))


def tick_cost(connection: Connection[Any], times: int = 5) -> dict[str, float]:
    try:
        with _limited(connection):
            return {
                "tick ms": milliseconds(connection, TICK, times=times),
                "tick buffers": statistics.median(_buffers(_plan(connection, TICK)) for _ in range(times)),
            }
    except QueryCanceled:
        return {"tick ms": inf, "tick buffers": inf}


@contextmanager
def _limited(connection: Connection[Any]) -> Iterator[None]:
    """A statement that is hopelessly slow is ended, so that the other measurements follow."""
    connection.execute(f"set statement_timeout = {LIMIT * 1000}".encode())
    try:
        yield
    finally:
        connection.execute("reset statement_timeout")


def _plan(connection: Connection[Any], statement: str, params: Any = None) -> Any:
    row = connection.execute(f"explain (analyze, buffers, format json) {statement}", params).fetchone()
    assert row
    return row[0][0]["Plan"]


def _buffers(plan: Any) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _median(times: Iterator[float]) -> float:
    """In milliseconds, without the first two, which fill caches. Slow statements are repeated less often."""
    end = time.monotonic() + ENOUGH
    taken: list[float] = []
    for each in times:
        taken.append(each)
        if time.monotonic() > end:
            break
    return statistics.median(taken[WARM:] or taken[-1:]) * 1000


def _timed(connection: Connection[Any], statement: str, params: Any) -> float:
    begin = time.perf_counter()
    connection.execute(statement, params, prepare=True).fetchall()
    return time.perf_counter() - begin


def lane_rows(lanes: int) -> str:
    """An INSERT of one job for each of so many lanes: ten job types in as many queues as that takes."""
    return f"""insert into treadle.jobs (job_type, queue)
        select 'type' || number % {len(TYPES)}, 'queue' || number / {len(TYPES)}
        from generate_series(0, {lanes} - 1) as number"""
