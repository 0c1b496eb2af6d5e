"""Workers, lanes, keys and crashes: what the doctor says of the work itself."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.doctor import AT_ONCE, look, well
from tests.support.workers import lose_worker
from treadle import JobQueue, Treadle
from treadle.db.queries import worker as work
from treadle.doctor import Finding, Level, Limits
from treadle.doctor.facts import Crashing, DueLane, Head, Server, Worker
from treadle.doctor.finding import Case
from treadle.doctor.lanes import judge_lanes, judge_pauses
from treadle.doctor.work import judge_crashes, judge_keys, judge_workers
from treadle.words.changes import Pause

CASE = Case("treadle", Limits(), "0.1.0")
WORKER = Worker("w-1", "host", 7, 100.0, 1.0, 10.0, None, ["a"], None, "0.1.0", False, False)
LANE = DueLane("default", "a", 100, 400.0)
NOW = datetime.now(UTC)
SERVER = Server(NOW, 180000, "ada", False, True, {}, 0.0)


@pytest.fixture
def live(queue: JobQueue, connection: Connection[Any]) -> str:
    """A worker that has just said that it lives, and takes jobs of type a."""
    connection.execute("select register_worker('live', '1 hour', '{a}')")
    return "live"


def test_a_worker_that_went_silent(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    well(url, "silent_workers", AT_ONCE)
    lose_worker(connection)
    found = look(url, "silent_workers")
    assert found.level is Level.WARNING
    assert found.detail.startswith("gone: silent for 1m")
    assert "select * from treadle.recover_lost_workers();" in found.remedy
    connection.execute("select recover_lost_workers()")
    well(url, "silent_workers", AT_ONCE)


def test_a_worker_that_was_given_up_and_still_has_jobs(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}, {}])
    queue.claim(["a"])
    connection.execute("select register_worker('worker-1', '1 second', '{a}')")
    connection.execute("update workers set lost_at = clock_timestamp() - interval '1 hour'")
    found = look(url, "silent_workers")
    assert found.detail == "worker-1: given up 1h 00m ago, and still has jobs"
    connection.execute("select recover_lost_workers()")
    well(url, "silent_workers", AT_ONCE)


def test_workers_of_another_version(url: str, connection: Connection[Any], live: str) -> None:
    well(url, "old_workers")
    connection.execute("update workers set version = '0.0.9'")
    found = look(url, "old_workers")
    assert found.level is Level.NOTE
    assert found.detail == "live: version 0.0.9, here it is 0.1.0"
    connection.execute("update workers set version = null, started_at = '2020-01-01'")
    assert "before the schema was last changed" in look(url, "old_workers").detail
    connection.execute("update workers set lost_at = clock_timestamp()")
    well(url, "old_workers")


def test_heartbeats_from_the_future(url: str, connection: Connection[Any], live: str) -> None:
    connection.execute("update workers set seen_at = clock_timestamp() + interval '1 hour'")
    found = look(url, "worker_clocks")
    assert found.level is Level.WARNING
    assert "live: 59m 59s ahead" in found.detail or "live: 1h 00m ahead" in found.detail
    connection.execute("select renew_workers('{live}', '1 hour')")
    well(url, "worker_clocks")


def test_a_lane_that_nobody_serves(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    queue.enqueue("mail", {}, priority=150)
    well(url, "unserved_lanes")
    found = look(url, "unserved_lanes", AT_ONCE)
    assert found.level is Level.WARNING
    assert found.title == "Jobs are due, and no worker lives."
    assert found.detail.startswith("mail, priority 150: due for ")
    assert "knows mail" in found.remedy
    connection.execute("select register_worker('live', '1 hour', '{a}')")
    found = look(url, "unserved_lanes", AT_ONCE)
    assert found.title == "Jobs are due, and no worker that lives takes them."
    assert "known to workers: a" in found.detail
    connection.execute("select register_worker('live', '1 hour', '{mail}', '{other}')")
    assert look(url, "unserved_lanes", AT_ONCE).level is Level.WARNING
    connection.execute("select register_worker('live', '1 hour', '{a, mail}')")
    well(url, "unserved_lanes", AT_ONCE)


def test_what_is_due_later_wants_nobody(url: str, queue: JobQueue) -> None:
    queue.enqueue("mail", {}, delay="1h")
    well(url, "unserved_lanes", AT_ONCE)


def test_who_claims_by_hand_may_serve_it(url: str, queue: JobQueue) -> None:
    queue.enqueue("mail", {})
    queue.heartbeat()
    found = look(url, "unserved_lanes", AT_ONCE)
    assert found.level is Level.NOTE
    assert "somebody claims by hand" in found.detail


def test_a_forgotten_pause(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("mail", {})
    connection.execute("select pause('mail', null, 'ada', 'the relay is down')")
    found = look(url, "paused_lanes", AT_ONCE)
    assert found.level is Level.WARNING
    assert found.detail.startswith("mail, paused 0")
    assert "by ada: the relay is down (mail, priority 100: due for" in found.detail
    well(url, "unserved_lanes", AT_ONCE)
    well(url, "paused_lanes")
    statement = found.remedy.removeprefix("Resume what was forgotten: ")
    connection.execute(statement.encode())
    well(url, "paused_lanes", AT_ONCE)
    assert look(url, "unserved_lanes", AT_ONCE).level is Level.WARNING


def test_a_pause_without_jobs_behind_it(url: str, connection: Connection[Any]) -> None:
    connection.execute("select pause()")
    well(url, "paused_lanes", AT_ONCE)


def test_a_job_that_is_held_by_hand_and_forgotten(url: str, queue: JobQueue) -> None:
    queue.enqueue("mail", {})
    (job,) = queue.claim(["mail"])
    well(url, "held_by_hand")
    found = look(url, "held_by_hand", AT_ONCE)
    assert found.level is Level.NOTE
    assert found.detail.startswith(f"{job.id} (mail), held by worker-1, silent for ")
    queue.complete(job)
    well(url, "held_by_hand", AT_ONCE)


def test_what_a_worker_holds_is_not_held_by_hand(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('worker-1', '1 hour', '{mail}')")
    queue.enqueue("mail", {})
    queue.claim(["mail"])
    well(url, "held_by_hand", AT_ONCE)


@pytest.mark.parametrize("ended", [False, True])
def test_ticks_that_are_not_made(url: str, queue: JobQueue, connection: Connection[Any], ended: bool) -> None:
    connection.execute("select register_worker('worker-1', '1 hour', '{a}')")
    queue.enqueue("a", {})
    (job,) = queue.claim(["a"])
    connection.execute("select setval('tick_clock', 0)")
    if ended:
        queue.complete(job)
    well(url, "ticks")
    connection.execute(
        """update jobs set claimed_at = claimed_at - interval '10 minutes',
            finished_at = finished_at - interval '5 minutes'"""
    )
    found = look(url, "ticks")
    assert found.level is Level.WARNING
    assert found.detail.startswith("A worker claimed 10m ")
    assert found.detail.endswith(" ago; there was none yet.")
    made_ago(connection, minutes=20)
    assert "the last one was made 20m " in look(url, "ticks").detail
    # A tick since then; nothing was claimed since, and an idle worker makes none.
    made_ago(connection, minutes=9)
    well(url, "ticks")
    made_ago(connection, minutes=-60)
    assert look(url, "ticks").level is Level.NOTE
    # Who claims by hand need not make any.
    connection.execute("select setval('tick_clock', 0)")
    connection.execute("update workers set lease = null")
    well(url, "ticks")


def made_ago(connection: Connection[Any], minutes: int) -> None:
    """The last tick."""
    connection.execute(
        "select setval('tick_clock', (extract(epoch from now() - %s * interval '1 minute') * 1000000)::bigint)",
        [minutes],
    )


@pytest.mark.parametrize(
    ("place", "limit", "status"), [("waiting", 9, "pending"), ("held", 9, "claimed"), ("failed", 2, "failed")]
)
def test_a_job_that_crashes_again_and_again(
    url: str, app: Treadle, queue: JobQueue, place: str, limit: int, status: str
) -> None:
    queue.enqueue_many("heavy", [{} for _ in range(3)])

    def crash() -> UUID:
        (job,) = queue.claim(["heavy"], 1)
        queue.start(job)
        app.database.run(work.recover_worker("worker-1", "killed by signal 9", [job.id], [], limit, False))
        return job.id

    first = crash()
    well(url, "crashing_jobs")
    assert crash() == first
    if place == "held":
        queue.claim(["heavy"], 1)
    found = look(url, "crashing_jobs")
    assert found.level is Level.WARNING
    assert found.detail.startswith(f"{first} (heavy), {status}, 2 times: ")
    assert "killed by signal 9" in found.detail


def test_a_key_whose_head_fails(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    for n in range(4):
        queue.enqueue("book", {"n": n}, key="account:7", max_attempts=5)
    (head,) = queue.claim(["book"])
    queue.fail(head, "the bank is closed", delay="1h")
    queue.enqueue_many("book", [{}] * 15)  # due before it
    well(url, "failing_keys")
    for _ in range(2):  # as it waits, and as it runs
        found = look(url, "failing_keys", AT_ONCE)
        assert found.level is Level.WARNING
        assert found.detail.startswith(f"key account:7: {head.id} (book), failing for ")
        assert "3 wait: the bank is closed" in found.detail
        connection.execute("update jobs set run_at = clock_timestamp() where id = %s", [head.id])
        queue.claim(["book"], 50)
    assert f"select treadle.cancel_job('{head.id}');" in found.remedy
    queue.cancel(head.id)
    well(url, "failing_keys", AT_ONCE)


def test_a_failing_job_with_nobody_behind_it_keeps_nobody_waiting(url: str, queue: JobQueue) -> None:
    queue.enqueue("book", {}, key="account:7")
    (head,) = queue.claim(["book"])
    queue.fail(head, "the bank is closed")
    well(url, "failing_keys", AT_ONCE)


def level(found: list[Finding]) -> Level:
    (one,) = found
    return one.level


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seen": 39.0}, Level.OK),
        ({"seen": 41.0}, Level.WARNING),
        ({"seen": 41.0, "lost": 1.0}, Level.OK),
        ({"seen": 9e9, "lease": None}, Level.OK),
        ({"lost": 31.0, "holds": True}, Level.WARNING),
        ({"lost": 29.0, "holds": True}, Level.OK),
    ],
)
def test_how_long_silence_may_be(changes: dict[str, Any], expected: Level) -> None:
    assert judge_workers(CASE, [WORKER._replace(**changes)])[0].level is expected


@pytest.mark.parametrize(
    ("due", "worker", "expected"),
    [
        (59, None, Level.OK),
        (60, None, Level.NOTE),
        (300, None, Level.WARNING),
        (300, WORKER, Level.OK),
        (300, WORKER._replace(seen=11.0), Level.WARNING),
        (300, WORKER._replace(lost=1.0), Level.WARNING),
        (300, WORKER._replace(queues=["other"]), Level.WARNING),
        (300, WORKER._replace(queues=["default"]), Level.OK),
    ],
)
def test_how_long_a_lane_may_wait_for_a_worker(due: float, worker: Worker | None, expected: Level) -> None:
    assert level(judge_lanes(CASE, [worker] if worker else [], [LANE._replace(due=due)], [])) is expected


@pytest.mark.parametrize(
    ("job_type", "queue", "due", "expected"),
    [
        ("a", None, 3599, Level.OK),
        ("a", None, 3600, Level.NOTE),
        (None, None, 86_400, Level.WARNING),
        (None, "other", 86_400, Level.OK),
        ("b", None, 86_400, Level.OK),
    ],
)
def test_how_long_a_pause_may_last(job_type: str | None, queue: str | None, due: float, expected: Level) -> None:
    pause = Pause(job_type, queue, NOW - timedelta(days=2), "ada", None)
    assert level(judge_pauses(CASE, SERVER, [LANE._replace(due=due)], [pause])) is expected


def test_a_name_in_a_remedy_is_quoted() -> None:
    pause = Pause("o'clock", None, NOW, None, None)
    (found,) = judge_pauses(CASE, SERVER, [DueLane("default", "o'clock", 1, 9e9)], [pause])
    assert "resume(p_job_type => 'o''clock')" in found.remedy


def test_crashes_and_failing_heads_in_values() -> None:
    assert level(judge_crashes(CASE, [])) is Level.OK
    assert level(judge_crashes(CASE, [Crashing("1", "a", "failed", 3, None)])) is Level.WARNING
    head = Head("1", "a", "k", 2, 3, 599.0, 1000, None)
    assert level(judge_keys(CASE, [head])) is Level.OK
    assert level(judge_keys(CASE, [head._replace(failing=600.0)])) is Level.NOTE
    (found,) = judge_keys(CASE, [head._replace(failing=3600.0)])
    assert found.level is Level.WARNING
    assert "1,000 or more wait" in found.detail
