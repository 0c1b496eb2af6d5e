"""Claims take the highest priority first, then the oldest; each job goes to one claimer; the limit is kept."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import Barrier
from treadle import Connections, JobQueue, JobRow, Status


def test_jobs_of_many_types_and_priorities_are_claimed_in_order(queue: JobQueue) -> None:
    chance = random.Random(7)
    expected = []
    for nth in range(300):
        priority = chance.choice([30, 100, 100, 150])
        job_id = queue.enqueue(f"type-{chance.randrange(12)}", priority=priority)
        expected.append((-priority, nth, job_id))
    expected.sort()
    types = [f"type-{nth}" for nth in range(12)]
    claimed: list[JobRow] = []
    while batch := queue.claim(types, chance.randint(1, 17)):
        claimed += batch
    assert [job.id for job in claimed] == [job_id for *_, job_id in expected]


def test_jobs_of_several_queues_are_claimed_in_order(queue: JobQueue) -> None:
    first = queue.enqueue("a", queue="eu")
    second = queue.enqueue("a", queue="us")
    third = queue.enqueue("a")
    assert [job.id for job in queue.claim(["a"], queues=["us", "default"])] == [second, third]
    assert [job.id for job in queue.claim(["a"])] == [first]


def test_delayed_jobs_are_not_claimed_from_several_lanes_of_a_priority(queue: JobQueue) -> None:
    queue.enqueue("type-0", delay="1h")
    queue.enqueue("type-1", delay="1h")
    assert queue.claim(["type-0", "type-1"]) == []


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_claim_skips_locked_rows_and_keeps_the_order(queue: JobQueue, connect: Connect, lanes: int) -> None:
    """Also with several lanes of one priority: after the locked jobs, the oldest one is next."""
    ids = [queue.enqueue(f"type-{nth % lanes}") for nth in range(60)]
    locker, claimer = connect(autocommit=False), connect()
    locker.execute("select from jobs where id = any (%s) for update", [ids[:50]])
    claimer.execute("set lock_timeout = '2s'")
    types = [f"type-{nth}" for nth in range(lanes)]
    rows = claimer.execute("select id from claim_job_batch('w', %s, 8)", [types]).fetchall()
    assert [row[0] for row in rows] == ids[50:58]


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_claim_does_not_wait_if_all_rows_are_locked(queue: JobQueue, connect: Connect, lanes: int) -> None:
    ids = [queue.enqueue(f"type-{nth % lanes}") for nth in range(6)]
    locker, claimer = connect(autocommit=False), connect()
    locker.execute("select from jobs where id = any (%s) for update", [ids])
    claimer.execute("set lock_timeout = '2s'")
    types = [f"type-{nth}" for nth in range(lanes)]
    assert claimer.execute("select id from claim_job_batch('w', %s)", [types]).fetchall() == []


@pytest.mark.parametrize(("locked", "wanted"), [(50, 8), (59, 1), (59, 8), (60, 1), (60, 8)])
def test_a_claim_does_not_wait_for_rows_that_a_savepoint_has_locked(
    queue: JobQueue, connect: Connect, locked: int, wanted: int
) -> None:
    """Rows that look as if they were not locked: a snapshot does not list the transaction of a savepoint."""
    ids = [queue.enqueue(f"type-{nth % 3}") for nth in range(60)]
    locker, claimer = connect(autocommit=False), connect()
    locker.execute("savepoint of_the_lock")
    locker.execute("select from jobs where id = any (%s) for update", [ids[:locked]])
    claimer.execute("select pg_current_xact_id()")  # a newer one has ended
    claimer.execute("set statement_timeout = '5s'")
    rows = claimer.execute(
        "select id from claim_job_batch('w', %s, %s)", [["type-0", "type-1", "type-2"], wanted]
    ).fetchall()
    assert len(rows) == min(wanted, 60 - locked)
    assert {row[0] for row in rows} <= set(ids[locked:])


def test_a_claim_notices_what_others_lock_while_it_chooses(queue: JobQueue, connect: Connect, barrier: Barrier) -> None:
    """Otherwise it would take a job of a lower priority for each that it has lost."""
    lower = {queue.enqueue("b", priority=10) for _ in range(4)}
    ids = [queue.enqueue("a") for _ in range(20)]
    queue.enqueue("b", delay=9)  # a second lane of this priority
    connection, claimer, locker = connect(), connect(), connect(autocommit=False)
    connection.execute("select tick('0')")
    row = connection.execute("select pg_get_functiondef('oldest_of_lanes'::regproc)").fetchone()
    assert row is not None
    try:
        text = row[0].replace("v_read := jobs;", "v_read := jobs; perform public.pass_barrier();")
        assert text != row[0]
        connection.execute(text)
        with ThreadPoolExecutor() as threads:
            claim = threads.submit(claimer.execute, "select id from claim_job_batch('w', '{a,b}', 4)")
            barrier.wait_until_reached()
            locker.execute("select from jobs where id = any (%s) for update", [ids[1:10]])
            barrier.open()
            claimed = {row[0] for row in claim.result(30).fetchall()}
    finally:
        connection.execute(row[0])
    assert len(claimed) == 4
    assert not claimed & lower


def test_a_claim_locks_only_the_jobs_that_it_takes(queue: JobQueue, connect: Connect) -> None:
    """A claim in an open transaction locks only the jobs that it has claimed, even if it read several lanes."""
    ids = [queue.enqueue(f"type-{nth % 3}") for nth in range(9)]
    other_claimer = connect(autocommit=False)
    types = "{type-0,type-1,type-2}"
    assert len(other_claimer.execute("select from claim_job_batch('x', %s, 2)", [types]).fetchall()) == 2
    assert [job.id for job in queue.claim(["type-0", "type-1", "type-2"])] == ids[2:]


@pytest.mark.parametrize("seed", range(4))
def test_jobs_that_were_enqueued_in_bursts_are_claimed_in_order(
    queue: JobQueue, connection: Connection[Any], seed: int
) -> None:
    """However unevenly the lanes are filled, and also if many jobs were due at the same moment."""
    chance = random.Random(seed)
    jobs: list[tuple[str, int]] = []
    while len(jobs) < 1500:
        burst = chance.choice([1, 3, 40, 200])
        kind, same = f"type-{chance.randrange(8)}", chance.random() < 0.2
        jobs += [(kind, len(jobs) + (0 if same else nth)) for nth in range(burst)]
    connection.execute(
        """insert into jobs (job_type, run_at)
        select job_type, now() - interval '1 hour' + millisecond * interval '1 ms'
        from unnest(%s::text[], %s::int[]) as job (job_type, millisecond)""",
        [[kind for kind, _ in jobs], [moment for _, moment in jobs]],
    )
    types = [f"type-{nth}" for nth in range(8)]
    claimed: list[JobRow] = []
    while batch := queue.claim(types, chance.choice([1, 10, 100, 400])):
        claimed += batch
    due = [job.run_at for job in claimed]
    assert len(due) == len(jobs)
    assert due == sorted(due)


def test_many_claimers_keep_the_order(url: str, queue: JobQueue) -> None:
    """A claim that began after another had finished never gets a job that the other should have got."""
    for priority in (30, 100, 150):
        for nth in range(5):
            queue.enqueue_many(f"type-{nth}", [{}] * 150, priority=priority)
    types = [f"type-{nth}" for nth in range(5)]
    ticks = iter(range(10**9))
    spans: list[tuple[int, int, list[JobRow]]] = []

    def work(nth: int) -> None:
        with JobQueue(url, f"worker-{nth}", connections=Connections(pool_size=1)) as mine:
            while True:
                begin = next(ticks)
                batch = mine.claim(types, 7)
                spans.append((begin, next(ticks), batch))
                if not batch:
                    return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(len(batch) for *_, batch in spans) == 2250
    spans = sorted(span for span in spans if span[2])
    for _, end, batch in spans:
        assert all(one.priority >= two.priority for one, two in pairwise(batch))
        lowest = min(job.priority for job in batch)
        later = [job.priority for begin, _, others in spans if begin > end for job in others]
        assert not later or max(later) <= lowest


def test_no_job_is_claimed_twice_by_sync_and_async_claimers(url: str, queue: JobQueue) -> None:
    """16 claimers, half of them async, 8,000 jobs: each claimed exactly once."""
    total = 8_000
    expected = set(queue.enqueue_many("a", [{}] * total))
    claimed: list[Any] = []
    guard = threading.Lock()

    def sync_claimer(nth: int) -> None:
        with JobQueue(url, f"sync-{nth}", connections=Connections(pool_size=1)) as mine:
            while batch := mine.claim(["a"], 50):
                with guard:
                    claimed.extend((job.id, job.lease, job.attempts) for job in batch)

    async def async_claimer(nth: int) -> None:
        async with JobQueue(url, f"async-{nth}", connections=Connections(pool_size=1)) as mine:
            while batch := await mine.aclaim(["a"], 50):
                with guard:
                    claimed.extend((job.id, job.lease, job.attempts) for job in batch)

    async def async_claimers() -> None:
        await asyncio.gather(*map(async_claimer, range(8)))

    with ThreadPoolExecutor(9) as pool:
        loop = pool.submit(asyncio.run, async_claimers())
        list(pool.map(sync_claimer, range(8)))
        loop.result()
    assert len(claimed) == total
    assert set(claimed) == {(job_id, 1, 1) for job_id in expected}
    assert queue.counts()[Status.CLAIMED] == total


PLANNER_SETTINGS = [
    "enable_indexscan",
    "enable_indexonlyscan",
    "enable_bitmapscan",
    "enable_nestloop",
    "enable_hashjoin",
    "enable_mergejoin",
    "enable_seqscan",
    "enable_tidscan",
    "enable_material",
    "enable_sort",
]


@pytest.mark.parametrize("setting", PLANNER_SETTINGS)
def test_a_claim_keeps_its_limit_with_any_planner_setting(connection: Connection[Any], setting: str) -> None:
    connection.execute(f"set {setting} = off")
    connection.execute("set plan_cache_mode = force_generic_plan")
    connection.execute("insert into jobs (job_type) select 'type-' || n % 2 from generate_series(1, 300) as n")
    for types in ("{type-0}", "{type-0,type-1}"):
        rows = connection.execute("select id from claim_job_batch('w', %s, 10)", [types]).fetchall()
        assert len(rows) == len(set(rows)) == 10
    assert connection.execute("select count(*) from jobs where status = 'claimed'").fetchone() == (20,)
