"""Races that were found by reading the code, each in a forced order. Most of them lost a job or blocked a key."""

import threading
import time
from typing import Any

import psycopg
import pytest
from chaos.invariants import LOST
from psycopg import Connection, errors

from tests.conftest import Connect
from tests.support.waiting import Barrier, make_tick_due, until_waiting_for_lock, wait_for_floor_margin
from treadle import JobQueue


def assert_found(connection: Connection[Any], count: int = 1) -> None:
    assert connection.execute(LOST).fetchall() == []
    make_tick_due(connection)
    assert len(connection.execute("select from claim_job_batch('w', '{a}')").fetchall()) == count


def enqueue_and_complete(queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 3)
    queue.complete_many(queue.claim(["a"]))


def tick(connection: Connection[Any], times: int = 1) -> None:
    for _ in range(times):
        connection.execute("select tick('0')")


# Keys


def test_blocked_jobs_of_one_transaction_do_not_wait_for_each_other_forever(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a", key="k")
    (head,) = queue.claim(["a"])
    late = connect(autocommit=False)
    JobQueue(late).enqueue_many("a", [{}] * 3, keys=["k"] * 3)
    queue.complete(head)
    late.commit()
    assert len(queue.claim(["a"])) == 1


def test_finishing_one_job_and_cancelling_another_at_once_unblocks_the_third(queue: JobQueue, connect: Connect) -> None:
    first, _, third = queue.enqueue_many("a", [1, 2, 3], keys=["k"] * 3)
    (head,) = queue.claim(["a"])
    queue.fail(head, "broken", final=True)
    (running,) = queue.claim(["a"])
    queue.retry(first)  # now one runs, one is the pending head, one is blocked
    finishing, cancelling, monitor = connect(autocommit=False), connect(autocommit=False), connect()
    finishing.execute("select complete_job(%s)", [running.id])
    cancel = threading.Thread(target=cancelling.execute, args=["select cancel_job(%s)", [first]])
    cancel.start()
    until_waiting_for_lock(monitor)
    finishing.commit()
    cancel.join()
    cancelling.commit()
    assert [job.id for job in queue.claim(["a"])] == [third]


@pytest.mark.parametrize("holds", [0, 1])
def test_the_key_of_an_unfinished_job_cannot_be_changed(queue: JobQueue, connect: Connect, holds: int) -> None:
    queue.enqueue_many("a", [1, 2], keys=["k", "k"])
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="cannot be changed while it is pending"):
        connect().execute("update jobs set key = null where holds = %s", [holds])


def test_claimers_that_take_two_keys_in_opposite_order_do_not_wait_for_each_other(
    connect: Connect, barrier: Barrier
) -> None:
    """Each sees other heads of two keys and claims them in another order. A trigger stops both between the two rows."""
    connection, older, one, two = connect(), connect(autocommit=False), connect(), connect()
    connection.execute(
        """create function pause() returns trigger language plpgsql as $$ begin
        if current_setting('test.seen', true) = 'yes' then perform public.pass_barrier(); end if;
        perform set_config('test.seen', 'yes', false); return new; end $$"""
    )
    connection.execute(
        """create trigger pause before update on jobs for each row when (new.status = 'claimed')
        execute function pause()"""
    )
    try:
        older.execute("select enqueue('b', p_key => 'k2'), enqueue('b', p_key => 'k1')")
        connection.execute("select enqueue('a', p_key => 'k1'), enqueue('a', p_key => 'k2')")
        results: list[Any] = []

        def claim(claimer: Connection[Any], types: str) -> None:
            try:
                results.append(claimer.execute("select from claim_job_batch('w', %s)", [types]).fetchall())
            except psycopg.Error as error:
                results.append(error)

        first = threading.Thread(target=claim, args=[one, "{a}"])
        first.start()
        barrier.wait_until_reached()
        older.commit()
        second = threading.Thread(target=claim, args=[two, "{b}"])
        second.start()
        barrier.wait_until_reached(2)
        barrier.open()
        first.join()
        second.join()
        assert all(isinstance(result, list) for result in results), results
        row = connection.execute("select count(*), count(distinct key) from jobs where status = 'claimed'").fetchone()
        assert row
        assert row[0] == row[1] >= 1
        assert connection.execute("show lock_timeout").fetchone() == ("0",)
    finally:
        connection.execute("drop trigger pause on jobs; drop function pause()")


# Floors


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_job_released_without_seeing_the_newest_floor_is_found(queue: JobQueue, connect: Connect, ticks: int) -> None:
    connection, ticker, releaser = connect(), connect(autocommit=False), connect(autocommit=False)
    between = connect(autocommit=False)
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    enqueue_and_complete(queue)
    for _ in range(2):
        wait_for_floor_margin(connection)
        tick(connection, 4)
    enqueue_and_complete(queue)
    wait_for_floor_margin(connection)
    tick(ticker)
    between.execute("select pg_current_xact_id()")
    releaser.execute("select release_job(%s)", [job.id])
    tick(ticker, ticks - 1)
    ticker.commit()
    tick(connection)
    between.rollback()
    tick(connection, 4)
    releaser.commit()
    assert_found(connection)


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_lane_is_not_retired_while_a_job_is_being_enqueued(queue: JobQueue, connect: Connect, isolation: str) -> None:
    connection, ticker, producer = connect(), connect(autocommit=False), connect(autocommit=False)
    retire(queue, connection, "-infinity")
    producer.execute(f"set transaction isolation level {isolation}")
    tick(ticker)
    producer.execute("select enqueue('a')")
    ticker.commit()
    tick(connection, 4)
    producer.commit()
    tick(connection, 4)
    assert_found(connection)


def test_a_job_whose_lane_became_idle_before_its_commit_is_found(queue: JobQueue, connect: Connect) -> None:
    connection, producer = connect(), connect(autocommit=False)
    stop_sweeping(connection)
    retire(queue, connection, "-infinity")
    producer.execute("select enqueue('a')")
    tick(connection, 4)
    assert connection.execute("select bool_and(dormant_xid is not null) from lanes").fetchone() == (True,)
    producer.commit()
    tick(connection)
    assert len(connection.execute("select from claim_job_batch('w', '{a}')").fetchall()) == 1


@pytest.mark.parametrize(
    "order",
    [
        ["claimer", "producer", "tick"],
        ["claimer", "tick", "producer", "tick"],
        ["producer", "tick", "claimer", "tick"],
        ["tick", "producer", "tick", "claimer", "tick"],
    ],
)
def test_a_job_whose_lane_a_claim_made_idle_is_found(queue: JobQueue, connect: Connect, order: list[str]) -> None:
    """The claim does not see the job, the enqueue does not see that the lane is idle; they commit in any order."""
    connection = connect()
    stop_sweeping(connection)
    transactions = {"claimer": connect(autocommit=False), "producer": connect(autocommit=False)}
    connection.execute(
        """insert into lanes (queue, job_type, priority, changed_at)
        select 'queue-' || nth, 'a', 100, now() - interval '1 hour' from generate_series(1, 150) as nth"""
    )
    connection.execute(
        "insert into floors (queue, job_type, priority, floor, xid)"
        " select queue, job_type, priority, changed_at, '3' from lanes"
    )
    transactions["producer"].execute("select enqueue('a', p_queue => 'queue-70')")
    assert transactions["claimer"].execute("select from claim_job_batch('w', '{a}')").fetchall() == []
    for step in order:
        if step == "tick":
            make_tick_due(connection)
            tick(connection)
        else:
            transactions[step].commit()
    active = connection.execute("select queue from lanes where dormant_xid is null").fetchall()
    assert active == [("queue-70",)]
    assert len(connection.execute("select from claim_job_batch('w', '{a}')").fetchall()) == 1


def test_a_job_placed_before_two_overlapping_ticks_were_committed_is_found(queue: JobQueue, connect: Connect) -> None:
    """The job is placed by a transaction that began after both ticks, but saw the floors of neither."""
    connection, first, second = connect(), connect(autocommit=False), connect(autocommit=False)
    releaser = connect(autocommit=False)
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    tick(connection)
    stop_sweeping(connection)
    connection.execute("delete from floors")
    write_floor(connection, "now() - interval '1 hour'")
    wait_for_floor_margin(connection)
    for ticker in (first, second):
        make_tick_due(connection)
        tick(ticker)
    releaser.execute("select release_job(%s)", [job.id])
    first.commit()
    second.commit()
    make_tick_due(connection)
    tick(connection)
    releaser.commit()
    make_tick_due(connection)
    tick(connection)
    assert len(connection.execute("select from claim_job_batch('w', '{a}')").fetchall()) == 1


def test_a_floor_with_a_lower_id_than_a_tick_that_did_not_see_it_does_not_count_as_seen(
    queue: JobQueue, connect: Connect
) -> None:
    """A claim takes its id between the snapshot and the id of a tick, and raises the floor. A job is released without
    having seen that floor, and commits after another tick. Found by exploring the model (make proof)."""
    connection, claimer, releaser = connect(), connect(autocommit=False), connect(autocommit=False)
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    tick(connection)
    stop_sweeping(connection)
    connection.execute("delete from floors")
    write_floor(connection, "now() - interval '1 hour'")
    tick(connection, 2)
    (snapshot,) = connection.execute("select pg_snapshot_xmax(pg_current_snapshot())::text").fetchone() or ("",)
    write_floor(claimer, "now()")
    connection.execute(
        """insert into ticks (xid, ticked_at, next_xid, running, look_after, sweep_after)
        values (pg_current_xact_id(), clock_timestamp(), %s, '{}', now(), 'infinity')""",
        [snapshot],
    )
    releaser.execute("select release_job(%s)", [job.id])
    claimer.commit()
    make_tick_due(connection)
    tick(connection)
    releaser.commit()
    make_tick_due(connection)
    tick(connection)
    assert len(connection.execute("select from claim_job_batch('w', '{a}')").fetchall()) == 1


def test_an_enqueue_on_an_old_snapshot_adds_a_lane_that_was_retired_since(queue: JobQueue, connect: Connect) -> None:
    connection, old = connect(), connect(autocommit=False)
    retire(queue, connection, "-infinity")
    old.execute("set transaction isolation level repeatable read")
    assert len(old.execute("select from lanes").fetchall()) == 1
    until_no_lanes(connection)
    old.execute("select enqueue('a')")
    old.commit()
    assert_found(connection)


def test_an_unused_lane_is_retired_and_comes_back(queue: JobQueue, connect: Connect) -> None:
    connection = connect()
    retire(queue, connection, "-infinity")
    until_no_lanes(connection)
    queue.enqueue("a")
    assert_found(connection)


def test_a_backdated_job_in_a_lane_about_to_be_retired_is_found(queue: JobQueue, connect: Connect) -> None:
    connection = connect()
    retire(queue, connection, "2 days ago")
    tick(connection)
    connection.execute("insert into jobs (job_type, created_at) values ('a', now() - interval '5 days')")
    assert_found(connection)


def test_a_job_whose_time_was_read_long_before_its_insert_is_found(queue: JobQueue, connect: Connect) -> None:
    connection, slow = connect(), connect(autocommit=False)
    slow.execute("set transaction isolation level repeatable read")
    insert = threading.Thread(
        target=slow.execute,
        args=[
            """with before as materialized (select clock_timestamp() as moment, pg_sleep(2.5))
            insert into jobs (job_type, run_at) select 'a', moment from before"""
        ],
    )
    insert.start()
    while insert.is_alive():
        enqueue_and_complete(queue)
        tick(connection)
    slow.commit()
    assert_found(connection)


def test_a_job_inserted_without_attempts_and_repaired_is_found(queue: JobQueue, connect: Connect) -> None:
    connection = connect()
    connection.execute("insert into jobs (job_type, max_attempts) values ('a', 0)")
    wait_for_floor_margin(connection)
    for _ in range(5):
        enqueue_and_complete(queue)
        tick(connection)
    connection.execute("update jobs set max_attempts = 3 where max_attempts = 0")
    assert_found(connection)


def test_a_job_in_a_lane_whose_floor_lies_ahead_of_the_clock_is_found(queue: JobQueue, connect: Connect) -> None:
    """Such a floor simulates a clock that was set back."""
    connection = connect()
    enqueue_and_complete(queue)
    write_floor(connection, "now() + interval '10 minutes'")
    insert_without_triggers(connection, "now() + interval '7 minutes'")
    tick(connection)
    queue.enqueue("a")
    assert connection.execute(LOST).fetchall() == []


def test_a_job_that_was_added_without_triggers_is_found(queue: JobQueue, connect: Connect) -> None:
    """Logical replication fires no triggers, so the jobs that it adds may lie below a floor or have no lane."""
    connection = connect()
    enqueue_and_complete(queue)
    write_floor(connection, "now() - interval '1 second'")
    insert_without_triggers(connection, "now() - interval '30 minutes'")
    insert_without_triggers(connection, "now() - interval '30 minutes'", job_type="b")
    claimed = 0
    end = time.monotonic() + 30
    while claimed < 2:
        assert time.monotonic() < end, "the jobs were not found"
        tick(connection)
        claimed += len(connection.execute("select from claim_job_batch('w', '{a,b}')").fetchall())


def test_a_tick_in_a_transaction_that_has_written_does_nothing(queue: JobQueue, connect: Connect) -> None:
    ticker = connect(autocommit=False)
    queue.enqueue("a")
    ticker.execute("update jobs set progress = 1")
    assert ticker.execute("select tick('0'), last_value from tick_clock").fetchone() == (0, 0)


def test_only_one_tick_runs_at_a_time(queue: JobQueue, connect: Connect) -> None:
    connection, ticker = connect(), connect(autocommit=False)
    tick(connection)  # if there was none for long, nobody waits for one that does not end
    queue.enqueue("a")
    wait_for_floor_margin(connection)
    assert ticker.execute("select tick('0')").fetchone() == (1,)
    assert connection.execute("select tick('0')").fetchone() == (0,)
    ticker.rollback()
    assert connection.execute("select tick('0')").fetchone() == (1,)


@pytest.mark.parametrize("ends", [False, True])
def test_a_tick_counts_when_it_is_committed(queue: JobQueue, connect: Connect, ends: bool) -> None:
    """What one finds that is rolled back, or stays open, is found by the next claim."""
    connection, late, ticker = connect(), connect(autocommit=False), connect(autocommit=False)
    queue.enqueue_many("a", [{}] * 3)
    late.execute("insert into jobs (job_type) values ('a')")
    wait_for_floor_margin(connection)
    queue.complete_many(queue.claim(["a"]))
    tick(connection)
    late.commit()  # below the floor
    make_tick_due(connection)
    assert ticker.execute("select tick('0')").fetchone() == (1,)
    if ends:
        ticker.rollback()
    assert len(queue.claim(["a"])) == 1


def test_a_tick_counts_at_once_for_whoever_makes_it(queue: JobQueue, connect: Connect) -> None:
    """Otherwise, each claim of a program without workers would start at the floors of some time ago."""
    connection, claimer = connect(), connect(autocommit=False)
    queue.enqueue("a")
    make_tick_due(connection)
    for _ in range(2):
        assert claimer.execute("select (prepare_lanes('{a}')).xid").fetchone() == (None,)
    claimer.commit()
    assert queue.claim(["a"])


def test_jobs_with_the_same_time_as_locked_ones_are_claimed(connect: Connect) -> None:
    connection, locker = connect(), connect(autocommit=False)
    connection.execute("insert into jobs (job_type, created_at) select 'a', '2026-01-01' from generate_series(1, 20)")
    connection.execute("insert into jobs (job_type, created_at) values ('b', '2026-01-02')")
    assert len(locker.execute("select from claim_job_batch('w', '{a}', 10)").fetchall()) == 10
    assert len(connection.execute("select from claim_job_batch('w', '{a,b}', 10)").fetchall()) == 10


def test_a_job_released_at_a_lowered_floor_is_found(queue: JobQueue, connect: Connect) -> None:
    """A late commit lowers the floor; a release is placed there, and commits after the late job is completed."""
    connection, late, releaser = connect(), connect(autocommit=False), connect(autocommit=False)
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    late.execute("insert into jobs (job_type) values ('a')")
    write_floor(connection, "clock_timestamp()")  # what a tick may write now
    late.commit()
    tick(connection)
    releaser.execute("select release_job(%s)", [job.id])
    queue.complete_many(queue.claim(["a"]))
    enqueue_and_complete(queue)
    tick(connection, 6)
    releaser.commit()
    assert_found(connection)


def test_a_tick_on_an_old_snapshot_does_nothing(queue: JobQueue, connect: Connect) -> None:
    connection, old = connect(), connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select from lanes")
    enqueue_and_complete(queue)
    wait_for_floor_margin(connection)
    tick(connection)
    assert old.execute("select tick('0')").fetchone() == (0,)


def test_recovery_does_not_wait_for_locked_jobs(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    finishing, connection = connect(autocommit=False), connect()
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")
    finishing.execute("select complete_job(%s)", [job.id])
    connection.execute("set statement_timeout = '5s'")
    assert connection.execute("select recover_stale_jobs('1 minute')").fetchone() == (0,)


def until_no_lanes(connection: Connection[Any]) -> None:
    end = time.monotonic() + 60
    while connection.execute("select from lanes").fetchall():
        assert time.monotonic() < end, "the lane was not retired"
        tick(connection)
        time.sleep(0.005)


def retire(queue: JobQueue, connection: Connection[Any], when: str) -> None:
    """Make a lane that was last used days ago."""
    enqueue_and_complete(queue)
    connection.execute("delete from jobs")
    past = "'-infinity'" if when == "-infinity" else "now() - interval '2 days'"
    connection.execute("update lanes set changed_at = now() - interval '3 days'")
    connection.execute(f"update floors set floor = {past}")


def stop_sweeping(connection: Connection[Any]) -> None:
    """Ticks no longer search the lanes from their beginning: what they find they must know otherwise."""
    tick(connection)
    connection.execute("update ticks set sweep_after = 'infinity'")


def write_floor(connection: Connection[Any], floor: str) -> None:
    connection.execute(
        f"""insert into floors (queue, job_type, priority, floor, xid)
        values ('default', 'a', 100, {floor}, pg_current_xact_id())"""
    )


def insert_without_triggers(connection: Connection[Any], run_at: str, job_type: str = "a") -> None:
    connection.execute("set session_replication_role = replica")
    connection.execute(f"insert into jobs (id, job_type, run_at) values (gen_random_uuid(), %s, {run_at})", [job_type])
    connection.execute("set session_replication_role = origin")
