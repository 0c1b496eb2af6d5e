"""Periodic maintenance of the queue, done by every worker. Two workers may do it at once: the SQL functions admit one
at a time, and the others find nothing left to do."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from treadle.db.queries import enqueueing
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import stored as stored_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import Outage, ReconnectingConnection
from treadle.jobs.listeners import Listeners
from treadle.store.locations import remove_files
from treadle.words import events
from treadle.words.duration import Duration
from treadle.words.status import Status
from treadle.worker.options import Settings
from treadle.worker.server_clock import ServerClock
from treadle.worker.services import Delay, Service
from treadle.worker.steps import Steps

TICK_EVERY = 0.5
PRUNE_EVERY = 60.0
COUNT_EVERY = 5.0
# At least: failures that were committed late, or before an upgrade.
GROUP_ERRORS_EVERY = 60.0
# At first; then the database says when it is due.
DEPTHS_EVERY = 2.0
RECOVER_CLIENTS_EVERY = 60.0
# After a lease has run out.
SOON = 0.05
EXPIRE_EVERY = 10.0
# Floors move only when jobs are claimed: there is no tick if the last claim is longer ago.
TICK_AFTER_CLAIM = 2.0
SWEEP_BATCH = 100
# At most, and at least.
PRUNE_STEPS = 2_000, 10
EXPIRE_STEPS = 1_000, 10
COUNT_STEPS = 100_000, 100
GROUP_STEPS = 2_000, 5
# How long one pass may take.
PASS_SECONDS = 5.0


def services(
    connection: ReconnectingConnection,
    clock: ServerClock,
    chosen: Settings,
    keep: Mapping[Status, Duration | None],
    grace: timedelta,
    outage: Outage,
    listeners: Listeners,
    claimed_at: Callable[[], float],
) -> list[Service]:
    """The maintenance of a worker with these settings. `keep` says how long finished jobs are kept, `grace` how long
    stored objects that no job uses; `claimed_at` is when the worker claimed last."""
    pruning, expiring, counting, grouping = (
        Steps(*each) for each in (PRUNE_STEPS, EXPIRE_STEPS, COUNT_STEPS, GROUP_STEPS)
    )

    async def tick() -> None:
        if time.monotonic() - claimed_at() < TICK_AFTER_CLAIM:
            await move_floors(connection)

    async def recover() -> Delay | None:
        server = await clock.check()
        if server.losses:
            await recover_lost(connection, chosen.crash_limit, chosen.lease, outage, listeners, clock)
        # A live worker renews its lease long before: only that of a lost one runs out before the next check is due.
        return None if server.next_loss is None else Delay(min(chosen.renew_every, server.next_loss + SOON))

    async def recover_clients() -> None:
        await clock.check()
        await recover_unregistered(connection, chosen.crash_limit, listeners)

    async def remove_old() -> None:
        await clock.check()
        await prune(connection, pruning, keep)
        await connection.run(schedule_queries.prune())
        await connection.run(enqueueing.prune_unique_periods())
        await connection.run(group_queries.prune())
        await sweep(connection, grace)

    async def count_finished() -> None:
        if await count(connection, counting):  # which includes failed attempts
            await group_errors(connection, grouping)

    async def count_deep() -> Delay:
        return Delay(max(0.5, await connection.run(operation_queries.count_depths())))

    async def group_late_errors() -> None:
        await group_errors(connection, grouping)

    async def end_expired() -> Delay | None:
        following = await expire(connection, expiring)
        return None if following is None else Delay(min(EXPIRE_EVERY, following))

    return [
        Service(tick, TICK_EVERY),
        Service(recover, chosen.renew_every),
        Service(recover_clients, RECOVER_CLIENTS_EVERY),
        Service(remove_old, PRUNE_EVERY),
        Service(count_finished, COUNT_EVERY),
        Service(count_deep, DEPTHS_EVERY),
        Service(group_late_errors, GROUP_ERRORS_EVERY),
        Service(end_expired, EXPIRE_EVERY),
    ]


async def move_floors(connection: ReconnectingConnection) -> int:
    return await connection.run(job_queries.tick())


async def recover_lost(
    connection: ReconnectingConnection,
    crash_limit: int,
    lease: timedelta,
    outage: Outage,
    listeners: Listeners,
    clock: ServerClock | None = None,
) -> int:
    """Give back the jobs of workers that missed their lease. By the server's clock, as it was last checked: it may have
    jumped since."""
    # After an outage all workers seem to have missed it: wait until live workers have renewed theirs.
    if not outage.is_over_for(lease.total_seconds()):
        return 0
    at, watched = (clock.last, clock.watched) if clock else (None, None)
    return await _recover(connection, worker_queries.recover_lost_workers(crash_limit, at, watched), listeners)


async def recover_once(
    connection: ReconnectingConnection,
    server_clock: ServerClock,
    chosen: Settings,
    outage: Outage,
    listeners: Listeners,
) -> int:
    """Give back the jobs of all lost workers, and return how many these were.

    If workers seem to be lost, it waits until those that are alive have renewed their leases: the server's clock may
    have been set forward before this worker began to watch it."""
    longest = chosen.lease.total_seconds() / 2
    if (await server_clock.check()).losses and server_clock.watched < longest:
        await asyncio.sleep(longest - server_clock.watched)
        await server_clock.check()
    found = await recover_lost(connection, chosen.crash_limit, chosen.lease, outage, listeners, server_clock)
    return found + await recover_unregistered(connection, chosen.crash_limit, listeners)


async def recover_unregistered(connection: ReconnectingConnection, crash_limit: int, listeners: Listeners) -> int:
    """Give back the jobs of clients that never registered, or whose row is missing, after a day without a sign."""
    return await _recover(connection, worker_queries.recover_unregistered(crash_limit), listeners)


async def _recover(
    connection: ReconnectingConnection, query: Query[list[worker_queries.Recovered]], listeners: Listeners
) -> int:
    recovered = await connection.run(query)
    for each in recovered:
        listeners.emit(events.JobRecovered(each.id, each.job_type, each.worker_id, each.status))
    return len(recovered)


async def prune(connection: ReconnectingConnection, steps: Steps, keep: Mapping[Status, Duration | None]) -> int:
    """Delete finished jobs whose retention time is over: in batches, for at most 5 s."""
    total, end = 0, time.monotonic() + PASS_SECONDS
    for status, age in keep.items():

        async def step(limit: int, status: Status = status, age: Duration | None = age) -> tuple[int, bool]:
            pruned, _ = await connection.run(job_queries.prune(status, age or "0s", limit, after=None))
            return pruned, pruned == limit

        more = age is not None
        while more and time.monotonic() < end:
            pruned, more = await steps.run(step)
            total += pruned
    return total


async def expire(connection: ReconnectingConnection, steps: Steps) -> float | None:
    """End jobs whose time is over: in batches, for at most 5 s. Returns in how many seconds the next one expires."""

    async def step(limit: int) -> tuple[float | None, bool]:
        expired = await connection.run(enqueueing.expire(limit))
        return expired.next, expired.examined == limit

    end = time.monotonic() + PASS_SECONDS
    while True:
        following, more = await steps.run(step)
        if not more or time.monotonic() >= end:
            return following


async def count(connection: ReconnectingConnection, steps: Steps, lag: timedelta | None = None) -> int:
    """Count the jobs that finished lately, for charts. After a step that was too long, several shorter ones: for at
    most 5 s."""
    end = time.monotonic() + PASS_SECONDS
    total = done = await steps.run(lambda limit: connection.run(operation_queries.count_minutes(limit, lag)))
    while done and steps.size < steps.most and time.monotonic() < end:
        done = await steps.run(lambda limit: connection.run(operation_queries.count_minutes(limit, lag)))
        total += done
    return total


async def group_errors(connection: ReconnectingConnection, steps: Steps, lag: timedelta | None = None) -> int:
    """Count the attempts that failed lately, by group: in batches, for at most 5 s."""
    total, end = 0, time.monotonic() + PASS_SECONDS
    while True:
        done = await steps.run(lambda limit: connection.run(group_queries.group_errors(limit, lag)))
        total += done.counted
        if not done.more or time.monotonic() >= end:
            return total


async def count_all(connection: ReconnectingConnection, lag: timedelta | None = None) -> None:
    """Count what finished and what failed lately."""
    await count(connection, Steps(*COUNT_STEPS), lag)
    await group_errors(connection, Steps(*GROUP_STEPS), lag)


async def sweep(connection: ReconnectingConnection, grace: timedelta) -> int:
    """Remove stored objects that no job uses: in batches, for at most 5 s."""
    total, end = 0, time.monotonic() + PASS_SECONDS
    while time.monotonic() < end:
        swept = await connection.run(stored_queries.sweep(grace, SWEEP_BATCH))
        total += swept.removed
        if swept.files:
            gone = await asyncio.to_thread(remove_files, swept.files)
            total += await connection.run(stored_queries.forget(gone))
        if not swept.more:
            break
    return total
