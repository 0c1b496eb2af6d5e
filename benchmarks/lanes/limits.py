"""What limits and fairness cost: drains, claims beside jobs that wait for a limit, and many tenants."""

import json
import time
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from benchmarks.lanes.server import connect
from benchmarks.lanes.statements import CLAIM, TICK, claim_cost, settle, tick_cost
from benchmarks.lanes.workers import drain_enqueued

LIMIT = "select treadle.set_limit('tenants', %s, p_per => 'tenant', p_job_type => 'sync')"


def limited_drain(url: str, jobs: int, keys: int, processes: int, limited: bool) -> dict[str, float]:
    """Jobs of all keys in turn, each of which may have 50 at once."""

    def enqueue_all(connection: Connection[Any]) -> None:
        if limited:
            connection.execute(LIMIT, [50])
        enqueue_keys(connection, jobs, keys)

    return drain_enqueued(url, jobs, processes, enqueue_all)


def fair_drain(url: str, jobs: int, keys: int, processes: int, fair: bool) -> dict[str, float]:
    def enqueue_all(connection: Connection[Any]) -> None:
        if fair:
            take_turns(connection)
        enqueue_keys(connection, jobs, keys)

    return drain_enqueued(url, jobs, processes, enqueue_all)


def blocked_jobs(url: str, jobs: int, keys: int) -> Iterator[tuple[str, dict[str, float]]]:
    """A claim of 10 other jobs without and beside these, which wait for the limit of their key; then with a snapshot
    that is held open while others are claimed."""
    types = ["sync", "type0"]
    with connect(url) as connection, connect(url) as other:
        connection.execute("select treadle.enqueue_jobs('type0', array_fill('{}'::text, '{2000}'))")
        settle(connection)
        alone = claim_cost(connection, types, tick=True)
        yield "without", {**alone, "to without": 1.0}
        connection.execute(LIMIT, [1])
        # Of a higher priority: a claim comes to them first.
        enqueue_keys(connection, jobs, keys, priority=150)
        settle(connection)
        waiting, dormant = 0, "select count(*) from treadle.lanes where limit_name is not null"
        while waiting < keys:
            connection.execute(CLAIM, {"types": ["sync"], "batch": 1000})
            waiting = (connection.execute(dormant).fetchone() or (0,))[0]
        time.sleep(2)  # claims soon look again at lanes that have become dormant
        settle(connection)
        for case in ("", ", a snapshot held"):
            if case:
                other.execute("begin isolation level repeatable read")
                other.execute("select count(*) from pg_class")
                for _ in range(100):
                    connection.execute(CLAIM, {"types": ["type0"], "batch": 10})
                    connection.execute(TICK)
            cost = claim_cost(connection, types, tick=True)
            ratio = cost["claim buffers"] / alone["claim buffers"]
            yield f"{jobs:,} of {keys:,} keys{case}", {**cost, "to without": ratio}
        other.execute("rollback")


def many_tenants(url: str, tenants: int) -> dict[str, float]:
    """Each has ten jobs."""
    with connect(url) as connection:
        take_turns(connection)
        enqueue_keys(connection, 10 * tenants, tenants)
        settle(connection)
        return {**claim_cost(connection, ["sync"], tick=True), **tick_cost(connection)}


def take_turns(connection: Connection[Any]) -> None:
    declared = {"job_type": "sync", "fair_by": "tenant", "weights_of": "sync", "digest": "1"}
    connection.execute("select treadle.declare_limits('[]', %s)", [json.dumps([declared])])


def enqueue_keys(connection: Connection[Any], jobs: int, keys: int, priority: int = 100) -> None:
    """One job of each key after the other."""
    for begin in range(0, jobs, 5000):
        data = [json.dumps({"tenant": f"t{nth % keys}"}) for nth in range(begin, min(begin + 5000, jobs))]
        connection.execute("select treadle.enqueue_jobs('sync', %s, p_priority => %s)", [data, priority])
