"""Why a job does not run, decided from facts given as values: every case has a reason, in the right order and words."""

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, product
from typing import Any
from uuid import UUID

import pytest

from treadle.text.stuck import GIL_HELD, OTHER_THREAD
from treadle.why import text
from treadle.why.decide import decide
from treadle.why.facts import Ahead, Facts, Failure, JobWorker, LimitUse, LiveWorker, RowLock
from treadle.why.reason import Reason
from treadle.words.changes import Pause
from treadle.words.formatting import printable
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ID = UUID("0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35")
OTHER = UUID("0199b1c2-0000-7c51-9d4b-2f6a8e0c1d35")

HOSTILE = "\x1b[2J\u202e<b>\n"


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def facts(**known: Any) -> Facts:
    """The facts about a job that is claimable but has no worker."""
    base: dict[str, Any] = {
        "at": NOW,
        "id": ID,
        "job_type": "mail",
        "queue": "default",
        "priority": 100,
        "status": Status.PENDING,
        "attempts": 0,
        "max_attempts": 3,
        "lease": 0,
        "key": None,
        "blocked": False,
        "run_at": ago(seconds=1),
        "worker_id": None,
        "claimed_at": ago(minutes=2),
        "started_at": None,
        "finished_at": None,
        "seen_at": None,
        "progress": 0,
        "stage": None,
        "error": None,
        "tick_age": 0.3,
    }
    return Facts(**base | known)


def worker(types: list[str] | None = None, **known: Any) -> LiveWorker:
    base = LiveWorker("w1", False, ["mail"] if types is None else types, None, True, 50, 3, ago(seconds=1))
    return base._replace(**known)


def limit_use(**known: Any) -> LimitUse:
    """A limit of 5 at once for each tenant, which is reached."""
    base: dict[str, Any] = dict.fromkeys(LimitUse._fields)
    base |= {"name": "sync", "per": "tenant", "key": "acme", "amount": 5, "weight": 1, "in_use": 5, "running": 5}
    base |= {"kind": "rate" if known.get("seconds") else "concurrency"}
    return LimitUse(**base | {"in_code": True, "for_key": False} | known)


SERVED = [worker()]
STUCK = Stuck(ago(seconds=12), "blocked", OTHER, HOSTILE, f'  File "{HOSTILE}", line 1, in {HOSTILE}\n')
HOSTILE_LIMIT = limit_use(name=HOSTILE, per=HOSTILE, key=HOSTILE, changed_by=HOSTILE)


def all_combinations() -> list[Facts]:
    """All combinations of the facts that a decision depends on."""
    workers: dict[str, list[LiveWorker]] = {
        "none": [],
        "by hand": [worker(is_client=True, job_types=None, serves=False)],
        "new": [worker(job_types=None, serves=False)],
        "type": [worker(["film"], serves=False)],
        "queue": [worker(queues=["slow"], serves=False)],
        "free": SERVED,
        "full": [worker(busy=50)],
        "paused": [worker(slots=0, busy=0)],
        "stuck": [worker(stuck=STUCK), worker(stuck=STUCK, busy=50)],
    }
    pause = Pause("mail", None, ago(hours=1), "ada", HOSTILE)
    choices: dict[str, list[Any]] = {
        "attempts": [0, 3],
        "run_at": [ago(seconds=9), NOW + timedelta(minutes=4)],
        "pauses": [[], [pause], [pause, pause._replace(queue="default")]],
        "key": [(None, None, False), ("k", None, True), (HOSTILE, OTHER, True)],
        "row_lock": [None, RowLock(7, HOSTILE, None), RowLock(7, "psql", ago(milliseconds=5))],
        "workers": list(workers.values()),
        "ahead": [Ahead(), Ahead(3, 0, 10_001)],
        "failure": [None, Failure(1, ago(minutes=1), HOSTILE, True)],
        "ended": [(None, None), (30, 60.0)],
        # Not every combination of these two: they do not depend on each other.
        "limits": [
            (None, []),
            (0.3, [limit_use(in_use=4), limit_use(amount=None), limit_use(seconds=1.0, available=1)]),
            (0.3, [HOSTILE_LIMIT]),
            (0.3, [HOSTILE_LIMIT._replace(kind="rate", seconds=1.0, available=0)]),
            (0.3, [HOSTILE_LIMIT._replace(amount=0, changed_at=NOW)]),
        ],
    }
    made = []
    for values in product(*choices.values()):
        known = dict(zip(choices, values, strict=True))
        key, blocker, blocked = known.pop("key")
        number, within = known.pop("ended")
        known["tick_age"], known["limits"] = known["limits"]
        finished = {"finished_attempts": number, "finished_within": within}
        made.append(facts(**known, **finished, key=key, blocker=blocker, blocked=blocked))
    states: list[dict[str, Any]] = [
        {},
        {"stuck": STUCK},
        {"stopped_children": (StoppedChild(7, ID, HOSTILE, ago(seconds=12)),)},
        {"stopped_children": (StoppedChild(0, ID, HOSTILE, ago(seconds=12), starting=True),)},
    ]
    for status, claimed_at, lease, lost, sign, error, state in product(
        [each for each in Status if each is not Status.PENDING],
        [ago(seconds=8), ago(minutes=9)],
        [None, 10.0],
        [None, ago(seconds=1)],
        [None, ago(seconds=1), ago(hours=1)],
        [None, HOSTILE],
        states,
    ):
        worker_row = JobWorker(lease, lost, **(state if lease else {}))
        claim = {"claimed_at": claimed_at, "worker": worker_row, "seen_at": sign, "worker_id": error}
        texts = {"error": error, "stage": error, "cancelled_by": error, "cancel_reason": error}
        made.append(facts(status=status, workers=SERVED, **claim, **texts))
    return made


def expected(given: Facts) -> list[str]:
    """The reasons in order, computed in another way."""
    if given.status.finished:
        return [given.status.value]
    if given.status is not Status.PENDING:
        sign = given.seen_at or given.claimed_at
        if given.worker.lease is None:
            silent = (NOW - max(sign, given.claimed_at)).total_seconds() > 300
            return ["client_silent" if silent else given.status.value]
        gone = given.worker.lost_at is not None or (NOW - max(sign, given.claimed_at)).total_seconds() > 10
        if gone:
            return ["worker_lost"]
        stopped = given.status.value
        for child in given.worker.stopped_children:
            stopped = "process_starting" if child.starting else "process_stopped"
        return ["worker_stuck" if given.worker.stuck else stopped]
    names = ["out_of_attempts"] * (given.attempts == 3)
    names += ["due_later"] * (given.run_at > NOW)
    names += ["paused"] * len(given.pauses)
    names += ["key_blocked"] * given.blocked
    first, *others = given.limits or [limit_use(amount=None)]
    names += ["limit_paused"] * (first.amount == 0)
    if first.amount and not others and given.run_at <= NOW:
        names += ["limited" if first.seconds is None else "rate_limited"]
    serving = [each for each in given.workers if each.serves]
    if serving and serving[0].slots == 0:
        names += ["workers_paused"]
    elif serving and serving[0].stuck:
        names += ["workers_stuck"]
    elif serving:
        waits = given.ahead.total > 0 or serving[0].busy == serving[0].slots
        names += ["busy"] * (waits and given.run_at <= NOW)
    elif given.workers and given.workers[0].job_types:
        names += ["no_worker_for_queue" if "mail" in given.workers[0].job_types else "no_worker_for_type"]
    else:
        names += ["no_worker"]
    names += ["locked"] * (given.row_lock is not None and given.row_lock.since is None)
    return names or ["ready"]


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_every_combination_of_facts_has_a_reason(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    # All combinations contain the same few texts: each is made printable once, and each sentence is checked once.
    monkeypatch.setattr(text, "printable", cache(printable))
    seen, sentences, texts = set(), set(), set()
    for given in islice(all_combinations(), 0, None, step):
        reason = decide(given)
        assert [reason.name, *(each.name for each in reason.also)] == expected(given), given
        texts |= {reason.sentence, reason.remedy, reason.short, *(each.short for each in reason.also)}
        sentences.add(reason.sentence)
        seen.add(reason.name)
    for each in texts:
        assert each.isprintable(), each
        assert each.strip() == each
        assert "None" not in each, each
    for sentence in sentences:
        assert sentence.endswith(".")
        assert sentence[0].isupper()
    names = "completed failed cancelled running claimed worker_lost client_silent out_of_attempts due_later paused"
    names += " key_blocked limited rate_limited limit_paused"
    names += " no_worker no_worker_for_type no_worker_for_queue workers_paused busy locked ready"
    names += " worker_stuck workers_stuck process_stopped process_starting"
    assert seen == set(names.split())


def test_a_reason_as_text_is_its_sentence() -> None:
    assert str(decide(facts())) == "There is no live worker."


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (
            {"run_at": NOW + timedelta(minutes=10)},
            "The job is scheduled for later: it is due in 10m 00s, at 2026-11-15 12:10:00 UTC.",
        ),
        (
            {"run_at": (NOW + timedelta(hours=1)).astimezone(), "lease": 4},
            "The job was postponed and is due in 1h 00m, at 2026-11-15 13:00:00 UTC.",
        ),
        (
            {"run_at": NOW + timedelta(minutes=1), "failure": Failure(2, ago(seconds=30), "no route.", True)},
            (
                "The job is waiting to be retried: attempt 2 of 3 failed 30s ago (no route), and the next one is due "
                "in 1m 00s, at 2026-11-15 12:01:00 UTC."
            ),
        ),
        (
            {"pauses": [Pause(None, None, ago(minutes=3), None, None)]},
            "The job is paused: all jobs were paused 3m 00s ago.",
        ),
        (
            {"limits": [limit_use(frees_at=NOW + timedelta(seconds=20))]},
            "The limit sync is reached: 5 of 5 running for tenant acme; first free in about 20s.",
        ),
        (
            {"limits": [limit_use(key="", opens_at=NOW + timedelta(seconds=30))]},
            "The limit sync allows 5 at once for jobs without tenant; the next may start in about 30s.",
        ),
        (
            {"limits": [limit_use(per=None, seconds=1.0, burst=20, available=3, weight=50, opens_at=NOW)]},
            ("The limit sync allows 5 per second, burst 20, and the job needs 20; the next may start in about 0.0s."),
        ),
        (
            {"limits": [limit_use(amount=0, changed_at=ago(minutes=3), changed_by="ann")]},
            (
                "No job starts: the limit sync is 0 for tenant acme since 2026-11-15 11:57:00 UTC, 3m 00s ago, "
                "set by ann."
            ),
        ),
        (
            {"workers": [worker([f"t{n:02}" for n in range(15)], serves=False)]},
            (
                "No live worker serves the job type mail: the only one serves "
                "t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, t10, t11 and 3 more."
            ),
        ),
        (
            {"workers": SERVED, "ahead": Ahead(600, 0, 0), "finished_attempts": 300, "finished_within": 300.0},
            (
                "The only worker that serves the job is busy: 600 jobs are ahead of it "
                "(600 of its type, queue and priority); 300 attempts finished in the last 5m 00s, "
                "so it may start in about 10m 00s, at 2026-11-15 12:10:00 UTC."
            ),
        ),
        (
            {"workers": SERVED, "ahead": Ahead(0, 1, 0)},
            (
                "The only worker that serves the job is busy: 1 job is ahead of it (1 with the same priority, of "
                "other types or queues); no attempt has finished recently, so its start cannot be estimated."
            ),
        ),
        (
            {"workers": [worker(busy=50)] * 2, "finished_attempts": 60, "finished_within": 120.0},
            (
                "The 2 workers that serve the job have no free slot (100 in total); the job is next; 60 attempts "
                "finished in the last 2m 00s, so it may start in about 2.0s, at 2026-11-15 12:00:02 UTC."
            ),
        ),
        (
            {"workers": SERVED, "ahead": Ahead(900, 200, 0), "finished_attempts": 60, "finished_within": 60.0},
            (
                "The only worker that serves the job is busy: more than 1,000 jobs are ahead of it (200 with the same "
                "priority, of other types or queues, 900 of its type, queue and priority); 60 attempts "
                "finished in the last 1m 00s, so it may start not before 16m 41s, at 2026-11-15 12:16:41 UTC."
            ),
        ),
        ({"workers": SERVED}, "Nothing blocks the job: it has been due for 1.0s and should start any moment."),
        (
            {"workers": SERVED, "run_at": ago(minutes=3), "tick_age": 61.0},
            (
                "Nothing blocks the job: it has been due for 3m 00s and should start any moment, but the last claim "
                "was 1m 01s ago."
            ),
        ),
        (
            {"workers": SERVED, "row_lock": RowLock(7, "psql", ago(minutes=3))},
            "An open transaction of process 7 (psql), open for 3m 00s, has locked the job's row, and claims skip it.",
        ),
    ],
)
def test_the_sentence_of_a_reason(known: dict[str, Any], sentence: str) -> None:
    assert decide(facts(**known)).sentence == sentence


def test_only_workers_that_are_not_stuck_have_free_slots() -> None:
    assert decide(facts(workers=[worker(stuck=STUCK), worker(busy=50)])).name == "busy"
    assert decide(facts(workers=[worker(stuck=STUCK), worker()])).name == "ready"
    paused_and_stuck = decide(facts(workers=[worker(stuck=STUCK), worker(slots=0)]))
    assert paused_and_stuck.name == "workers_stuck"


def test_what_is_said_about_a_stuck_worker() -> None:
    here = JobWorker(10.0, None, True, "mill", 7, STUCK._replace(job_id=facts().id, job_type="mail", stack=None))
    running = {"status": Status.RUNNING, "worker_id": "w1", "seen_at": ago(seconds=1)}
    reason = decide(facts(**running, worker=here, running_beside=2))
    assert reason.sentence == (
        "The job blocks the event loop of w1, for 12s already. The worker does nothing else meanwhile; 2 other jobs "
        "of it wait, too."
    )
    assert "kill -9 7" in reason.remedy
    stopped = here._replace(stuck=Stuck(ago(seconds=12), "stopped", None, None, None))
    reason = decide(facts(**running, worker=stopped))
    assert reason.sentence == (
        "The job is running on w1, which is stuck: its process was stopped 12s ago, by a signal or a debugger."
    )
    assert "kill -CONT 7" in reason.remedy
    hog = f'{OTHER_THREAD}\n  File "/app/jobs.py", line 30, in resize\n'
    for stack, helps in ((hog, "process=True"), (f"{GIL_HELD}\n{hog}", "process=True"), (None, "with def")):
        held = here._replace(stuck=STUCK._replace(stack=stack))
        remedy = decide(facts(**running, worker=held)).remedy
        assert helps in remedy
        assert ("with def" in remedy) == (stack is None), "a thread does not help if the GIL is not released"


def test_an_estimated_wait_of_years_is_a_valid_time() -> None:
    reason = decide(facts(workers=SERVED, ahead=Ahead(10_001), finished_attempts=1, finished_within=3e9))
    assert isinstance(reason.data["starts_at"], datetime)


def test_workers_with_a_free_slot_are_not_busy() -> None:
    assert decide(facts(workers=[worker(busy=50), worker(busy=49)])).name == "ready"
    assert decide(facts(workers=[worker(busy=50), worker(slots=None, busy=9)])).name == "ready", (
        "a worker with an unknown number of slots"
    )


def test_a_blocked_job_names_the_reason_of_the_blocking_job() -> None:
    blocker: Reason = decide(facts(run_at=NOW + timedelta(minutes=4)))
    reason = decide(facts(key="k", blocked=True, blocker=OTHER, earlier=3, workers=SERVED), blocker)
    assert reason.sentence == (
        f"The job is blocked by its key k: it waits for job {OTHER}, which is due in 4m 00s; "
        "2 more with this key run before it."
    )
    assert reason.data == {"key": "k", "blocking_job": OTHER, "blocking_reason": "due_later", "before": 3}
    alone = decide(facts(key="k", blocked=True, blocker=OTHER, earlier=1, workers=SERVED))
    assert alone.sentence == f"The job is blocked by its key k: it waits for job {OTHER}."
