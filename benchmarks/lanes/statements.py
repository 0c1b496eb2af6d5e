"""Statements of the SQL contract, and what one of them costs: milliseconds and buffers.

Only public functions and the table of jobs are used, so that the same benchmark measures every version of the schema.
"""

import statistics
import time
from typing import Any

from psycopg import Connection

from benchmarks.lanes.app import TYPES

CLAIM = "select * from treadle.claim_jobs('bench', %(types)s, %(batch)s)"
CLAIM_BATCH = "select * from treadle.claim_job_batch('bench', %(types)s, %(batch)s)"
TICK = "select treadle.tick('0')"


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
    """Tick until nothing moves any more, and let the server know its tables."""
    for _ in range(most):
        time.sleep(0.02)
        if connection.execute(TICK).fetchone() == (0,):
            break
    vacuum(connection)


def vacuum(connection: Connection[Any]) -> None:
    connection.execute("vacuum analyze treadle.jobs")
    connection.execute("vacuum analyze treadle.lanes")


def milliseconds(connection: Connection[Any], statement: str, params: Any = None, times: int = 10) -> float:
    """The median time of a statement whose effects are kept, without the first two, which fill caches."""
    taken = [_timed(connection, statement, params) for _ in range(times + 2)]
    return statistics.median(taken[2:]) * 1000


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
    taken: list[float] = []
    for _ in range(times + 2):
        if tick:
            connection.execute(TICK)
        with connection.transaction(force_rollback=True):
            taken.append(_timed(connection, claim, params))
    if tick:
        connection.execute(TICK)
    with connection.transaction(force_rollback=True):
        row = connection.execute(f"explain (analyze, buffers, format json) {claim}", params).fetchone()
    assert row
    plan = row[0][0]["Plan"]
    return {
        "claimed": plan["Actual Rows"],
        "claim ms": statistics.median(taken[2:]) * 1000,
        "claim buffers": plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
    }


def tick_cost(connection: Connection[Any], times: int = 5) -> dict[str, float]:
    taken = milliseconds(connection, TICK, times=times)
    row = connection.execute(f"explain (analyze, buffers, format json) {TICK}").fetchone()
    assert row
    plan = row[0][0]["Plan"]
    return {"tick ms": taken, "tick buffers": plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]}


def _timed(connection: Connection[Any], statement: str, params: Any) -> float:
    begin = time.perf_counter()
    connection.execute(statement, params, prepare=True).fetchall()
    return time.perf_counter() - begin


def lane_rows(lanes: int) -> str:
    """An INSERT of one job for each of so many lanes: ten job types in as many queues as that takes."""
    return f"""insert into treadle.jobs (job_type, queue)
        select 'type' || number % {len(TYPES)}, 'queue' || number / {len(TYPES)}
        from generate_series(0, {lanes} - 1) as number"""
