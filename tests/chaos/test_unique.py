"""The short form of `python -m chaos.unique`, and what its checks find."""

import os
from pathlib import Path
from typing import Any

import pytest
from chaos.ledger import FOLDER

pytestmark = pytest.mark.own_database


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "ledger"))


@pytest.mark.long
def test_every_mode_holds_while_workers_are_killed(own_url: str, tmp_path: Path) -> None:
    from chaos.unique import Trial, job_ends, violations

    trial = Trial(own_url, tmp_path, seed=7, workers=1)
    records = trial.run(calls=150, producers=1, texts=10)
    assert list(violations(records, job_ends(own_url))) == []
    assert sum(each["what"] == "called" for each in records) >= 150


def called(mode: str, at: float, call: str, job: str, is_new: bool = True) -> dict[str, Any]:
    return {
        "what": "called",
        "mode": mode,
        "text": "t",
        "invoked": at,
        "at": at,
        "call": call,
        "job": job,
        "is_new": is_new,
    }


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([{"what": "failed", "mode": "pending", "error": "DeadlockDetected()"}], "a call failed"),
        ([called("unfinished", 1, "a", "1"), called("unfinished", 2, "b", "2")], "2 was added before 1 had ended"),
        ([called("pending", 1, "a", "1"), called("pending", 2, "b", "2")], "2 was added before 1 was claimed"),
        ([called("replace", 1, "a", "1"), called("replace", 2, "b", "1", False)], "none of the last calls was run"),
        ([called("throttle", 1 + n / 10, "abc"[n], "123"[n]) for n in range(3)], "3 was added 0.200 s after 1"),
        ([called("pending", 1, "a", "9", False)], "which does not exist"),
    ],
)
def test_what_the_checks_find(records: list[Any], found: str) -> None:
    from chaos.unique import JobEnd, violations

    jobs = {str(n): JobEnd("completed", 1, float(n), 9.0) for n in (1, 2, 3)}
    assert any(found in each for each in violations(records, jobs))
    assert os.environ[FOLDER]
