"""The short form of `python -m chaos.limits`, and what its checks find."""

import threading
from pathlib import Path
from typing import Any

import pytest
from chaos.faults import server_log_problems, worker_log_problems
from chaos.ledger import Record
from chaos.limit_checker import Rule, check
from chaos.limits import Storm, last_round_problems
from chaos.moves import Move

LEASE = 3.0
RULES = (Rule("two", ("sync",), 2), Rule("rate", ("rated",), 10, per_second=True, burst=2))


@pytest.mark.own_database
@pytest.mark.long
def test_no_limit_is_exceeded_when_workers_are_killed(own_url: str, tmp_path: Path) -> None:
    storm = Storm(own_url, tmp_path, seed=7, programs=2, tenants=5)
    over = threading.Event()
    interference = threading.Thread(target=storm.interfere, args=(over,))
    try:
        interference.start()
        storm.enqueue(300, over)
        for _ in range(2):
            storm.harm()
            storm.wait(1.0)
        over.set()
        interference.join()
        storm.finish()
        verdict = storm.verdict()
    finally:
        over.set()
        interference.join()
        storm.close()
    assert not verdict.problems, "\n".join(verdict.problems)
    assert verdict.runs > 300


def run(job: str, start: float, end: float | None, pid: int = 1, name: str = "sync", **more: Any) -> list[Record]:
    """The lines of one run."""
    this = {"id": job, "lease": 1, "type": name, "tenant": "acme", "pid": pid}
    lines = [{"what": "start", "at": start, **this, "weight": 1, "last": False, **more}]
    return lines if end is None else [*lines, {"what": "end", "at": end, **this, "told": 0.0, **more}]


def fault(did: str, at: float, pid: int = 1) -> Record:
    return {"what": "fault", "did": did, "pids": [pid], "begin": at, "at": at + 0.01}


def found(records: list[Record], *moves: Move, claimed: float = 0.01) -> list[str]:
    claims = [
        Move(each["id"], 1, each["at"] - claimed, "claimed", each["type"], each["tenant"])
        for each in records
        if each["what"] == "start"
    ]
    return check(sorted(records, key=lambda each: each["at"]), [*claims, *moves], LEASE, RULES).problems


TWO = run("a", 10, 12) + run("b", 10.1, 12)


def test_as_many_as_allowed_is_as_it_should_be() -> None:
    assert not found(TWO + run("c", 12.1, 13))


def test_one_too_many_is_found() -> None:
    (problem,) = found(TWO + run("c", 11, 13))
    assert "two : 3 of 2" in problem


def test_a_heavy_one_is_found() -> None:
    (problem,) = found(run("a", 10, 12) + run("b", 11, 12, weight=2))
    assert "3 of 2" in problem


def test_a_killed_run_ends_with_its_process() -> None:
    killed = run("a", 10, None) + run("b", 10.1, 12, pid=2) + [fault("killed", 11)]
    assert not found(killed + run("c", 11.5, 13, pid=2))
    assert "3 of 2" in found(killed + run("c", 10.9, 13, pid=2))[0]


def test_a_stopped_run_counts_until_its_lease_is_over() -> None:
    stopped = run("a", 10, 19) + run("b", 10.1, 19, pid=2) + [fault("stopped", 11)]
    assert not found(stopped + run("c", 14.6, 15, pid=2), Move("a", 1, 14.5, "pending"))
    assert "3 of 2" in found(stopped + run("c", 14.4, 15, pid=2), Move("a", 1, 14.5, "pending"))[0]
    early = found(stopped + run("c", 12.1, 15, pid=2), Move("a", 1, 12, "pending"))
    assert "stopped for only 1.000 s" in early[0]


def test_a_job_that_was_taken_from_a_live_worker_is_found() -> None:
    assert "while its process ran" in found(run("a", 10, 12), Move("a", 1, 11, "pending"))[0]


def test_a_cancelled_run_counts_until_it_was_cancelled() -> None:
    cancelled = [*TWO, {"what": "cancelling", "id": "a", "at": 10.9}]
    assert not found(cancelled + run("c", 11.1, 13), Move("a", 1, 11, "cancelled"))


def test_a_run_without_an_end_is_found() -> None:
    assert "has no end" in found(run("a", 10, None))[0]


def test_a_changed_limit_counts_from_the_claim_on() -> None:
    lower = {"what": "limit", "name": "two", "key": "", "amount": 1, "invoked": 10.49, "at": 10.5}
    assert not found([*TWO, lower])
    assert not found([*run("a", 10, 12), *run("b", 10.6, 12), lower], claimed=0.2)
    assert "2 of 1" in found([*run("a", 10, 12), *run("b", 11, 12), lower])[0]


def test_too_many_starts_in_a_window_are_found() -> None:
    every = [line for n in range(20) for line in run(str(n), 10 + n * 0.1, 11 + n * 0.1, name="rated")]
    assert not found(every)
    assert "claims" in found(every + run("x", 10.5, 11, name="rated") + run("y", 10.5, 11, name="rated"))[0]


def test_claims_of_jobs_that_never_started_count() -> None:
    claims = [Move(str(n), 1, 10.0, "claimed", "rated", "acme") for n in range(3)]
    assert "claims" in found([], *claims)[0]


def test_a_claim_from_a_closed_limit_is_found() -> None:
    closed = run("a", 10, 10.1, name="rated", told=2.0)
    away = Move("a", 1, 10.11, "pending")
    assert not found(closed + run("b", 12.2, 13, name="rated"), away)
    assert "after it was closed" in found(closed + run("b", 11, 13, name="rated"), away)[0]


def test_a_lost_slot_is_found() -> None:
    first, other = run("a", 10, 12, last=True), run("b", 11, 13, last=True)
    assert not last_round_problems([first[0], other[0], first[1], other[1]], {("sync", "acme"): 2})
    assert last_round_problems([*first, *other], {("sync", "acme"): 2})


def test_errors_in_logs_are_found() -> None:
    assert server_log_problems("2026-11-17 UTC [1] LOG:  ready\n2026-11-17 UTC [1] ERROR:  deadlock detected\n")
    assert worker_log_problems("12:00:00 ERROR   the database is unavailable: refused") == []
    assert worker_log_problems("12:00:00 ERROR   the claimer has failed")
