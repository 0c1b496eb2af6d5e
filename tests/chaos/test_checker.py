"""The checker of chaos/: it reports each kind of violation, and nothing else."""

from typing import Any

import pytest
from chaos.checker import Row, Tables, Verdict, check
from chaos.ledger import Record

DONE = Row("a", "t", "on_event_loop", "completed", 1, 1, 3, 0, 1)


def entry(what: str, at: float, **more: Any) -> Record:
    return {"what": what, "at": at, "pid": 7, **more}


def invoked(*tokens: str, unique: str | None = None) -> Record:
    return entry("invoked", 1, tokens=list(tokens), unique=unique)


def returned(token: str = "t", job_id: str = "a") -> Record:
    return entry("returned", 2, tokens=[token], ids=[job_id])


def start(lease: int = 1, at: float = 3, *, job_id: str = "a", token: str = "t", others: Any = ()) -> Record:
    return entry("start", at, id=job_id, lease=lease, token=token, others=list(others))


def end(how: str, lease: int = 1, at: float = 4) -> Record:
    return entry("end", at, id="a", lease=lease, how=how)


def accepted(outcome: str, lease: int = 1) -> Record:
    return entry("accepted", 5, id="a", lease=lease, outcome=outcome)


GOOD = [invoked("t"), returned(), start(), end("returned"), accepted("completed")]
RETRIED = [*GOOD[:3], end("raised"), accepted("retried"), start(2, 6), end("returned", 2, 7), accepted("completed", 2)]


def kinds(verdict: Verdict) -> list[str]:
    return sorted({violation.kind for violation in verdict.violations})


def violation_kinds(records: list[Record], *rows: Row, **tables: Any) -> list[str]:
    return kinds(check(records, Tables(rows, **tables), crash_limit=3))


def test_a_run_without_faults_has_no_violations() -> None:
    verdict = check(GOOD, Tables([DONE]), 3)
    assert verdict.holds
    assert (verdict.counts["enqueued"], verdict.counts["runs"], verdict.counts["completed"]) == (1, 1, 1)
    assert violation_kinds(RETRIED, DONE._replace(lease=2, attempts=2, result_lease=2), errors=[("a", 1)]) == []


def test_a_job_that_was_enqueued_and_is_missing_is_lost() -> None:
    assert violation_kinds(GOOD[:2]) == ["lost"]
    assert violation_kinds([invoked("t")]) == []  # without a reply, the enqueue may have failed
    assert violation_kinds([invoked("t"), entry("unknown", 2, tokens=["t"])]) == []


@pytest.mark.parametrize("status", ["pending", "claimed", "running"])
def test_a_job_that_never_finishes_is_lost(status: str) -> None:
    assert violation_kinds(GOOD[:2], DONE._replace(status=status, lease=0)) == ["lost"]


def test_a_job_that_finishes_without_a_reason_is_lost() -> None:
    assert violation_kinds(GOOD[:2], DONE) == ["lost"]  # completed, but it never ran
    assert violation_kinds([*GOOD[:3], end("stopped")], DONE) == ["lost"]
    assert violation_kinds([*GOOD[:3], end("raised")], DONE._replace(status="failed")) == ["lost"]
    assert violation_kinds([*GOOD[:3], end("raised")], DONE._replace(status="failed", max_attempts=1)) == []
    # Cancelled when it was claimed, before it began, and retried: that attempt counts.
    retried = [*GOOD[:2], entry("cancelling", 2.5, id="a"), entry("moving", 2.6, id="a"), start(2), end("raised", 2)]
    twice = DONE._replace(status="failed", lease=2, attempts=2, max_attempts=2)
    assert violation_kinds(retried, twice) == []
    assert violation_kinds([each for each in retried if each["what"] != "moving"], twice) == ["blamed", "lost"]
    assert violation_kinds(GOOD[:3], DONE._replace(status="failed", crashes=3)) == []
    assert violation_kinds(GOOD[:2], DONE._replace(status="cancelled")) == ["lost"]
    assert violation_kinds([*GOOD[:2], entry("cancelling", 2, id="a")], DONE._replace(status="cancelled")) == []
    assert violation_kinds([*GOOD[:3], end("cancelled")], DONE._replace(status="cancelled")) == []


def test_a_job_that_was_never_enqueued_is_a_phantom() -> None:
    assert violation_kinds(GOOD[2:], DONE) == ["phantom"]
    assert violation_kinds([*GOOD, start(job_id="b", token="u")], DONE) == ["phantom"]
    # One call, two jobs: the call was repeated by mistake.
    assert violation_kinds([*GOOD, start(job_id="b"), entry("cancelling", 2, id="b")], DONE, DONE._replace(id="b")) == [
        "lost",
        "phantom",
    ]


def test_a_unique_enqueue_may_return_an_existing_job() -> None:
    assert violation_kinds([*GOOD, invoked("u", unique="x"), returned("u", "a")], DONE) == []
    assert violation_kinds([*GOOD, invoked("u", unique="x"), returned("u", "b")], DONE) == ["lost"]


def test_a_job_that_was_rolled_back_must_neither_exist_nor_run() -> None:
    rolled_back = [invoked("t"), entry("rolled_back", 2, tokens=["t"])]
    assert violation_kinds(rolled_back) == []
    assert violation_kinds(rolled_back, DONE._replace(status="cancelled")) == ["lost", "rolled back"]
    assert violation_kinds([*rolled_back, start()]) == ["rolled back"]


def test_a_call_whose_reply_was_lost_is_executed_completely_or_not_at_all() -> None:
    half = [invoked("t", "u"), *GOOD[2:]]
    assert violation_kinds(half, DONE) == ["not atomic"]
    assert violation_kinds([*half, start(job_id="b", token="u")], DONE, DONE._replace(id="b", token="u")) == ["lost"]


def test_an_outcome_accepted_twice() -> None:
    assert violation_kinds([*GOOD, accepted("completed")], DONE) == ["duplicate"]
    assert violation_kinds([*GOOD, accepted("failed", 2)], DONE) == ["duplicate", "stale"]
    assert violation_kinds([*GOOD[:4], accepted("retried"), accepted("completed")], DONE) == ["duplicate"]
    assert violation_kinds(GOOD, DONE, errors=[("a", 1)]) == ["duplicate"]
    again = DONE._replace(lease=2, attempts=2, result_lease=2)
    assert violation_kinds(RETRIED, again, errors=[("a", 1), ("a", 1)]) == ["duplicate"]


def test_a_stale_outcome() -> None:
    late = DONE._replace(lease=2, result_lease=1)
    assert "stale" in violation_kinds([*GOOD, start(2, 6), end("returned", 2, 7)], late)
    # The worker was told that its outcome was accepted, but the table has another one.
    assert violation_kinds(
        [*RETRIED[:-1], accepted("completed", 1)], DONE._replace(lease=2, attempts=2, result_lease=2)
    ) == [
        "duplicate",
        "stale",
    ]
    assert "stale" in violation_kinds([*GOOD, start(2, 6)], DONE)


def test_a_job_that_did_not_wait() -> None:
    other = DONE._replace(id="b", token="u")
    waits = entry("invoked", 1, tokens=["u"], after=[["a", "completed"]])
    late = [waits, start(1, 5, job_id="b", token="u"), {**end("returned", 1, 6), "id": "b"}]
    assert violation_kinds([*GOOD, *late], DONE, other) == []
    early = [waits, start(1, 3.5, job_id="b", token="u"), {**end("returned", 1, 6), "id": "b"}]
    assert violation_kinds([*GOOD, *early], DONE, other) == ["too early"]
    cancelled = [*GOOD[:2], entry("cancelling", 2, id="a")]
    gone = DONE._replace(status="cancelled", lease=0, attempts=0, result_lease=None)
    assert violation_kinds([*cancelled, *late], gone, other) == ["too early"]
    stopped = gone._replace(id="b", token="u")
    assert violation_kinds([*cancelled, waits], gone, stopped) == []
    allowed = entry("invoked", 1, tokens=["u"], after=[["a", "ended"]])
    assert violation_kinds([*cancelled, allowed, *late[1:]], gone, other) == []
    assert violation_kinds([*cancelled, allowed], gone, stopped) == ["lost"]


def test_overlapping_runs() -> None:
    others = [{"lock": "job a", "pid": 8, "lease": 1, "id": "a"}]
    runs = [*GOOD[:3], start(2, 6, others=others), end("returned", 2, 7), accepted("completed", 2)]
    row = DONE._replace(lease=2, result_lease=2)
    assert violation_kinds(runs, row) == ["overlap"]
    stopped, later = entry("fault", 3.5, did="stopped", pids=[8]), entry("fault", 5.5, did="continued", pids=[8])
    assert violation_kinds([*runs, stopped, later], row) == []
    assert violation_kinds([*runs, stopped], row) == []
    assert violation_kinds([*runs, entry("fault", 3.5, did="stopped", pids=[9])], row) == ["overlap"]
    early = [entry("fault", -9, did="stopped", pids=[8]), entry("fault", -8, did="continued", pids=[8])]
    assert violation_kinds([*early, *runs], row) == ["overlap"]
    assert violation_kinds([*runs[:3], start(2, 6, others=[{"lock": "job a"}]), *runs[4:]], row) == ["overlap"]


def test_two_runs_under_one_claim() -> None:
    assert violation_kinds([*GOOD, start(at=6)], DONE) == ["overlap"]


def test_more_attempts_or_crashes_than_allowed() -> None:
    assert violation_kinds(GOOD, DONE._replace(attempts=4)) == ["limits"]
    assert violation_kinds(GOOD, DONE._replace(crashes=4)) == ["limits"]
    often = [accepted("retried", lease) for lease in range(2, 6)]
    assert "limits" in violation_kinds([*GOOD, *often], DONE._replace(lease=6))


def test_all_losses_of_a_worker_but_the_first_count_as_crashes() -> None:
    lost = [*GOOD[:3], start(2), start(3), start(4)]
    failed = DONE._replace(status="failed", lease=4, attempts=0)
    assert violation_kinds(lost, failed._replace(losses=4)) == []
    assert violation_kinds(lost, failed._replace(losses=3)) == ["lost"], "failed too early"
    assert violation_kinds([*lost, start(5)], failed._replace(lease=5, losses=5)) == ["limits"]


def test_a_job_that_was_lost_with_a_worker_without_having_started_is_blamed() -> None:
    assert violation_kinds(GOOD, DONE._replace(losses=1)) == []
    assert violation_kinds(GOOD, DONE._replace(losses=2)) == ["blamed"]


def test_rows_committed_together_exist_together() -> None:
    order = [invoked("order-t"), returned("order-t"), start(token="order-t"), *GOOD[3:]]
    row = DONE._replace(token="order-t")
    assert violation_kinds(order, row, orders=frozenset({"order-t"})) == []
    assert violation_kinds(order, row) == ["not atomic"]
    assert violation_kinds(GOOD, DONE, orders=frozenset({"order-u"})) == ["not atomic"]
    paid = DONE._replace(job_type="pay")
    assert violation_kinds(GOOD, paid, effects=[("a", 1)]) == []
    assert violation_kinds(GOOD, paid) == ["effects"]
    assert violation_kinds(GOOD, paid, effects=[("a", 1), ("a", 1)]) == ["effects"]
    assert violation_kinds(GOOD, paid, effects=[("a", 2)]) == ["effects"]
    # The commit was executed, but the handler only saw that its connection broke.
    finishing = entry("finishing", 3.5, id="a", lease=1)
    assert violation_kinds([*GOOD[:3], finishing, end("raised")], paid, effects=[("a", 1)]) == []
    assert violation_kinds([*GOOD[:3], end("raised")], paid, effects=[("a", 1)]) == ["lost"]


def test_an_attempt_that_did_not_start_is_found_unless_its_worker_was_lost() -> None:
    twice = DONE._replace(attempts=2)
    assert violation_kinds(GOOD, twice) == ["blamed"]
    assert violation_kinds(GOOD, twice._replace(crashes=1)) == []


def test_settings_that_a_job_has_left_in_its_session_are_found() -> None:
    assert violation_kinds([*GOOD, entry("leaked", 6, text="job b found what job a had set")], DONE) == ["session"]
