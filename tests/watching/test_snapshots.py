"""How often whoever watches looks at the database, and what it sees each time."""

import io
import threading
import time
from concurrent.futures import Future
from typing import Any

from rich.console import Console

from tests.support.apps import claim_and_start
from treadle import JobQueue, Treadle
from treadle.watching import snapshots as watching
from treadle.watching.viewer import Viewer


def test_one_look_for_all_of_them_a_few_times_a_second(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
    jobs = [claim_and_start(queue) for _ in range(10)]
    looks: list[float] = []
    real = app.database.run

    def run(query: Any) -> Any:
        if "clock_timestamp()" in query.text and "holds" in query.text:
            looks.append(time.monotonic())
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    done = threading.Event()

    def get_on() -> None:
        for percent in range(100):
            for job in jobs:
                queue.progress(job, percent)
            queue.event(jobs[percent % 10], "drawn")  # which wakes whoever waits
        for job in jobs:
            queue.complete(job)
        done.set()

    working = threading.Thread(target=get_on)
    began = time.monotonic()
    working.start()
    Viewer(app.database, app.watch, [job.id for job in jobs], Console(file=io.StringIO())).run()
    seconds = time.monotonic() - began
    working.join()
    assert done.is_set()
    assert 2 <= len(looks) <= seconds / watching.SPACING_SECONDS + 3


def test_a_silent_job_is_looked_at_once_a_second(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
    job = claim_and_start(queue)
    monkeypatch.setattr(watching, "WAIT_SECONDS", 0.3)
    snapshots = iter(watching.snapshots(app.database, app.watch, [job.id]))
    for _ in range(2):
        next(snapshots)
    monkeypatch.setattr(app.watch, "change", lambda *ids: Future())
    next(snapshots)  # also when nobody wakes it


def test_an_event_that_comes_between_the_count_and_the_events_is_told_once(
    app: Treadle, queue: JobQueue, monkeypatch: Any
) -> None:
    job = claim_and_start(queue)
    queue.event(job, "one")
    real, late = app.database.run, ["two"]

    def run(query: Any) -> Any:
        if "unnest" in query.text and "cross join lateral" in query.text and late:
            queue.event(job, late.pop())
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    snapshots = iter(watching.snapshots(app.database, app.watch, [job.id]))
    assert [event.name for event in next(snapshots).events] == ["one", "two"]
    assert next(snapshots).events == []
    queue.event(job, "three")
    told = [event.name for _ in range(2) for event in next(snapshots).events]
    assert told == ["three"]


def test_a_database_that_goes_away_and_comes_back_is_said(url: str, queue: JobQueue, monkeypatch: Any) -> None:
    """The stream asks again; the screen says so meanwhile."""
    job = claim_and_start(queue)
    app = Treadle(url)
    real, broken = app.database.run, threading.Event()

    def run(query: Any) -> Any:
        if broken.is_set():
            raise OSError("gone")
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    told: list[bool] = []

    def unavailable(unavailable: bool) -> None:
        told.append(unavailable)
        broken.clear()

    snapshots = iter(watching.snapshots(app.database, app.watch, [job.id], unavailable))
    next(snapshots)
    broken.set()
    next(snapshots)
    assert told == [True, False]
    app.close()
