"""Findings about workers, lanes, keys and crashes."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

import treadle
from tests.support.doctor import AT_ONCE, assert_ok, get_finding
from tests.support.workers import lose_worker, running_worker
from treadle import JobQueue, Once, Retries, Treadle
from treadle.db.queries import worker as worker_queries
from treadle.doctor import Finding, Limits, Severity
from treadle.doctor.facts import CrashingJob, DueLane, FailingKey, Server, Worker
from treadle.doctor.finding import Context
from treadle.doctor.rules.lanes import check_lanes, check_pauses, check_shared_types
from treadle.doctor.rules.work import check_crashes, check_keys, check_workers
from treadle.words.changes import Pause
from treadle.words.stuck import Stuck

CONTEXT = Context("treadle", Limits(), "0.1.0")
WORKER = Worker("w-1", "host", 7, 100.0, 1.0, 10.0, None, ["a"], None, "0.1.0", False, False)
LANE = DueLane("default", "a", 100, 400.0)
NOW = datetime.now(UTC)
SERVER = Server(NOW, 180000, "ada", False, True, {}, 0.0)


@pytest.fixture
def live_worker(queue: JobQueue, connection: Connection[Any]) -> str:
    """The id of a live worker for jobs of type a."""
    connection.execute("select register_worker('live', '1 hour', '{a}')")
    return "live"


def test_a_worker_that_missed_its_lease_is_found(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    assert_ok(url, "silent_workers", AT_ONCE)
    lose_worker(connection)
    found = get_finding(url, "silent_workers")
    assert found.level is Severity.WARNING
    assert found.detail.startswith("gone: last heartbeat 1m")
    assert "select * from treadle.recover_lost_workers();" in found.remedy
    connection.execute("select recover_lost_workers()")
    assert_ok(url, "silent_workers", AT_ONCE)


@pytest.mark.parametrize("declared", [False, True])
def test_it_is_critical_if_the_last_worker_was_lost(url: str, connection: Connection[Any], declared: bool) -> None:
    assert_ok(url, "no_workers")
    lose_worker(connection)
    if declared:
        connection.execute("select recover_lost_workers()")
    found = get_finding(url, "no_workers")
    assert found.level is Severity.CRITICAL
    assert found.detail.startswith("the last one was gone: last heartbeat 1m")
    connection.execute("select register_worker('live', '1 hour', '{a}')")
    assert_ok(url, "no_workers")


def test_a_lost_worker_that_still_has_jobs_is_found(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}, {}])
    queue.claim(["a"])
    connection.execute("select register_worker('worker-1', '1 second', '{a}')")
    connection.execute("update workers set lost_at = clock_timestamp() - interval '1 hour'")
    found = get_finding(url, "silent_workers")
    assert found.detail == "worker-1: declared lost 1h 00m ago, still has jobs"
    connection.execute("select recover_lost_workers()")
    assert_ok(url, "silent_workers", AT_ONCE)


def test_workers_of_another_version_are_found(url: str, connection: Connection[Any], live_worker: str) -> None:
    assert_ok(url, "old_workers")
    connection.execute("update workers set version = '0.0.9'")
    found = get_finding(url, "old_workers")
    assert found.level is Severity.NOTE
    assert found.detail == f"live: version 0.0.9, this is {treadle.__version__}"
    connection.execute("update workers set version = null, started_at = '2020-01-01'")
    assert "before the schema was last changed" in get_finding(url, "old_workers").detail
    connection.execute("update workers set lost_at = clock_timestamp()")
    assert_ok(url, "old_workers")


def test_heartbeats_from_the_future_are_found(url: str, connection: Connection[Any], live_worker: str) -> None:
    connection.execute("update workers set seen_at = clock_timestamp() + interval '1 hour'")
    found = get_finding(url, "worker_clocks")
    assert found.level is Severity.WARNING
    assert "live: 59m 59s ahead" in found.detail or "live: 1h 00m ahead" in found.detail
    connection.execute("select renew_workers('{live}', '1 hour')")
    assert_ok(url, "worker_clocks")


def test_a_lane_without_a_worker_is_found(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    queue.enqueue("mail", {}, priority=150)
    assert_ok(url, "unserved_lanes")
    found = get_finding(url, "unserved_lanes", AT_ONCE)
    assert found.level is Severity.CRITICAL
    assert found.title == "Jobs are due, but there are no live workers."
    assert found.detail.startswith("mail, priority 150: due for ")
    assert "defines mail" in found.remedy
    connection.execute("select register_worker('live', '1 hour', '{a}')")
    found = get_finding(url, "unserved_lanes", AT_ONCE)
    assert found.title == "Jobs are due, but no live worker serves their type and queue."
    assert "job types of the live workers: a" in found.detail
    connection.execute("select register_worker('live', '1 hour', '{mail}', '{other}')")
    assert get_finding(url, "unserved_lanes", AT_ONCE).level is Severity.WARNING
    connection.execute("select register_worker('live', '1 hour', '{a, mail}')")
    assert_ok(url, "unserved_lanes", AT_ONCE)


def test_a_delayed_job_does_not_need_a_worker_yet(url: str, queue: JobQueue) -> None:
    queue.enqueue("mail", {}, delay="1h")
    assert_ok(url, "unserved_lanes", AT_ONCE)


def test_a_client_without_a_worker_process_may_serve_a_lane(url: str, queue: JobQueue) -> None:
    queue.enqueue("mail", {})
    queue.heartbeat()
    found = get_finding(url, "unserved_lanes", AT_ONCE)
    assert found.level is Severity.NOTE
    assert "a client that claims without a worker process" in found.detail


def test_a_long_pause_is_found(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("mail", {})
    connection.execute("select pause('mail', null, 'ada', 'the relay is down')")
    found = get_finding(url, "paused_lanes", AT_ONCE)
    assert found.level is Severity.WARNING
    assert found.detail.startswith("mail, paused 0")
    assert "by ada: the relay is down (mail, priority 100: due for" in found.detail
    assert_ok(url, "unserved_lanes", AT_ONCE)
    assert_ok(url, "paused_lanes")
    statement = found.remedy.removeprefix("If the pause is no longer needed: ")
    connection.execute(statement.encode())
    assert_ok(url, "paused_lanes", AT_ONCE)
    assert get_finding(url, "unserved_lanes", AT_ONCE).level is Severity.CRITICAL


def test_a_pause_without_due_jobs_is_ok(url: str, connection: Connection[Any]) -> None:
    connection.execute("select pause()")
    assert_ok(url, "paused_lanes", AT_ONCE)


def test_a_job_that_a_client_claimed_and_abandoned_is_found(url: str, queue: JobQueue) -> None:
    queue.enqueue("mail", {})
    (job,) = queue.claim(["mail"])
    assert_ok(url, "abandoned_claims")
    found = get_finding(url, "abandoned_claims", AT_ONCE)
    assert found.level is Severity.NOTE
    assert found.detail.startswith(f"{job.id} (mail), claimed by worker-1, silent for ")
    queue.complete(job)
    assert_ok(url, "abandoned_claims", AT_ONCE)


def test_the_claim_of_a_worker_with_a_lease_is_not_abandoned(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker('worker-1', '1 hour', '{mail}')")
    queue.enqueue("mail", {})
    queue.claim(["mail"])
    assert_ok(url, "abandoned_claims", AT_ONCE)


@pytest.mark.parametrize("is_finished", [False, True])
def test_missing_ticks_are_found(url: str, queue: JobQueue, connection: Connection[Any], is_finished: bool) -> None:
    connection.execute("select register_worker('worker-1', '1 hour', '{a}')")
    queue.enqueue("a", {})
    (job,) = queue.claim(["a"])
    connection.execute("select setval('tick_clock', 0)")
    if is_finished:
        queue.complete(job)
    assert_ok(url, "ticks")
    connection.execute(
        """update jobs set claimed_at = claimed_at - interval '10 minutes',
            finished_at = finished_at - interval '5 minutes'"""
    )
    found = get_finding(url, "ticks")
    assert found.level is Severity.WARNING
    assert found.detail.startswith("A worker claimed a job 10m ")
    assert found.detail.endswith(" ago; there has been no tick yet.")
    set_last_tick(connection, minutes=20)
    assert "the last tick was 20m " in get_finding(url, "ticks").detail
    # There was a tick since the last claim; an idle worker does not tick.
    set_last_tick(connection, minutes=9)
    assert_ok(url, "ticks")
    set_last_tick(connection, minutes=-60)
    assert get_finding(url, "ticks").level is Severity.NOTE
    # A client without a lease does not have to tick.
    connection.execute("select setval('tick_clock', 0)")
    connection.execute("update workers set lease = null")
    assert_ok(url, "ticks")


def test_counters_that_stand_still_are_found(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('worker-1', '1 hour', '{a}', p_version => '0.2')")
    connection.execute("update workers set started_at = started_at - interval '1 hour'")
    connection.execute("update meter set reached = clock_timestamp() - interval '1 hour'")
    assert_ok(url, "uncounted_jobs")  # there is nothing to count
    queue.complete(queue.enqueue("a"))
    assert_ok(url, "uncounted_jobs")
    for minutes, level in ((2, Severity.NOTE), (6, Severity.WARNING)):
        connection.execute("update jobs set finished_at = clock_timestamp() - %s * interval '1 minute'", [minutes])
        found = get_finding(url, "uncounted_jobs")
        assert found.level is level
        assert found.detail.startswith(f"The first job that is not counted finished {minutes}m ")
    connection.execute("update workers set asleep_at = clock_timestamp()")  # nobody is to count it
    assert_ok(url, "uncounted_jobs")
    connection.execute("update workers set asleep_at = null")
    connection.execute("select count_minutes()")
    assert_ok(url, "uncounted_jobs")


def set_last_tick(connection: Connection[Any], minutes: int) -> None:
    """Set the time of the last tick."""
    connection.execute(
        "select setval('tick_clock', (extract(epoch from now() - %s * interval '1 minute') * 1000000)::bigint)",
        [minutes],
    )


@pytest.mark.parametrize(
    ("place", "limit", "status"), [("pending", 9, "pending"), ("claimed", 9, "claimed"), ("failed", 2, "failed")]
)
def test_a_job_that_crashes_repeatedly_is_found(
    url: str, app: Treadle, queue: JobQueue, place: str, limit: int, status: str
) -> None:
    queue.enqueue_many("heavy", [{} for _ in range(3)])

    def crash() -> UUID:
        (job,) = queue.claim(["heavy"], 1)
        queue.start(job)
        app.database.run(worker_queries.recover_worker("worker-1", "killed by signal 9", [job.id], [], limit, False))
        return job.id

    first = crash()
    assert_ok(url, "crashing_jobs")
    assert crash() == first
    if place == "claimed":
        queue.claim(["heavy"], 1)
    found = get_finding(url, "crashing_jobs")
    assert found.level is Severity.WARNING
    assert found.detail.startswith(f"{first} (heavy), {status}, crashed 2 times: ")
    assert "killed by signal 9" in found.detail


def test_a_key_blocked_by_a_failing_job_is_found(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    for n in range(4):
        queue.enqueue("book", {"n": n}, key="account:7", retry=Retries(4))
    (head,) = queue.claim(["book"])
    queue.fail(head, "the bank is closed", delay="1h")
    queue.enqueue_many("book", [{}] * 15)  # due before the head
    assert_ok(url, "failing_keys")
    for _ in range(2):  # while it waits, and while it runs
        found = get_finding(url, "failing_keys", AT_ONCE)
        assert found.level is Severity.WARNING
        assert found.detail.startswith(f"key account:7: {head.id} (book), failing for ")
        assert "blocks 3 jobs: the bank is closed" in found.detail
        connection.execute("update jobs set run_at = clock_timestamp() where id = %s", [head.id])
        queue.claim(["book"], 50)
    assert f"select treadle.cancel_job('{head.id}');" in found.remedy
    queue.cancel(head.id)
    assert_ok(url, "failing_keys", AT_ONCE)


def test_a_failing_job_that_blocks_no_other_is_ok(url: str, queue: JobQueue) -> None:
    queue.enqueue("book", {}, key="account:7")
    (head,) = queue.claim(["book"])
    queue.fail(head, "the bank is closed")
    assert_ok(url, "failing_keys", AT_ONCE)


def level(found: list[Finding]) -> Severity:
    (one,) = found
    return one.level


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seen": 39.0}, Severity.OK),
        ({"seen": 41.0}, Severity.WARNING),
        ({"seen": 41.0, "lost": 1.0}, Severity.OK),
        ({"seen": 9e9, "lease": None}, Severity.OK),
        ({"lost": 31.0, "has_jobs": True}, Severity.WARNING),
        ({"lost": 29.0, "has_jobs": True}, Severity.OK),
    ],
)
def test_a_missing_heartbeat_has_the_right_severity(changes: dict[str, Any], expected: Severity) -> None:
    assert check_workers(CONTEXT, [WORKER._replace(**changes)])[0].level is expected


def test_the_remedy_names_every_worker_that_was_stopped() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    stopped = Stuck(now - timedelta(seconds=20), "stopped", None, None, None)
    stuck = [
        WORKER._replace(stuck=stopped, now=now, host=host, pid=pid) for host, pid in (("a", 7), ("a", 8), ("b", 9))
    ]
    found = check_workers(CONTEXT, stuck)[3]
    assert found.title == ("3 workers were stopped: they keep their jobs, but neither claim nor start nor finish any.")
    assert found.remedy == (
        "To let them continue on a: kill -CONT 7 8; on b: kill -CONT 9. "
        "To replace the processes on a: kill -9 7 8; on b: kill -9 9; their jobs run again."
    )
    blocked = stuck[0]._replace(stuck=stopped._replace(kind="blocked", stack='  File "a.py", line 1, in a\n'))
    found = check_workers(CONTEXT, [blocked])[3]
    assert found.title.startswith("The event loop of a worker does not run: it keeps its jobs, but neither claims nor")
    assert "the whole stack" in found.remedy
    assert check_workers(CONTEXT, [blocked, *stuck])[3].title.startswith("4 workers are stuck: they keep")


@pytest.mark.parametrize(
    ("seconds", "changes", "expected"),
    [
        (4, {}, Severity.NOTE),
        (10, {}, Severity.WARNING),
        (60, {}, Severity.CRITICAL),
        (60, {"lost": 1.0}, Severity.OK),
        (60, {"seen": 11.0}, Severity.OK),
    ],
)
def test_a_stuck_worker_has_the_right_severity(seconds: int, changes: dict[str, Any], expected: Severity) -> None:
    now = datetime.now(UTC)
    stuck = Stuck(now - timedelta(seconds=seconds), "stopped", None, None, None)
    found = check_workers(CONTEXT, [WORKER, WORKER._replace(stuck=stuck, now=now, **changes)])[3]
    assert (found.name, found.level) == ("stuck_workers", expected)
    assert expected is Severity.OK or "kill -CONT 7" in found.remedy


@pytest.mark.parametrize(
    ("due", "worker", "expected"),
    [
        (59, None, Severity.OK),
        (60, None, Severity.CRITICAL),
        (300, WORKER, Severity.OK),
        (300, WORKER._replace(seen=11.0), Severity.CRITICAL),
        (300, WORKER._replace(lost=1.0), Severity.CRITICAL),
        (60, WORKER._replace(job_types=["other"]), Severity.NOTE),
        (300, WORKER._replace(queues=["other"]), Severity.WARNING),
        (300, WORKER._replace(queues=["default"]), Severity.OK),
    ],
)
def test_a_lane_without_a_worker_has_the_right_severity(due: float, worker: Worker | None, expected: Severity) -> None:
    assert level(check_lanes(CONTEXT, [worker] if worker else [], [LANE._replace(due=due)], [])) is expected


@pytest.mark.parametrize(
    ("job_type", "queue", "due", "expected"),
    [
        ("a", None, 3599, Severity.OK),
        ("a", None, 3600, Severity.NOTE),
        (None, None, 86_400, Severity.WARNING),
        (None, "other", 86_400, Severity.OK),
        ("b", None, 86_400, Severity.OK),
    ],
)
def test_a_pause_has_the_right_severity(
    job_type: str | None, queue: str | None, due: float, expected: Severity
) -> None:
    pause = Pause(job_type, queue, NOW - timedelta(days=2), "ada", None)
    assert level(check_pauses(CONTEXT, SERVER, [LANE._replace(due=due)], [pause])) is expected


def test_a_name_in_a_remedy_is_quoted() -> None:
    pause = Pause("o'clock", None, NOW, None, None)
    (found,) = check_pauses(CONTEXT, SERVER, [DueLane("default", "o'clock", 1, 9e9)], [pause])
    assert "resume(p_job_type => 'o''clock')" in found.remedy


def test_crashes_and_failing_keys_have_the_right_severity() -> None:
    assert level(check_crashes(CONTEXT, [])) is Severity.OK
    assert level(check_crashes(CONTEXT, [CrashingJob("1", "a", "failed", 3, None)])) is Severity.WARNING
    head = FailingKey("1", "a", "k", 2, 3, 599.0, 1000, None)
    assert level(check_keys(CONTEXT, [head])) is Severity.OK
    assert level(check_keys(CONTEXT, [head._replace(failing=600.0)])) is Severity.NOTE
    (found,) = check_keys(CONTEXT, [head._replace(failing=3600.0)])
    assert found.level is Severity.WARNING
    assert "blocks 1,000 or more jobs" in found.detail


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("attempts = null", "attempts is null"),
        ("max_attempts = null", "max_attempts is null"),
        ("max_attempts = 0", "max_attempts is 0"),
        ("attempts = 3", "it has used 3 of 3 attempts"),
    ],
)
def test_a_pending_job_that_cannot_be_claimed_is_found(
    url: str, queue: JobQueue, connection: Connection[Any], change: str, problem: str
) -> None:
    job_id = queue.enqueue("mail")
    queue.enqueue("mail")
    assert_ok(url, "unclaimable_jobs")
    connection.execute(f"update jobs set {change} where id = %s".encode(), [job_id])
    found = get_finding(url, "unclaimable_jobs")
    assert (found.level, found.detail) == (Severity.WARNING, f"{job_id} (mail): {problem}")
    repair, cancel = found.remedy.splitlines()
    assert f"select treadle.cancel_job('{job_id}');" in cancel
    connection.execute(repair.removeprefix("To let them run: ").encode())
    assert_ok(url, "unclaimable_jobs")
    assert len(queue.claim(["mail"], 2)) == 2


def test_a_job_that_cannot_be_claimed_is_found_among_many_if_it_blocks_its_key_or_has_a_unique_key(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue_many("mail", [{}] * 1200)
    head = queue.enqueue("mail", key="account:7")
    behind = [queue.enqueue("mail", key="account:7") for _ in range(2)]
    alone = queue.enqueue("mail", unique=Once(key="u"))
    queue.enqueue_many("mail", [{}] * 1200)
    connection.execute("update jobs set max_attempts = null where id = any (%s)", [[head, alone]])
    found = get_finding(url, "unclaimable_jobs")
    assert found.detail.splitlines() == [
        f"{head} (mail): max_attempts is null, blocks {len(behind)} jobs with its key account:7",
        f"{alone} (mail): max_attempts is null",
    ]


def test_a_claimed_or_finished_job_without_attempts_left_is_ok(url: str, queue: JobQueue) -> None:
    queue.enqueue_many("mail", [{}, {}], retry=Retries(0))
    first, _ = queue.claim(["mail"], 2)
    queue.fail(first, "no luck")
    assert_ok(url, "unclaimable_jobs")


def test_a_worker_whose_concurrency_is_0_serves_no_lane() -> None:
    paused = WORKER._replace(concurrency=0)
    (found,) = check_lanes(CONTEXT, [paused], [LANE], [])
    assert found.level is not Severity.OK
    assert "workers whose concurrency was set to 0: w-1" in found.detail
    assert found.remedy.startswith("To let a worker claim jobs again: treadle concurrency w-1 --reset\n")
    (found,) = check_lanes(CONTEXT, [paused, WORKER._replace(worker_id="w-2", concurrency=5)], [LANE], [])
    assert found.level is Severity.OK


def test_the_doctor_sees_a_concurrency_of_0(url: str, connection: Connection[Any], queue: JobQueue) -> None:
    connection.execute("select register_worker('w', '1 hour', '{a}', null, 5), set_concurrency('w', 0)")
    queue.enqueue("a")
    connection.execute("update jobs set run_at = clock_timestamp() - interval '10 minutes'")
    assert "treadle concurrency w --reset" in get_finding(url, "unserved_lanes").remedy


def serving(worker_id: str, handler: str | None, queues: list[str] | None = None) -> Worker:
    return WORKER._replace(worker_id=worker_id, handlers=[handler], queues=queues)


def test_a_job_type_that_is_another_function_in_another_worker_is_found() -> None:
    (found,) = check_shared_types(CONTEXT, [serving("w-1", "shop.send"), serving("w-2", "bank.send", ["mail"])])
    assert found.level is Severity.WARNING
    assert found.detail == "a: shop.send (w-1), bank.send (w-2)"


@pytest.mark.parametrize(
    "other",
    [
        serving("w-2", "shop.send"),
        serving("w-2", "bank.send", ["mail"]),
        serving("w-2", None),  # a program that is run
        WORKER,
        serving("w-2", "bank.send")._replace(lost=1.0),
        serving("w-2", "bank.send")._replace(job_types=["b"]),
    ],
)
def test_workers_of_one_application_share_their_types(other: Worker) -> None:
    (found,) = check_shared_types(CONTEXT, [serving("w-1", "shop.send", ["default"]), other])
    assert found.level is Severity.OK


def test_two_applications_that_use_one_name_are_found(url: str) -> None:
    shop, bank = Treadle(url), Treadle(url)

    @shop.job(name="send")
    def send_parcel() -> None: ...

    @bank.job(name="send")
    def send_money() -> None: ...

    async def scenario() -> Finding:
        async with running_worker(shop):
            await asyncio.to_thread(assert_ok, url, "shared_types")
            async with running_worker(bank):
                return await asyncio.to_thread(get_finding, url, "shared_types")

    found = asyncio.run(scenario())
    assert "send_parcel" in found.detail
    assert "send_money" in found.detail
    shop.close()
    bank.close()
