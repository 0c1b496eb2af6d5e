"""Job is what the documentation lists, and nothing else; the state behind it is shared by all threads of a handler."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from treadle import Job, Treadle, current_job
from treadle.attempt import attempt as attempt_module
from treadle.attempt.attempt import Attempt, running_attempt, running_job_id
from treadle.attempt.environment import Environment
from treadle.attempt.job import job_of
from treadle.words.job import Claim

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("jobs", "progress", "events", "checkpoints", "exactly-once")
CLAIM = Claim(UUID(int=7), 3, "resize", "{}", 1, 3, 0, "default", 100, None, None, 0.0)


class Writer:
    def notify(self, attempt: Attempt) -> None: ...

    def flush_now(self, attempt: Attempt) -> None: ...


@pytest.fixture
def attempt() -> Attempt:
    app = Treadle("postgresql://nowhere.invalid/none")
    environment = Environment("worker", app.database, app.payload_limit, str, keep_logs=True, keep_prints=True)
    return Attempt(CLAIM, environment, Writer())


def test_the_members_of_a_job_are_those_that_the_documentation_lists() -> None:
    pages = {name: (DOCS / f"{name}.md").read_text() for name in PAGES}
    documented = {name for text in pages.values() for name in re.findall(r"\bjob\.([a-z_]+)", text)}
    # The row of attributes names the first as `job.id` and the others without `job.`.
    (attributes,) = re.findall(r"^\| (`job\.id`.*?) \|", pages["jobs"], re.MULTILINE)
    documented |= set(re.findall(r"`([a-z_]+)`", attributes))
    assert {name for name in dir(Job) if not name.startswith("_")} == documented


def test_a_job_keeps_nothing_but_its_attempt(attempt: Attempt) -> None:
    assert Job.__slots__ == ("_attempt",)
    assert not hasattr(job_of(attempt), "__dict__")


def test_an_attempt_has_one_job(attempt: Attempt) -> None:
    token = running_attempt.set(attempt)
    try:
        assert current_job() is current_job() is job_of(attempt)
        assert running_job_id() == current_job().id == CLAIM.id
    finally:
        running_attempt.reset(token)
    assert running_job_id() is None


@pytest.mark.parametrize(
    ("part", "made"),
    [
        ("progress", "ProgressTracker"),
        ("outbox", "Outbox"),
        ("memory", "Memory"),
        ("transactions", "Transactions"),
    ],
)
def test_threads_that_need_the_same_part_at_once_share_it(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch, part: str, made: str
) -> None:
    """Otherwise the first event, step or percentage of one of them is lost."""
    real, together = getattr(attempt_module, made), threading.Barrier(2)

    def slow(*args: Any) -> Any:
        time.sleep(0.1)
        return real(*args)

    def get() -> Any:
        together.wait()
        return getattr(attempt, part)

    monkeypatch.setattr(attempt_module, made, slow)
    with ThreadPoolExecutor(2) as threads:
        first, second = (each.result() for each in [threads.submit(get) for _ in range(2)])
    assert first is second
