"""Contents that no job uses are swept, and contents of jobs that are being enqueued are kept."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from pydantic import TypeAdapter

from tests.conftest import Connect
from tests.support.apps import run
from tests.support.stores import CONTENT, Resize, count_rows, sweep
from tests.support.waiting import until_waiting_for_lock
from treadle import JobQueue, Store, Stored, StoredNotFound, Treadle
from treadle.db.queries.stored import PART_SIZE


def test_unused_content_is_kept_for_the_grace_period(app: Treadle, url: str, connection: Connection[Any]) -> None:
    app.store(CONTENT)
    assert sweep(url, grace=3600) == 0
    connection.execute("update stored set written_at = written_at - interval '59 minutes'")
    assert sweep(url, grace=3600) == 0
    connection.execute("update stored set written_at = written_at - interval '1 minute'")
    assert sweep(url, grace=3600) == 1


def test_a_sweep_continues_until_all_unused_contents_are_removed(
    app: Treadle, url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.worker.maintenance.SWEEP_BATCH", 2)
    for n in range(5):
        app.store(b"%d" % n)
    assert sweep(url) == 5
    app.store(bytes(10 * PART_SIZE))
    # Large contents are removed in short steps; if a sweep is killed, the next one continues.
    steps = connection.execute("select swept, more from sweep_stored('0', p_parts => 4)").fetchall()
    assert (steps, count_rows(connection, "stored_parts")) == ([(0, True)], 6)
    assert sweep(url, grace=3600) == 1
    assert (count_rows(connection, "stored"), count_rows(connection, "stored_parts")) == (0, 0)


def test_two_sweeps_at_once_do_not_wait_for_each_other(app: Treadle, url: str, connect: Connect) -> None:
    for _ in range(3):
        app.store(b"1")
    slow = connect(autocommit=False)
    assert slow.execute("select swept from sweep_stored('0', 2)").fetchone() == (2,)
    assert sweep(url) == 1
    slow.commit()
    assert count_rows(connect(), "stored") == 0


def test_a_sweep_refuses_to_run_in_a_repeatable_read_transaction(connect: Connect) -> None:
    connection = connect(autocommit=False)
    connection.execute("set transaction isolation level repeatable read")
    with pytest.raises(psycopg.errors.RaiseException, match="needs a READ COMMITTED transaction"):
        connection.execute("select sweep_stored('0')")


def test_enqueueing_content_that_is_being_swept_is_an_error(
    app: Treadle, resize: Resize, queue: JobQueue, connect: Connect
) -> None:
    stored = app.store(CONTENT)
    sweeper = connect(autocommit=False)
    assert sweeper.execute("select swept from sweep_stored('0', p_parts => 1)").fetchone() == (0,)
    with ThreadPoolExecutor(1) as pool:
        enqueue = pool.submit(resize.enqueue, stored)
        until_waiting_for_lock(connect())
        sweeper.commit()
        with pytest.raises(StoredNotFound):
            enqueue.result()
    assert queue.list().jobs == []


def test_a_sweep_that_is_rolled_back_removes_nothing(app: Treadle, resize: Resize, connect: Connect) -> None:
    stored = app.store(CONTENT)
    sweeper = connect(autocommit=False)
    sweeper.execute("select sweep_stored('0')")
    with ThreadPoolExecutor(1) as pool:
        enqueue = pool.submit(resize.enqueue, stored)
        until_waiting_for_lock(connect())
        sweeper.rollback()
        enqueue.result()
    assert app.read(stored) == CONTENT


def test_a_use_committed_between_the_query_and_the_lock_is_respected(
    app: Treadle, resize: Resize, url: str, connect: Connect
) -> None:
    """A row policy on the role of the sweeper waits: the sweep has its snapshot by then, but not its locks."""
    stored = app.store(CONTENT)
    owner, gate, role = connect(), connect(), f"sweeper_{uuid4().hex[:8]}"
    owner.execute(
        "create function public.wait_at_the_gate() returns boolean language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock_shared(4711); return true; end $$"
    )
    owner.execute(f"create role {role}; grant usage on schema treadle to {role}")
    owner.execute(f"grant all on all tables in schema treadle to {role}")
    owner.execute(f"grant execute on all functions in schema treadle to {role}")
    owner.execute("alter table stored enable row level security")
    owner.execute("create policy gate on stored using (public.wait_at_the_gate())")
    try:
        sweeper = connect()
        sweeper.execute(f"set role {role}")
        gate.execute("select pg_advisory_lock(4711)")
        with ThreadPoolExecutor(1) as pool:
            swept = pool.submit(lambda: sweeper.execute("select swept, files from sweep_stored('0')").fetchall())
            try:
                until_waiting_for_lock(owner)
            except AssertionError:
                if swept.done():
                    swept.result()  # its error says more
                raise
            resize.enqueue(stored)
            gate.execute("select pg_advisory_unlock(4711)")
            assert swept.result() == [(0, [])]
    finally:
        gate.close()
        owner.execute("drop policy gate on stored; alter table stored disable row level security")
        owner.execute(f"drop function public.wait_at_the_gate; drop owned by {role}; drop role {role}")
    assert app.read(stored) == CONTENT


def test_concurrent_enqueues_sweeps_and_prunes_lose_nothing(
    app: Treadle, resize: Resize, url: str, connect: Connect
) -> None:
    """All contents of enqueued jobs can be read, and there are no deadlocks."""
    shared = [app.store(b"%d" % n) for n in range(4)]
    resize.enqueue(shared[0], others=shared)
    stop = time.monotonic() + 2

    def enqueue(seed: int) -> int:
        done = 0
        while time.monotonic() < stop:
            try:
                mine = app.store(b"%d" % seed)
                resize.enqueue(mine, others=shared if seed % 2 else shared[::-1])
                done += 1
            except StoredNotFound:
                pass  # it was swept before it was used: this test has no grace
        return done

    def delete() -> None:
        connection = connect()
        while time.monotonic() < stop:
            connection.execute("delete from jobs where id in (select id from jobs order by id offset 10 limit 5)")

    def sweeps() -> None:
        while time.monotonic() < stop:
            sweep(url)

    with ThreadPoolExecutor(8) as pool:
        enqueues = [pool.submit(enqueue, seed) for seed in range(3)]
        others = [pool.submit(delete), pool.submit(delete), pool.submit(sweeps), pool.submit(sweeps)]
        assert sum(each.result() for each in enqueues) > 0
        for other in others:
            other.result()
    assert [app.read(each) for each in shared] == [b"0", b"1", b"2", b"3"]
    connection = connect()
    left = connection.execute("select data -> 'picture' from jobs").fetchall()
    assert len(left) > 1
    assert all(app.read(TypeAdapter(Stored).validate_python(picture)) for (picture,) in left)
    assert connection.execute("select from stored_uses where job_id not in (select id from jobs)").fetchall() == []
    connection.execute("delete from jobs")
    sweep(url)
    assert count_rows(connection, "stored") == 0


def test_the_worker_sweeps_unused_contents(
    url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.worker.maintenance.PRUNE_EVERY", 0.05)
    app = Treadle(url, store=Store(grace=0))

    @app.job
    def nothing() -> None: ...

    app.store(CONTENT)

    async def main() -> None:
        async with app.worker():
            end = time.monotonic() + 20
            while count_rows(connection, "stored") and time.monotonic() < end:
                await asyncio.sleep(0.02)

    run(app, main())
    assert count_rows(connection, "stored") == 0
