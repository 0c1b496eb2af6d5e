"""What is measured, each by a function that yields rows: what the row is about, and its figures."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.lanes.app import TYPES
from benchmarks.lanes.claimers import claims
from benchmarks.lanes.dependencies import batch, fan, waiting_jobs
from benchmarks.lanes.limits import blocked_jobs, fair_drain, limited_drain, many_tenants
from benchmarks.lanes.server import Server, connect
from benchmarks.lanes.statements import (
    CLAIM,
    CLAIM_BATCH,
    TICK,
    claim_and_complete,
    claim_cost,
    enqueue,
    lane_rows,
    milliseconds,
    settle,
    tick_cost,
    vacuum,
)
from benchmarks.lanes.workers import drain, pick_up

Row: TypeAlias = tuple[str, dict[str, float]]


@dataclass(frozen=True)
class Sizes:
    jobs: int = 15_000
    processes: Sequence[int] = (1, 2, 8)
    claimers: int = 64
    claims: int = 50
    """By each claimer."""
    locked: int = 40_000
    idle_lanes: Sequence[int] = (10, 3_000, 10_000, 100_000)
    busy_lanes: int = 10_000
    priorities: int = 86_400
    snapshot_jobs: int = 100_000
    history: int = 1_000_000
    pick_ups: int = 100
    keys: int = 1_000
    blocked: int = 200_000
    blocked_keys: int = 20_000
    tenants: int = 10_000


QUICK = Sizes(2_000, (1, 2), 16, 10, 2_000, (10, 500), 500, 2_000, 5_000, 20_000, 10, 50, 2_000, 200, 500)


def drains(server: Server, sizes: Sizes) -> Iterator[Row]:
    for processes in sizes.processes:
        rates = []
        for types in (TYPES[:1], TYPES):
            found = drain(server.fresh(), sizes.jobs, types, processes)
            rates.append(found["jobs/s"])
            ratio = found["jobs/s"] / rates[0]
            yield f"{_number(types)}, {processes} processes", {**found, "to one type": ratio}


def concurrent_claims(server: Server, sizes: Sizes) -> Iterator[Row]:
    for types in (TYPES[:1], TYPES):
        found = claims(server.fresh(), types, sizes.claimers, sizes.claims)
        yield f"{_number(types)}, {sizes.claimers} claimers", found


def locked_rows(server: Server, sizes: Sizes) -> Iterator[Row]:
    """Somebody's UPDATE has locked the oldest jobs of a priority that has several lanes, and does not commit."""
    url = server.fresh()
    types = TYPES[:2]
    with connect(url) as connection, connect(url) as other:
        enqueue(connection, sizes.locked, types, chunk=sizes.locked // 10)
        other.execute("begin")
        other.execute("update treadle.jobs set data = '{}' where status = 'pending'")
        enqueue(connection, 1_000, types)
        yield "before a tick", claim_cost(connection, types, times=5)
        connection.execute("select pg_sleep(0.3)")  # the floor stays that far behind the clock
        yield "after a tick", {**claim_cost(connection, types, tick=True, times=5), **tick_cost(connection)}
        other.execute("rollback")


def idle_lanes(server: Server, sizes: Sizes) -> Iterator[Row]:
    for lanes in sizes.idle_lanes:
        with connect(server.fresh()) as connection:
            connection.execute(lane_rows(lanes))
            connection.execute("update treadle.jobs set status = 'completed' where status = 'pending'")
            vacuum(connection)
            connection.execute(TICK)
            time.sleep(2.1)  # then they can become dormant
            begin = time.perf_counter()
            connection.execute(CLAIM, {"types": TYPES, "batch": 10})
            first = (time.perf_counter() - begin) * 1000
            settle(connection)
            cost = {**claim_cost(connection, TYPES, tick=True), **tick_cost(connection)}
            yield f"{lanes:,} lanes", {"first claim ms": first, **cost}


def busy_lanes(server: Server, sizes: Sizes) -> Iterator[Row]:
    with connect(server.fresh()) as connection:
        connection.execute(lane_rows(sizes.busy_lanes))
        settle(connection)
        yield (
            f"{sizes.busy_lanes:,} lanes",
            {**claim_cost(connection, TYPES, tick=True, times=5), **tick_cost(connection)},
        )


def distinct_priorities(server: Server, sizes: Sizes) -> Iterator[Row]:
    with connect(server.fresh()) as connection:
        connection.execute(
            f"""insert into treadle.jobs (job_type, priority)
            select 'type' || number % 10, number from generate_series(1, {sizes.priorities}) as number"""
        )
        settle(connection)
        cost = {**claim_cost(connection, TYPES, tick=True, times=5), **tick_cost(connection)}
        cost["enqueue ms"] = milliseconds(connection, "select treadle.enqueue('type0', p_priority => 7)")
        yield f"{sizes.priorities:,} priorities", cost


def held_snapshot(server: Server, sizes: Sizes) -> Iterator[Row]:
    """A client in another language that calls claim_job_batch() and complete_jobs(), and never tick()."""
    for types in (TYPES[:1], TYPES):
        url = server.fresh()
        with connect(url) as connection, connect(url) as other:
            other.execute("begin isolation level repeatable read")
            other.execute("select count(*) from pg_class")
            done, checks = 0, [0, sizes.snapshot_jobs // 10, sizes.snapshot_jobs]
            for until in checks:
                enqueue(connection, until - done + 1_000, types)
                while done < until:
                    done += claim_and_complete(connection, types, 10, CLAIM_BATCH)
                cost = claim_cost(connection, types, claim=CLAIM_BATCH, times=5)
                yield f"{_number(types)}, after {done:,} jobs", cost
            other.execute("rollback")


def open_transaction(server: Server, sizes: Sizes) -> Iterator[Row]:
    """A transaction that has written something stays open while jobs run: nothing below it can be proven settled."""
    yield from _beside(server, sizes, ["begin", "insert into written values (1)"], "rollback")


def history(server: Server, sizes: Sizes) -> Iterator[Row]:
    """The same with nothing beside it, to compare: the disk is slower, too, after millions of jobs."""
    yield from _beside(server, sizes, [], "select 1")


def prepared_transaction(server: Server, sizes: Sizes) -> Iterator[Row]:
    """The same with one that was prepared for a commit in two phases and forgotten."""
    prepare = ["begin", "insert into written values (1)", "prepare transaction 'forgotten'"]
    yield from _beside(server, sizes, prepare, "rollback prepared 'forgotten'")


def unused_slot(server: Server, sizes: Sizes) -> Iterator[Row]:
    """A replication slot that nobody reads: dead rows of the catalog stay, and the log."""
    create = ["select pg_create_logical_replication_slot('unused', 'pgoutput')"]
    yield from _beside(server, sizes, create, "select pg_drop_replication_slot('unused')")


def _beside(server: Server, sizes: Sizes, begin: Sequence[str], end: str) -> Iterator[Row]:
    url = server.fresh()
    with connect(url) as connection, connect(url) as other:
        other.execute("create table written (number int)")
        for statement in begin:
            other.execute(statement.encode())
        connection.execute("set synchronous_commit = off")
        done, ticked = 0, time.perf_counter()
        for until in _growing(sizes.history):
            while done < until:
                enqueue(connection, 5_000, TYPES, chunk=500)
                while claimed := claim_and_complete(connection, TYPES, 5_000):
                    done += claimed
                    if time.perf_counter() - ticked > 0.5:
                        connection.execute(TICK)
                        ticked = time.perf_counter()
            waited = pick_up(url, sizes.pick_ups)
            enqueue(connection, 100, TYPES, chunk=10)
            fresh = claim_cost(connection, TYPES, tick=True, times=5)
            connection.execute("select pg_sleep(1)")  # without a recent tick, a claim starts where all is settled
            stale = claim_cost(connection, TYPES, times=5)
            yield (
                f"after {done:,} jobs",
                {
                    **fresh,
                    "without tick ms": stale["claim ms"],
                    "buffers": stale["claim buffers"],
                    **tick_cost(connection),
                    "pick-up p50 ms": statistics.median(waited),
                    "p99 ms": sorted(waited)[int(len(waited) * 0.99)],
                },
            )
            while claim_and_complete(connection, TYPES, 1_000):
                pass
        other.execute(end.encode())


def limits(server: Server, sizes: Sizes) -> Iterator[Row]:
    yield from _in_turns(server, sizes, f"50 per key, {sizes.keys:,} keys", limited_drain)


def fairness(server: Server, sizes: Sizes) -> Iterator[Row]:
    yield from _in_turns(server, sizes, f"{sizes.keys:,} tenants take turns", fair_drain)


def _in_turns(server: Server, sizes: Sizes, case: str, drain_keys: Callable[..., dict[str, float]]) -> Iterator[Row]:
    """Without and with it, in turns."""
    for processes in sizes.processes:
        rates = []
        for on in (False, True):
            found = drain_keys(server.fresh(), sizes.jobs, sizes.keys, processes, on)
            rates.append(found["jobs/s"])
            name = f"{case if on else 'without'}, {processes} processes"
            yield name, {**found, "to without": found["jobs/s"] / rates[0]}


def waiting(server: Server, sizes: Sizes) -> Iterator[Row]:
    yield from waiting_jobs(server.fresh(), sizes.blocked)


def fan_out(server: Server, sizes: Sizes) -> Iterator[Row]:
    for processes in sizes.processes:
        rates = []
        for waits in (False, True):
            found = fan(server.fresh(), sizes.jobs, processes, waits)
            rates.append(found["jobs/s"])
            name = f"{'one, many, one' if waits else 'none waits'}, {processes} processes"
            yield name, {**found, "to none": found["jobs/s"] / rates[0]}


def batches(server: Server, sizes: Sizes) -> Iterator[Row]:
    for processes in sizes.processes:
        plain = drain(server.fresh(), sizes.jobs, TYPES[:1], processes)
        yield f"without, {processes} processes", {**plain, "to without": 1.0}
        found = batch(server.fresh(), sizes.jobs, processes)
        yield f"a batch, {processes} processes", {**found, "to without": found["jobs/s"] / plain["jobs/s"]}


def blocked(server: Server, sizes: Sizes) -> Iterator[Row]:
    for keys in (1, sizes.blocked_keys):
        yield from blocked_jobs(server.fresh(), sizes.blocked, keys)


def tenants(server: Server, sizes: Sizes) -> Iterator[Row]:
    for number in (10, sizes.tenants):
        yield f"{number:,} tenants", many_tenants(server.fresh(), number)


SCENARIOS: dict[str, tuple[str, Callable[[Server, Sizes], Iterator[Row]]]] = {
    "drain": ("no-op jobs through treadle worker --processes N, one job type and ten", drains),
    "claims": ("claims of 10 and nothing else, by many connections at once, one lane and ten", concurrent_claims),
    "locked": ("a claim of 10 from two lanes whose oldest jobs somebody's UPDATE has locked", locked_rows),
    "idle-lanes": ("a claim and a tick with many lanes that have no work", idle_lanes),
    "busy-lanes": ("a claim of 10 and a tick with many lanes of one job each", busy_lanes),
    "priorities": ("a claim of 10, a tick and an enqueue with many distinct priorities", distinct_priorities),
    "snapshot": ("claim_job_batch of 10 without ticks, while a snapshot is held open", held_snapshot),
    "limits": ("no-op jobs with a limit of 50 per key, against the same jobs without", limits),
    "fairness": ("no-op jobs of tenants that take turns, against the same jobs without", fairness),
    "blocked": ("a claim of 10 beside many jobs that wait for their limit", blocked),
    "tenants": ("a claim of 10 with many tenants that take turns", tenants),
    "waiting": ("a claim of 10 and a tick beside many jobs that wait for others", waiting),
    "fan-out": ("one job, many after it, and one after all of them, against the same jobs without waiting", fan_out),
    "batch": ("a batch with a callback, against the same jobs without", batches),
    "transaction": ("claim, tick and pick-up beside a writing transaction that was left open", open_transaction),
    "history": ("the same with nothing beside it", history),
    "prepared": ("the same beside a prepared transaction", prepared_transaction),
    "slot": ("the same beside a replication slot that nobody reads", unused_slot),
}


def _number(types: list[str]) -> str:
    return "one type" if len(types) == 1 else f"{len(types)} types"


def _growing(most: int) -> list[int]:
    """10,000, 100,000 … up to the most."""
    steps = [number for power in range(4, 8) if (number := 10**power) < most]
    return [*steps, most]
