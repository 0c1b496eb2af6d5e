"""Jobs with the same key run one at a time, in the order they were enqueued."""

import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Connection, errors

from tests.conftest import Connect
from tests.support.waiting import Barrier, make_tick_due, until_waiting_for_lock
from tests.support.workers import one
from treadle import Connections, JobQueue, JobRow, Status


def ids(jobs: list[JobRow]) -> list[Any]:
    return [job.id for job in jobs]


def test_only_the_oldest_job_of_a_key_is_claimed(queue: JobQueue) -> None:
    first, second = queue.enqueue("a", key="k"), queue.enqueue("b", key="k", priority=900)
    other = queue.enqueue("a", key="other")
    free = queue.enqueue("a")
    assert set(ids(queue.claim(["a", "b"]))) == {first, other, free}
    assert queue.claim(["a", "b"]) == []
    assert queue.get(second).holds == 1


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "delete", "by hand"])
def test_the_next_job_is_unblocked_when_the_head_finishes(
    queue: JobQueue, connection: Connection[Any], end: str
) -> None:
    queue.enqueue_many("a", [{}] * 3, keys=["k"] * 3)
    (head,) = queue.claim(["a"])
    if end == "complete":
        queue.complete(head)
    elif end == "fail":
        queue.fail(head, "broken", final=True)
    elif end == "cancel":
        queue.cancel(head.id)
    elif end == "delete":
        connection.execute("delete from jobs where id = %s", [head.id])
    else:
        connection.execute("update jobs set status = 'completed' where id = %s", [head.id])
    assert len(queue.claim(["a"])) == 1


def test_a_head_that_waits_for_its_retry_blocks_its_key(queue: JobQueue, connection: Connection[Any]) -> None:
    first, second = queue.enqueue("a", key="k"), queue.enqueue("a", key="k")
    (head,) = queue.claim(["a"])
    queue.fail(head, "not yet", delay="1h")
    assert queue.claim(["a"]) == []
    connection.execute("update jobs set run_at = clock_timestamp() where id = %s", [first])
    (head,) = queue.claim(["a"])
    assert head.id == first
    queue.complete(head)
    assert ids(queue.claim(["a"])) == [second]


def test_a_delayed_head_blocks_its_key(queue: JobQueue) -> None:
    queue.enqueue("a", key="k", delay="1h")
    queue.enqueue("a", key="k")
    assert queue.claim(["a"]) == []


def test_cancelling_a_blocked_job_keeps_the_order_of_the_others(queue: JobQueue) -> None:
    first, second, third = queue.enqueue_many("a", [1, 2, 3], keys=["k"] * 3)
    queue.cancel(second)
    (head,) = queue.claim(["a"])
    assert head.id == first
    assert queue.claim(["a"]) == []
    queue.complete(head)
    assert ids(queue.claim(["a"])) == [third]


def test_cancelling_a_pending_head_unblocks_the_next_job(queue: JobQueue) -> None:
    first, second = queue.enqueue_many("a", [1, 2], keys=["k"] * 2)
    queue.cancel(first)
    assert ids(queue.claim(["a"])) == [second]


def test_an_unblocked_job_keeps_its_place_in_the_lane(queue: JobQueue) -> None:
    """An unblocked job is not placed behind the jobs that were enqueued while it was blocked."""
    first, second = queue.enqueue_many("a", [1, 2], keys=["k"] * 2)
    queue.enqueue_many("a", [{}] * 50)
    (head,) = queue.claim(["a"], 1)
    assert head.id == first
    queue.complete(head)
    assert ids(queue.claim(["a"], 1)) == [second]


def test_a_job_retried_by_an_operator_runs_before_the_blocked_ones(queue: JobQueue) -> None:
    first, second, third = queue.enqueue_many("a", [1, 2, 3], keys=["k"] * 3)
    (head,) = queue.claim(["a"])
    queue.fail(head, "broken", final=True)
    (running,) = queue.claim(["a"])
    queue.retry(first)
    assert queue.claim(["a"]) == [], "two jobs of a key at once"
    queue.complete(running)
    (again,) = queue.claim(["a"])
    assert again.id == first
    queue.complete(again)
    assert ids(queue.claim(["a"])) == [third]
    assert queue.get(second).status == Status.COMPLETED


def test_the_head_finishes_while_the_next_job_is_not_yet_committed(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a", key="k")
    (head,) = queue.claim(["a"])
    late = connect(autocommit=False)
    late.execute("select enqueue('a', p_key => 'k')")
    assert late.execute("select holds from jobs where status = 'pending'").fetchone() == (1,)
    queue.complete(head)
    late.commit()
    assert len(queue.claim(["a"])) == 1, "no finishing job was left to unblock it"


def test_the_head_finishes_while_the_next_job_is_being_committed(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a", key="k")
    (head,) = queue.claim(["a"])
    late, monitor = connect(autocommit=False), connect()
    late.execute("select enqueue('a', p_key => 'k')")
    late.execute("set constraints all immediate")  # runs the deferred triggers, as the commit does first
    finishing = threading.Thread(target=queue.complete, args=[head])
    finishing.start()
    until_waiting_for_lock(monitor)
    late.commit()
    finishing.join()
    assert len(queue.claim(["a"])) == 1


def test_a_job_enqueued_while_the_head_is_finishing_is_not_blocked(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a", key="k")
    (head,) = queue.claim(["a"])
    finishing = connect(autocommit=False)
    finishing.execute("select complete_job(%s)", [head.id])
    successor = queue.enqueue("a", key="k")
    assert queue.get(successor).holds == 0
    assert queue.claim(["a"]) == [], "the head has not finished yet"
    finishing.commit()
    assert ids(queue.claim(["a"])) == [successor]


def test_the_head_finishes_while_the_next_job_is_being_cancelled(queue: JobQueue, connect: Connect) -> None:
    _, second, third = queue.enqueue_many("a", [1, 2, 3], keys=["k"] * 3)
    (head,) = queue.claim(["a"])
    canceller, monitor = connect(autocommit=False), connect()
    canceller.execute("select cancel_job(%s)", [second])
    finishing = threading.Thread(target=queue.complete, args=[head])
    finishing.start()
    until_waiting_for_lock(monitor)
    canceller.commit()
    finishing.join()
    assert ids(queue.claim(["a"])) == [third], "the head unblocked only the job that was being cancelled"


def test_a_job_enqueued_on_an_old_snapshot_commits_after_the_head_has_finished(
    queue: JobQueue, connect: Connect
) -> None:
    queue.enqueue("a", key="k")
    (head,) = queue.claim(["a"])
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select from jobs")
    queue.complete(head)
    old.execute("select enqueue('a', p_key => 'k')")
    old.commit()
    assert len(queue.claim(["a"])) == 1


def test_two_heads_from_two_open_transactions_do_not_run_at_once(queue: JobQueue, connect: Connect) -> None:
    one, two = connect(autocommit=False), connect(autocommit=False)
    one.execute("select enqueue('a', p_key => 'k')")
    two.execute("select enqueue('a', p_key => 'k')")
    two.commit()
    (running,) = queue.claim(["a"])
    one.commit()
    assert queue.claim(["a"]) == []
    queue.complete(running)
    make_tick_due(two)
    assert len(queue.claim(["a"])) == 1


def two_heads(queue: JobQueue, connect: Connect) -> tuple[Connection[Any], Connection[Any]]:
    """Two claimers: the first has claimed a job of a key in an open transaction, and the second sees an older job of
    that key, which was committed since."""
    older, first, second = connect(autocommit=False), connect(autocommit=False), connect(autocommit=False)
    older.execute("select enqueue('a', p_key => 'k')")
    queue.enqueue("a", key="k")
    queue.enqueue("a")
    assert len(first.execute("select from claim_job_batch('one', '{a}', 1)").fetchall()) == 1
    older.commit()
    return first, second


def test_a_job_that_another_claim_is_taking_costs_the_others_of_a_batch_little(
    queue: JobQueue, connect: Connect
) -> None:
    _first, second = two_heads(queue, connect)
    queue.enqueue_many("a", range(199), keys=[f"key-{nth}" for nth in range(199)])
    second.execute("set track_functions = 'pl'")
    assert len(second.execute("select from claim_job_batch('two', '{a}', 300)").fetchall()) == 200
    writes = "select pg_stat_get_xact_function_calls('mark_claimed'::regproc)"
    # The batch, its halves, the halves of one of these, and so on: each is a call, and a try in a subtransaction.
    assert one(second, writes) <= 4 * 9


def test_a_claimer_does_not_wait_for_one_that_has_claimed_a_job_of_the_key(queue: JobQueue, connect: Connect) -> None:
    first, second = two_heads(queue, connect)
    second.execute("set statement_timeout = '5s'")
    assert second.execute("select key from claim_job_batch('two', '{a}')").fetchall() == [(None,)]
    first.commit()
    second.commit()
    assert queue.claim(["a"]) == []


def test_a_claim_of_jobs_with_keys_keeps_the_callers_settings(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a", key="k")
    caller = connect(autocommit=False)
    caller.execute("set local lock_timeout = '7s'")
    assert len(caller.execute("select from claim_job_batch('w', '{a}')").fetchall()) == 1
    assert caller.execute("show lock_timeout").fetchone() == ("7s",)


def test_a_key_that_two_claimers_want_blocks_no_other_key(queue: JobQueue, connect: Connect) -> None:
    first, _ = two_heads(queue, connect)
    queue.enqueue_many("a", range(5), keys=[f"other-{n}" for n in range(5)])
    assert len(queue.claim(["a"])) == 6
    first.rollback()


def test_a_job_cancelled_while_blocked_and_then_retried_is_claimable(queue: JobQueue) -> None:
    _, second = queue.enqueue_many("a", [1, 2], keys=["k"] * 2)
    queue.cancel(second)
    (head,) = queue.claim(["a"])
    queue.complete(head)
    queue.retry(second)
    assert ids(queue.claim(["a"])) == [second]


def test_two_claimers_that_see_different_heads_do_not_both_claim_one(
    queue: JobQueue, connect: Connect, barrier: Barrier
) -> None:
    """The first claimer commits while the second is about to write: the unique index decides."""
    connection = connect()
    connection.execute(
        """create function pause() returns trigger language plpgsql as $$ begin
        if current_setting('application_name') = 'slow' then perform public.pass_barrier(); end if;
        return new; end $$"""
    )
    connection.execute("create trigger pause before update on jobs for each row execute function pause()")
    first, second = two_heads(queue, connect)
    try:
        second.execute("set application_name = 'slow'")
        with ThreadPoolExecutor(1) as pool:
            claim = pool.submit(lambda: second.execute("select key from claim_job_batch('two', '{a}')").fetchall())
            barrier.wait_until_reached()
            first.commit()
            barrier.open()
            claimed = claim.result()
    finally:
        second.rollback()
        connection.execute("drop trigger pause on jobs; drop function pause()")
    assert claimed == [(None,)]


def test_two_jobs_of_a_key_cannot_run_at_once_even_after_a_plain_update(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue_many("a", [1, 2], keys=["k", "k"])
    with pytest.raises(errors.UniqueViolation):
        connection.execute("update jobs set status = 'running'")


@pytest.mark.parametrize("types", [["a", "a"], ["a", "b"]])
def test_jobs_enqueued_on_an_old_snapshot_run_in_order_of_their_key(
    queue: JobQueue, connect: Connect, types: list[str]
) -> None:
    """They are not marked as blocked, as it is unknown whether a job will unblock them: the claim checks the key."""
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    for job_type in types:
        old.execute("select enqueue(%s, p_key => 'k')", [job_type])
    old.commit()
    (head,) = queue.claim(["a", "b"])
    assert queue.claim(["a", "b"]) == []
    queue.complete(head)
    assert len(queue.claim(["a", "b"])) == 1


def test_a_job_with_a_key_is_not_finished_on_an_old_snapshot(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a", key="k")
    (job,) = queue.claim(["a"])
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    with pytest.raises(errors.FeatureNotSupported, match="has a key"):
        old.execute("select complete_job(%s)", [job.id])


def test_many_claimers_keep_the_order_of_each_key(url: str, queue: JobQueue) -> None:
    """16 claimers, 200 keys, 3,000 jobs, of which 10 % fail and retry: never out of order, never two at once."""
    total, keys = 3_000, 200
    names = [f"k{n % keys}" for n in range(total)]
    numbers = dict(zip(queue.enqueue_many("a", range(total), keys=names), range(total), strict=True))
    running: dict[str, Any] = {}
    finished: dict[str, list[int]] = defaultdict(list)
    problems: list[str] = []
    guard = threading.Lock()

    def work(nth: int) -> None:
        chance = random.Random(nth)
        with JobQueue(url, f"worker-{nth}", connections=Connections(pool_size=1)) as mine:
            while len(problems) == 0:
                batch = mine.claim(["a"], 20)
                with guard:
                    overlapping = [job.key for job in batch if running.setdefault(str(job.key), job.id) != job.id]
                    problems.extend(f"two of {key} at once" for key in overlapping)
                done = []
                for job in batch:
                    fails = job.attempts == 1 and chance.random() < 0.1
                    with guard:
                        del running[str(job.key)]
                        if not fails:
                            finished[str(job.key)].append(numbers[job.id])
                    if fails:
                        mine.fail(job, "try again", delay=0)
                    else:
                        done.append(job)
                if mine.complete_many(done):
                    problems.append("a lease was lost")
                with guard:
                    if sum(map(len, finished.values())) == total:
                        return

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert problems == []
    assert all(order == sorted(order) for order in finished.values())
    assert queue.counts()[Status.COMPLETED] == total


def test_jobs_enqueued_in_repeatable_read_are_blocked(queue: JobQueue, connect: Connect) -> None:
    """If they were not, each claim would read all jobs of the key."""
    queue.enqueue("a", key="k")
    old = connect(autocommit=False)
    for _ in range(3):
        old.execute("set transaction isolation level repeatable read")
        old.execute("select enqueue('a', p_key => 'k')")
        old.commit()
    assert old.execute("select count(*) from jobs where holds = 1").fetchone() == (3,)
    old.commit()
    for _ in range(4):
        (job,) = queue.claim(["a"], 10)
        queue.complete(job)


@pytest.mark.parametrize("change", ["complete", "claim", "cancel"])
def test_a_job_enqueued_in_repeatable_read_is_unblocked_if_the_earlier_one_changes(
    queue: JobQueue, connect: Connect, change: str
) -> None:
    first = queue.enqueue("a", key="k")
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select enqueue('a', p_key => 'k')")
    if change == "cancel":
        queue.cancel(first)
    else:
        (job,) = queue.claim(["a"])
        if change == "complete":
            queue.complete(job)
    old.commit()
    if change == "claim":
        assert queue.claim(["a"]) == []
        queue.complete(job)
    assert len(queue.claim(["a"])) == 1
