"""Guards of a worker in the database: each of these goes red when its guard is removed."""

import time
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.workers import lose_worker, one
from treadle import JobQueue, Treadle
from treadle.app import watch

NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


# Fences

WRITES = {
    "settle_jobs": "select count(*) from settle_jobs(%(worker)s, array[%(id)s], array[%(lease)s::bigint], '{retry}')",
    "start_jobs": "select count(*) from start_jobs(%(worker)s, array[%(id)s], array[%(lease)s::bigint], '{1}')",
    "complete_jobs": """select count(*)
        from complete_jobs(array[%(id)s], array[%(lease)s::bigint], array[%(worker)s::varchar])""",
}
LOSSES = {
    "taken again by the same worker": "select release_job(id) from jobs; select claim_jobs('worker-1', '{a}')",
    "held by another under the same number": "update jobs set worker_id = 'worker-2'",
    "made pending by hand": "update jobs set status = 'pending'",
    "completed": "update jobs set status = 'completed'",
    "failed": "update jobs set status = 'failed'",
    "cancelled": "select cancel_job(id) from jobs",
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_not_held_any_more_is_not_written(
    queue: JobQueue, connection: Connection[Any], write: str, loss: str
) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    for statement in LOSSES[loss].split(";"):
        connection.execute(statement)
    before = queue.get(job.id)
    params = {"worker": "worker-1", "id": job.id, "lease": job.lease}
    assert connection.execute(WRITES[write], params).fetchone() == (0,)
    assert queue.get(job.id) == before


@pytest.mark.parametrize("write", WRITES)
def test_what_is_held_is_written(queue: JobQueue, connection: Connection[Any], write: str) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    params = {"worker": "worker-1", "id": job.id, "lease": job.lease}
    assert connection.execute(WRITES[write], params).fetchone() == (1,)


def test_a_cancelled_attempt_and_a_snoozed_one_are_no_errors(queue: JobQueue, connection: Connection[Any]) -> None:
    for outcome in ("cancelled", "released"):
        queue.enqueue("a")
        (job,) = queue.claim(["a"])
        connection.execute(
            "select settle_jobs('worker-1', array[%s], '{1}', array[%s::varchar], '{told}')", [job.id, outcome]
        )
        assert queue.errors(job.id) == []
        connection.execute("delete from jobs")


# Lost workers


def recovered(connection: Connection[Any], later: str = "0") -> int:
    found: int = one(
        connection, "select count(*) from recover_lost_workers(3, clock_timestamp() + %s::interval)", later
    )
    return found


def test_who_sends_heartbeats_by_hand_has_no_lease_to_lose(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    connection.execute("select claim_jobs('by hand', '{a}')")
    connection.execute("select heartbeat('by hand')")
    assert recovered(connection, "1 year") == 0
    assert one(connection, "select lost_at is null from workers")


def test_a_claim_of_a_lost_worker_that_arrives_late_is_given_back(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    assert recovered(connection) == 0
    assert one(connection, "select lost_at is not null from workers"), "it keeps its row"
    for later in ("0", "2 days"):
        queue.enqueue("a")
        connection.execute("select claim_jobs('gone', '{a}')")
        assert recovered(connection, later) == 1, "late claims have to be found, also after a day"
        connection.execute("delete from jobs")
    assert recovered(connection, "23 hours") == 0
    assert one(connection, "select count(*) from workers") == 1
    recovered(connection, "2 days")
    assert one(connection, "select count(*) from workers") == 0, "a row of a worker that is gone is not kept for ever"


def test_a_lost_worker_keeps_its_row_while_a_job_of_it_is_locked(queue: JobQueue, connect: Connect) -> None:
    connection, late = connect(), connect(autocommit=False)
    lose_worker(connection)
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    late.execute("select from jobs for update")
    connection.execute("set lock_timeout = '5s'")  # it waits for nobody
    connection.execute("select recover_worker('gone', 'gone', '{}', p_keep => false)")
    late.rollback()
    assert recovered(connection) == 1


def test_only_what_ran_on_a_lost_worker_is_suspected(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    waiting, running = queue.enqueue("a"), queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    connection.execute("update jobs set status = 'running' where id = %s", [running])
    assert recovered(connection) == 2
    assert [(queue.get(each).crashes, queue.get(each).attempts) for each in (waiting, running)] == [(0, 0), (1, 0)]


def test_lost_workers_are_recovered_by_one_at_a_time(queue: JobQueue, connect: Connect) -> None:
    connection, first = connect(), connect(autocommit=False)
    assert recovered(first) == 0
    lose_worker(connection)
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    assert recovered(connection) == 0, "somebody is at it"
    first.commit()
    assert recovered(connection) == 1


def test_a_worker_that_was_given_up_and_lives_is_not_lost_any_more(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    lose_worker(connection)
    recovered(connection)
    connection.execute("select renew_workers('{gone}', '1 minute')")
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    assert recovered(connection) == 0


def test_a_failure_without_a_reason_is_kept_too(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a")
    queue.claim(["a"])
    assert one(connection, "select fail_job(%s, null)", job_id)
    (error,) = queue.errors(job_id)
    assert (error.attempt, error.error) == (1, "no reason was given")


@pytest.mark.parametrize(
    "question",
    [
        "find_finished(%(ids)s::uuid[])",
        "find_lost_claims(%(ids)s::uuid[], %(leases)s::bigint[])",
        "find_claimed_jobs('worker-1')",
        "enqueue_unique('a', 'one')",
    ],
)
def test_a_plan_made_for_a_small_table_does_not_read_a_large_one(
    queue: JobQueue, connection: Connection[Any], question: str
) -> None:
    """A connection keeps its plans, and the table may grow meanwhile."""
    queue.enqueue_many("a", range(3))
    jobs = queue.claim(["a"], 3)
    params = {"ids": [job.id for job in jobs], "leases": [job.lease for job in jobs]}
    ask = f"select {question}".encode()
    connection.execute("vacuum analyze jobs")  # the planner believes that all of it is one page
    for _ in range(10):
        connection.execute(ask, params)
    connection.execute("insert into jobs (job_type) select 'foreign' from generate_series(1, 5000)")
    read = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relid = 'jobs'::regclass"
    with connection.transaction():
        before = one(connection, read)
        connection.execute(ask, params)
        assert one(connection, read) - before <= 10


# Bells


class Ear:
    """Hears what is said on a channel."""

    def __init__(self, connect: Connect, kind: str) -> None:
        self._connection = connect()
        self._speaker = connect()
        self._channel = one(self._speaker, "select channel(%s)", kind)
        self._connection.execute(f'listen "{self._channel}"'.encode())

    def heard(self) -> list[str]:
        """Since the last time. Notifications come in the order of commits, so nothing has to be waited for."""
        self._speaker.execute("select pg_notify(%s, 'that is all')", [self._channel])
        said: list[str] = []
        for notification in self._connection.notifies(timeout=30):
            if notification.payload == "that is all":
                return said
            said.append(notification.payload)
        raise AssertionError("nothing was heard for 30 seconds")


@pytest.mark.parametrize(
    ("last", "due", "rings"),
    [
        ("0", "0", True),
        (NOW, "0", False),
        (f"{NOW} - 1000000", "0", True),
        (f"{NOW} + 1000000", "0", True),
        ("0", "9 seconds", True),
        ("0", "11 seconds", False),
    ],
    ids=[
        "a worker rests",
        "rung just now",
        "rung a second ago, perhaps by one that rolled back",
        "the clock was set back",
        "due soon",
        "due later",
    ],
)
def test_when_workers_are_woken(connect: Connect, last: str, due: str, rings: bool) -> None:
    ear, connection = Ear(connect, "work"), connect()
    connection.execute("select wake_workers('infinity')")  # so that it is loaded
    # In one statement: 20 milliseconds are soon over.
    connection.execute(
        f"select setval('wake_clock', {last}), wake_workers(clock_timestamp() + interval '{due}')".encode()
    )
    assert ear.heard() == [""] * rings
    connection.execute("set treadle.notify = off")
    connection.execute(
        f"select setval('wake_clock', {last}), wake_workers(clock_timestamp() + interval '{due}')".encode()
    )
    assert ear.heard() == []


def test_who_adds_nothing_wakes_nobody(connect: Connect) -> None:
    ear, connection = Ear(connect, "work"), connect()
    connection.execute("select enqueue_unique('a', 'one')")
    ear.heard()
    for nothing in ("enqueue_unique('a', 'one')", "enqueue_jobs('a', '{}')"):
        connection.execute("select setval('wake_clock', 0)")  # a worker rests
        connection.execute(f"select {nothing}".encode())
        assert ear.heard() == []


def test_who_goes_to_rest_is_woken_however_soon(connect: Connect) -> None:
    ear, connection = Ear(connect, "work"), connect()
    connection.execute(f"select setval('wake_clock', {NOW}), next_due('{{a}}')".encode())
    assert one(connection, "select last_value from wake_clock") == 0
    connection.execute(
        f"select setval('wake_clock', {NOW}), next_due('{{a}}'), wake_workers(clock_timestamp())".encode()
    )
    assert ear.heard() == [""]


def test_who_has_to_be_sure_looks_below_the_floors(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    connection.execute("update lanes set floor = clock_timestamp() + interval '1 minute'")
    connection.execute(f"select setval('tick_clock', {NOW})".encode())
    assert one(connection, "select next_due('{a}')") is None
    assert one(connection, "select next_due('{a}', null, true)") <= 0


def test_what_cannot_be_claimed_keeps_nobody_from_resting(queue: JobQueue, connection: Connection[Any]) -> None:
    """Behind its key, or without an attempt left."""
    for _ in range(2):
        queue.enqueue("a", key="one")
    queue.claim(["a"])
    queue.enqueue("b")
    connection.execute("update jobs set attempts = max_attempts where job_type = 'b'")
    assert one(connection, "select next_due('{a, b}')") is None
    queue.enqueue("a")
    assert one(connection, "select next_due('{a, b}')") <= 0


def test_ends_are_told_only_while_somebody_waits(queue: JobQueue, connect: Connect) -> None:
    ear, connection = Ear(connect, "ends"), connect()
    ids = queue.enqueue_many("a", [{}] * 300)
    jobs = {job.id: job for job in queue.claim(["a"], 300)}
    assert queue.complete_many([jobs[ids[0]]]) == []
    assert ear.heard() == []
    connection.execute("select request_notifications('ends')")
    assert queue.complete_many([jobs[ids[1]]]) == []
    assert ear.heard() == [str(ids[1])]
    connection.execute("set treadle.notify = off")
    connection.execute("select announce(%s)", [ids[:1]])
    assert ear.heard() == []
    # A notification has room for 200.
    assert queue.complete_many([jobs[each] for each in ids[2:]]) == []
    assert sorted(",".join(ear.heard()).split(",")) == sorted(map(str, ids[2:]))


def test_the_holder_of_a_cancelled_job_is_told(queue: JobQueue, connect: Connect) -> None:
    ear = Ear(connect, "work")
    waiting, held = queue.enqueue("a"), queue.enqueue("b")
    queue.claim(["b"])
    ear.heard()
    queue.cancel(waiting)
    assert ear.heard() == []
    queue.cancel(held)
    assert ear.heard() == [f"cancelled {held}"]


# Waiting for ends


@pytest.mark.parametrize("look", [1, 2])
def test_an_end_that_commits_as_somebody_comes_to_wait_is_found_soon(
    app: Treadle, queue: JobQueue, connect: Connect, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """Its transaction found nobody waiting, and committed after the first look, or after the second."""
    monkeypatch.setattr(watch, "LOOK_SECONDS", 60.0)
    late = connect(autocommit=False)
    handle = app.handle(queue.enqueue("a"))
    (job,) = queue.claim(["a"])
    late.execute("select complete_job(%s, '7', %s, %s)", [job.id, job.lease, "worker-1"])
    real, looks = app.watch.ends.wake, 0

    def wake(ids: list[Any]) -> None:
        nonlocal looks
        looks += 1
        if looks == look:
            late.commit()
        real(ids)

    monkeypatch.setattr(app.watch.ends, "wake", wake)
    assert handle.result(30) == 7
    app.close()


def test_who_waits_for_long_goes_on_being_told(
    app: Treadle, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SPAN", timedelta(seconds=0.3))
    waiting = app.watch.end(queue.enqueue("a"))
    seen: set[int] = set()
    end = time.monotonic() + 10
    while len(seen) < 4 and time.monotonic() < end:
        seen.add(one(connection, "select last_value from awaited"))
    assert len(seen) == 4
    queue.complete(*queue.claim(["a"]))
    waiting.result(30)
    app.close()


def test_a_job_that_another_completed_is_lost_and_not_ours(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    (mine,) = queue.claim(["a"])
    queue.release(mine)
    (theirs,) = queue.claim(["a"])
    queue.complete(theirs)
    found = connection.execute(
        "select completed from find_lost_claims(array[%s, %s]::uuid[], array[%s, %s]::bigint[])",
        [mine.id, mine.id, mine.lease, theirs.lease],
    ).fetchall()
    assert found == [(False,), (True,)]
