"""Who is notified, and when: workers of new and cancelled jobs, callers of finished ones."""

import contextlib
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import one
from treadle import JobQueue, Retries, migrate
from treadle.db.embedded import embedded_url, leave
from treadle.db.queries import worker as worker_queries
from treadle.db.runner import run

NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


class Receiver:
    """Receives the notifications of a channel."""

    def __init__(self, connect: Connect, kind: str) -> None:
        self._connection = connect()
        self._speaker = connect()
        self._channel = one(self._speaker, "select channel(%s)", kind)
        self._connection.execute(f'listen "{self._channel}"'.encode())

    def received(self) -> list[str]:
        """The notifications since the last call. They come in the order of commits, so there is nothing to wait for."""
        self._speaker.execute("select pg_notify(%s, 'that is all')", [self._channel])
        said: list[str] = []
        for notification in self._connection.notifies(timeout=30):
            if notification.payload == "that is all":
                return said
            said.append(notification.payload)
        raise AssertionError("nothing was received for 30 seconds")


@pytest.mark.parametrize(
    ("last", "due", "rings"),
    [
        ("0", "0", True),
        (NOW, "0", False),
        (f"{NOW} - 1000000", "0", True),
        (f"{NOW} + 1000000", "0", True),
        ("0", "119 seconds", True),
        ("0", "121 seconds", False),
    ],
    ids=[
        "a worker waits",
        "notified just now",
        "notified a second ago, perhaps by a transaction that rolled back",
        "the clock was set back",
        "due soon",
        "due later",
    ],
)
def test_when_workers_are_woken(connect: Connect, last: str, due: str, rings: bool) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    connection.execute("select wake_workers('infinity')")  # so that it is loaded
    # In one statement: 20 milliseconds are soon over.
    connection.execute(
        f"select setval('wake_clock', {last}), wake_workers(clock_timestamp() + interval '{due}')".encode()
    )
    assert receiver.received() == [""] * rings
    connection.execute("set treadle.notify = off")
    connection.execute(
        f"select setval('wake_clock', {last}), wake_workers(clock_timestamp() + interval '{due}')".encode()
    )
    assert receiver.received() == []


def test_a_job_that_is_due_before_a_sleeping_worker_looks_wakes_it(connect: Connect) -> None:
    """Also if the session remembers that the lane is active."""
    receiver, connection = Receiver(connect, "work"), connect()
    for n, (delay, rings) in enumerate([("59 s", True), ("119 s", True), ("121 s", False)] * 2):
        connection.execute(b"select setval('wake_clock', 0)")
        connection.execute("select enqueue('a', p_delay => %s)", [delay])
        assert receiver.received() == [""] * rings, (n, delay)


def requests(connection: Connection[Any]) -> int:
    """How often this transaction has asked for a decision at commit."""
    query = "select n_tup_ins from pg_stat_xact_user_tables where relname = 'wake_requests'"
    return int(one(connection, query))


@pytest.mark.fresh_database
def test_a_transaction_that_stays_open_silences_no_other(connect: Connect) -> None:
    receiver, connection, long = Receiver(connect, "work"), connect(), connect(autocommit=False)
    connection.execute("select next_due('{a}')")  # a worker waits
    for nth in range(3):
        long.execute("select enqueue('a')")
        connection.execute("select enqueue('a')")
        assert receiver.received() == [""]
        connection.execute("select next_due('{a}')")
        assert requests(long) == 1, f"it decides once, at commit, not for each of its {nth + 1} jobs"
    long.commit()
    assert receiver.received() == [""], "one notification for all of its jobs"


def test_a_transaction_that_rolls_back_silences_no_other(connect: Connect) -> None:
    receiver, connection, failing = Receiver(connect, "work"), connect(), connect(autocommit=False)
    connection.execute("select next_due('{a}')")
    failing.execute("select enqueue('a')")
    failing.rollback()
    assert receiver.received() == []
    connection.execute("select enqueue('a')")
    assert receiver.received() == [""]


def test_a_job_that_was_inserted_in_a_savepoint_is_announced_only_if_it_is_kept(connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect(autocommit=False)
    connection.execute("savepoint s")
    connection.execute("select enqueue('a')")
    connection.execute("rollback to s")
    connection.commit()
    assert receiver.received() == []
    connection.execute("savepoint s")
    connection.execute("select enqueue('a')")
    connection.execute("rollback to s")
    connection.execute("select enqueue('a')")
    connection.commit()
    assert receiver.received() == [""]


@pytest.mark.fresh_database
def test_an_enqueue_on_a_busy_queue_decides_nothing_at_commit(connect: Connect) -> None:
    connection = connect(autocommit=False)
    busy = f"select setval('wake_clock', {NOW} - 30000), wake_workers(clock_timestamp())".encode()
    connection.execute("select wake_workers('infinity')")  # so that it is loaded
    connection.execute(busy)
    assert requests(connection) == 0


def test_a_worker_woken_just_now_may_be_idle_again_at_commit(connect: Connect) -> None:
    """An enqueue right after a notification sends none, unless a worker has gone idle by its commit."""
    receiver, connection, late = Receiver(connect, "work"), connect(), connect(autocommit=False)
    late.execute("select wake_workers('infinity'), pg_sleep(0.01)")  # so that it is loaded; an open transaction
    late.execute(f"select setval('wake_clock', {NOW}), wake_workers(clock_timestamp())".encode())
    connection.execute("select next_due('{a}')")
    late.commit()
    assert receiver.received() == [""]


def test_a_call_that_is_a_transaction_by_itself_notifies_at_once(queue: JobQueue, connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    connection.execute("alter table wake_requests disable trigger notify_at_commit")
    try:
        for _ in range(20):  # on all connections, so that the lane is known
            queue.enqueue("a")
        receiver.received()
        connection.execute("select setval('wake_clock', 1)")
        queue.enqueue("a")
        assert [message.split()[0] for message in receiver.received()] == ["jobs"]
        connection.execute("select setval('wake_clock', 1)")
        for autocommit in (False, True):
            with connect(autocommit=autocommit) as others, others.transaction(), JobQueue(others) as theirs:
                theirs.enqueue("a")
                theirs.enqueue("a")
        assert receiver.received() == [], "they are decided at commit"
    finally:
        connection.execute("alter table wake_requests enable trigger notify_at_commit")


def test_no_row_is_left_of_the_decisions(connect: Connect) -> None:
    connection = connect()
    connection.execute("select enqueue('a')")
    assert one(connection, "select count(*) from wake_requests") == 0


def test_workers_that_understand_numbers_get_one(connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    connection.execute("select next_due('{a}', p_answered => -1)")
    connection.execute("select setval('wake_clock', 2), next_due('{a}', p_answered => -1)")
    connection.execute("select enqueue('a')")
    (message,) = receiver.received()
    assert message == f"jobs {one(connection, 'select last_value from wake_clock')}"


def test_a_client_that_understands_no_numbers_is_not_forgotten(connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    for first, second in (("-1", "null"), ("null", "-1")):
        connection.execute("select setval('wake_clock', 2)")
        connection.execute(f"select next_due('{{a}}', p_answered => {first})".encode())
        connection.execute(f"select next_due('{{a}}', p_answered => {second})".encode())
        connection.execute("select enqueue('a')")
        assert receiver.received() == [""]


def test_an_enqueue_that_adds_nothing_wakes_no_worker(connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    connection.execute("select enqueue_unique('a', 'one')")
    receiver.received()
    for nothing in ("enqueue_unique('a', 'one')", "enqueue_jobs('a', '{}')"):
        connection.execute("select setval('wake_clock', 0)")  # a worker waits
        connection.execute(f"select {nothing}".encode())
        assert receiver.received() == []


def test_a_worker_that_begins_to_wait_is_woken_however_soon(connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    connection.execute(f"select setval('wake_clock', {NOW}), next_due('{{a}}')".encode())
    assert one(connection, "select last_value from wake_clock") == 0
    connection.execute(
        f"select setval('wake_clock', {NOW}), next_due('{{a}}'), wake_workers(clock_timestamp())".encode()
    )
    assert receiver.received() == [""]


def test_a_draining_worker_looks_below_the_floors(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    connection.execute(
        """insert into floors (queue, job_type, priority, floor, xid)
        values ('default', 'a', 100, clock_timestamp() + interval '1 minute', pg_current_xact_id())"""
    )
    connection.execute(f"select setval('tick_clock', {NOW})".encode())
    assert one(connection, "select next_due('{a}')") is None
    assert one(connection, "select next_due('{a}', null, true)") <= 0


def test_jobs_that_cannot_be_claimed_are_not_due(queue: JobQueue, connection: Connection[Any]) -> None:
    """Blocked by their key, or without an attempt left."""
    for _ in range(2):
        queue.enqueue("a", key="one")
    queue.claim(["a"])
    queue.enqueue("b")
    connection.execute("update jobs set attempts = max_attempts where job_type = 'b'")
    assert one(connection, "select next_due('{a, b}')") is None
    queue.enqueue("a")
    assert one(connection, "select next_due('{a, b}')") <= 0


def test_finished_jobs_are_announced_only_while_somebody_waits(queue: JobQueue, connect: Connect) -> None:
    receiver, connection = Receiver(connect, "ends"), connect()
    ids = queue.enqueue_many("a", [{}] * 300)
    jobs = {job.id: job for job in queue.claim(["a"], 300)}
    assert queue.complete_many([jobs[ids[0]]]) == []
    assert receiver.received() == []
    connection.execute("select request_notifications('ends')")
    assert queue.complete_many([jobs[ids[1]]]) == []
    assert receiver.received() == [str(ids[1])]
    connection.execute("set treadle.notify = off")
    connection.execute("select announce(%s)", [ids[:1]])
    assert receiver.received() == []
    # A notification has room for 200.
    assert queue.complete_many([jobs[each] for each in ids[2:]]) == []
    assert sorted(",".join(receiver.received()).split(",")) == sorted(map(str, ids[2:]))


def test_the_worker_of_a_cancelled_job_is_notified(queue: JobQueue, connect: Connect) -> None:
    receiver = Receiver(connect, "work")
    waiting, held = queue.enqueue("a"), queue.enqueue("b")
    queue.claim(["b"])
    receiver.received()
    queue.cancel(waiting)
    assert receiver.received() == []
    queue.cancel(held)
    assert receiver.received() == [f"cancelled {held}"]


def test_a_request_does_not_shorten_that_of_another_session(queue: JobQueue, connect: Connect) -> None:
    connection, receiver = connect(), Receiver(connect, "ends")
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    connection.execute("select request_notifications('ends', '1 minute')")
    connection.execute("select request_notifications('ends', '-1 hour')")
    connection.execute("select request_notifications('ends', '1 second')")
    until = one(connection, "select last_value from awaited")
    assert until > one(connection, f"select {NOW} + 50 * 1000000")
    queue.complete(job)
    assert receiver.received() == [str(job.id)]


def test_a_request_from_before_the_clock_was_set_back_is_shortened(connection: Connection[Any]) -> None:
    connection.execute(f"select setval('awaited', {NOW} + 86400::bigint * 1000000)")
    connection.execute("select request_notifications('ends', '1 minute')")
    assert one(connection, "select last_value from awaited") < one(connection, f"select {NOW} + 100 * 1000000")


def test_a_cancellation_is_silent_if_notifications_are_off(queue: JobQueue, connect: Connect) -> None:
    connection, receiver = connect(), Receiver(connect, "work")
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    receiver.received()
    connection.execute("set treadle.notify = off")
    assert one(connection, "select cancel_job(%s)", job.id)
    assert receiver.received() == []


def test_waiting_sessions_are_notified_of_what_recovery_ends(queue: JobQueue, connect: Connect) -> None:
    connection, receiver = connect(), Receiver(connect, "ends")
    job_id = queue.enqueue("a", retry=Retries(0))
    queue.claim(["a"])
    connection.execute("select request_notifications('ends', '1 minute')")
    assert queue.recover_stale_jobs("0s") == 1
    assert receiver.received() == [str(job_id)]
    (error,) = queue.errors(job_id)
    assert "sent no heartbeat" in error.error
    assert (error.attempt, error.worker_id) == (1, "worker-1")


def test_nothing_fails_while_the_queue_of_notifications_is_full(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    url = embedded_url(tmp_path, settings={"max_notify_queue_pages": "64", "fsync": "off"}, quiet=True)
    try:
        with psycopg.connect(url, autocommit=True) as deaf, psycopg.connect(url, autocommit=True) as owner:
            if owner.info.server_version < 170000:
                pytest.skip("the queue of older servers has 8 GB")
            migrate(url)
            # A session that listens and never ends its transaction keeps all notifications in the queue.
            deaf.execute("listen something")
            deaf.execute("begin")
            fill = "select pg_notify('something', repeat(number::text, 1000)) from generate_series(1, 200) as number"
            with contextlib.suppress(psycopg.Error):
                for _ in range(10):
                    owner.execute(fill)
            with pytest.raises(psycopg.Error, match="too many notifications"):
                owner.execute(fill)
            with JobQueue(url, "worker-1") as queue:
                owner.execute("select treadle.request_notifications('ends')")
                for _ in range(3):
                    owner.execute("select setval('treadle.wake_clock', 0)")
                    queue.enqueue("a")
                first, second, third = queue.claim(["a"], 3)
                queue.complete(first)
                assert queue.complete_many([second]) == []
                queue.cancel(third)
    finally:
        leave(tmp_path)


def test_a_worker_does_not_wait_until_its_request_is_on_disk(connect: Connect) -> None:
    connection = connect(autocommit=False)
    connection.execute("set synchronous_commit = on")
    connection.commit()
    due = run(connection, worker_queries.next_due("worker-1", ["a"], None, False), "treadle")
    assert due.seconds is None
    assert one(connection, "show synchronous_commit") == "off"
    connection.commit()
    assert one(connection, "show synchronous_commit") == "on"


def test_a_worker_asks_for_no_notification_while_another_one_answers_the_last(connect: Connect) -> None:
    receiver, connection = Receiver(connect, "work"), connect()
    connection.execute("select setval('wake_clock', 2), next_due('{a}', p_answered => -1)")

    def notified_after(age: int, answered: str) -> bool:
        """Whether the next job is announced if a worker calls next_due() so many microseconds after another."""
        # In one statement: 100 milliseconds are soon over.
        connection.execute(
            f"""
            select setval('wake_clock', {NOW} - {age}),
                   next_due('{{a}}', p_answered => {answered})
            """.encode()
        )
        asked = one(connection, "select last_value from wake_clock") == 1
        connection.execute("select enqueue('a')")
        return asked and len(receiver.received()) == 1

    last = "(select last_value from wake_clock)"
    assert not notified_after(0, "0")
    assert not notified_after(0, "12345")
    assert notified_after(0, last), "it is the one who answers"
    assert notified_after(0, "-1"), "it does not know"
    assert notified_after(150_000, "0"), "the other one does not answer"
    assert notified_after(-150_000, "0"), "the clock was set back"
