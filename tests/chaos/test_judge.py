"""The judge of ledgers, as it is used for any queue: what it finds beside what tests/chaos/test_checker.py shows."""

import ast
import json
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from chaos.judge import Record, judge

JUDGE = Path(__file__).parents[2] / "chaos" / "judge.py"


def entry(what: str, at: float, **more: Any) -> Record:
    return {"what": what, "at": at, "pid": 7, **more}


def added(job: str, at: float, **promised: Any) -> list[Record]:
    """The call took a tenth of a second."""
    return [
        entry("invoked", at, tokens=[f"token {job}"], **promised),
        entry("returned", at + 0.1, tokens=[f"token {job}"], ids=[job]),
    ]


def ran(job: str, start: float, end: float, lease: int = 1, how: str = "returned", **more: Any) -> list[Record]:
    this = {"id": job, "lease": lease}
    return [entry("start", start, **this, token=f"token {job}", **more), entry("end", end, **this, how=how)]


def row(job: str, status: str = "completed", lease: int = 1) -> list[Record]:
    return [entry("row", 99, id=job, token=f"token {job}", status=status, lease=lease, max_attempts=3)]


def found(*records: list[Record]) -> list[str]:
    """Which kinds of violations."""
    return [kind for kind, _ in judge(sorted(chain(*records), key=lambda record: record["at"]))]


def two(first: tuple[float, float], second: tuple[float, float], **promised: Any) -> list[list[Record]]:
    """Two jobs, the second added at 2, and when they run."""
    return [
        added("a", 1, **promised),
        added("b", 2, **promised),
        ran("a", *first),
        ran("b", *second),
        row("a"),
        row("b"),
    ]


def test_jobs_of_a_key_run_in_the_order_in_which_they_were_added() -> None:
    assert found(*two((3, 4), (4.1, 5), key="k")) == []
    assert found(*two((4.1, 5), (3, 4), key="k")) == ["order"]
    assert found(*two((3, 4), (3.5, 5), key="k")) == ["order"]
    assert found(*two((4.1, 5), (3, 4))) == []


def test_an_order_that_nobody_could_know_is_not_judged() -> None:
    later = added("b", 1.05, key="k")  # while the call for the other had not returned
    assert found(added("a", 1, key="k"), later, ran("a", 4, 5), ran("b", 2, 3), row("a"), row("b")) == []
    moved = [entry("moving", 1.5, id="a")]
    assert found(*two((4.1, 5), (3, 4), key="k"), moved) == []


def test_a_job_that_starts_before_its_time_is_found() -> None:
    promised = added("a", 1, not_before=3.0)
    assert found(promised, ran("a", 3, 4), row("a")) == []
    assert found(promised, ran("a", 2.9, 4), row("a")) == ["too early"]
    assert found(promised, ran("a", 2.9, 4), row("a"), [entry("fault", 2, did="set", clock=True)]) == []


@pytest.mark.parametrize(
    ("needs", "status", "kinds"), [("failed", "failed", []), ("failed", "completed", ["too early"])]
)
def test_a_job_that_runs_only_if_another_fails(needs: str, status: str, kinds: list[str]) -> None:
    waits = added("b", 2, after=[["token a", needs]])
    tries = [ran("a", 2 + n, 2.5 + n, n, how="raised") for n in (1, 2)]
    last = ran("a", 5, 5.5, 3, how="raised" if status == "failed" else "returned")
    records = [added("a", 1), waits, *tries, last, row("a", status, 3)]
    assert found(*records, ran("b", 6, 7), row("b")) == kinds
    assert found(*records, row("b", "cancelled")) == (["lost"] if status == "failed" else [])


def limit(amount: int | None, at: float, key: str = "") -> list[Record]:
    return [entry("limit", at, name="crm", key=key, amount=amount, invoked=at - 0.01)]


def under_limit(first: tuple[float, float], second: tuple[float, float], **more: Any) -> list[list[Record]]:
    limits = [["crm", "acme", 1]]
    runs = [ran("a", *first, limits=limits), ran("b", *second, limits=limits, **more)]
    return [added("a", 1), added("b", 2), *runs, row("a"), row("b")]


def test_a_run_over_a_limit_is_found() -> None:
    both = under_limit((3, 5), (4, 6))
    assert found(*both) == []
    assert found(*both, limit(1, 2)) == ["over limit"]
    assert found(*both, limit(2, 2)) == []
    assert found(*both, limit(2, 2), limit(1, 2.5, key="acme")) == ["over limit"]
    assert found(*both, limit(2, 2), limit(1, 2.5, key="globex")) == []
    assert found(*both, limit(1, 2), limit(None, 3.5)) == []
    assert found(*under_limit((3, 4), (4, 6)), limit(1, 2)) == []


def test_a_limit_that_became_lower_counts_from_the_next_claim_on() -> None:
    both = under_limit((3, 5), (4, 6))
    assert found(*both, limit(1, 3.9)) == ["over limit"]
    assert found(*both, limit(2, 3), limit(1, 3.9), [entry("claimed", 3.8, id="b", lease=1)]) == []


def test_what_no_longer_runs_does_not_count() -> None:
    both = under_limit((3, 5), (4, 6))
    assert found(*both, limit(1, 2), [entry("taken", 3.5, id="a", lease=1)]) == []
    assert found(*both, limit(1, 2), [entry("fault", 3.5, did="killed", pids=[7])]) == []
    assert found(*under_limit((3, 5), (4, 6), unasked=True), limit(1, 2)) == [], "the queue was not asked"


def test_a_time_of_a_schedule_with_two_jobs_is_found() -> None:
    times: Any = {"schedule": "nightly", "scheduled_for": "00:00"}
    one = [ran("a", 3, 4, **times), ran("a", 5, 6, 2, **times)]
    assert found(*one) == []
    assert found(*one, ran("b", 7, 8, **times)) == ["duplicate"]


def test_a_second_job_within_a_period_is_found() -> None:
    runs = [ran("a", 3, 4), ran("b", 3, 4), row("a"), row("b")]
    assert found(added("a", 1, once=["t", 1.0]), added("b", 2, once=["t", 1.0]), *runs) == []
    assert found(added("a", 1, once=["t", 2.0]), added("b", 2, once=["t", 2.0]), *runs) == ["duplicate"]


def test_an_attempt_that_ends_after_the_next_has_begun_is_found() -> None:
    runs = [added("a", 1), ran("a", 3, 5, 1, how="stopped"), ran("a", 4, 6, 2), row("a", lease=2)]
    assert found(*runs) == ["overlap"]
    assert found(*runs, [entry("fault", 3.5, did="stopped", pids=[7])]) == []


def test_it_reads_a_ledger_and_shares_no_code(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in added("a", 1)) + '{"what": "star')
    command = [sys.executable, "-S", "-E", str(JUDGE), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "lost: job a: its enqueue returned, but it is not in the table",
        "lost: token token a: its enqueue returned, but no job has this token",
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in chain(*two((3, 4), (4, 5)))))
    assert subprocess.run(command, check=False).returncode == 0
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(JUDGE.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    assert imported <= sys.stdlib_module_names
