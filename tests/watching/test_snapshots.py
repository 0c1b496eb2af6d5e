"""How often a watcher queries the database, and what each snapshot contains."""

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


def test_one_query_for_all_jobs_is_made_a_few_times_per_second(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
    jobs = [claim_and_start(queue) for _ in range(10)]
    queried_at: list[float] = []
    real = app.database.run

    def run(query: Any) -> Any:
        if "clock_timestamp()" in query.text and "holds" in query.text:
            queried_at.append(time.monotonic())
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    done = threading.Event()

    def make_progress() -> None:
        for percent in range(100):
            for job in jobs:
                queue.progress(job, percent)
            queue.event(jobs[percent % 10], "drawn")  # which notifies the watcher
        for job in jobs:
            queue.complete(job)
        done.set()

    progressing = threading.Thread(target=make_progress)
    began = time.monotonic()
    progressing.start()
    Viewer(app.database, app.watch, [job.id for job in jobs], Console(file=io.StringIO())).run()
    seconds = time.monotonic() - began
    progressing.join()
    assert done.is_set()
    assert 2 <= len(queried_at) <= seconds / watching.SPACING_SECONDS + 3


def test_a_job_without_notifications_is_queried_regularly(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
    job = claim_and_start(queue)
    monkeypatch.setattr(watching, "WAIT_SECONDS", 0.3)
    snapshots = iter(watching.snapshots(app.database, app.watch, [job.id]))
    for _ in range(2):
        next(snapshots)
    monkeypatch.setattr(app.watch, "changed", lambda *ids: Future())
    next(snapshots)  # also without a notification


def test_an_event_between_the_two_queries_is_reported_once(app: Treadle, queue: JobQueue, monkeypatch: Any) -> None:
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
    reported = [event.name for _ in range(2) for event in next(snapshots).events]
    assert reported == ["three"]


def test_an_outage_of_the_database_is_reported_and_survived(url: str, queue: JobQueue, monkeypatch: Any) -> None:
    """The stream of snapshots retries, and reports the outage."""
    job = claim_and_start(queue)
    app = Treadle(url)
    real, broken = app.database.run, threading.Event()

    def run(query: Any) -> Any:
        if broken.is_set():
            raise OSError("gone")
        return real(query)

    monkeypatch.setattr(app.database, "run", run)
    reported: list[bool] = []

    def unavailable(unavailable: bool) -> None:
        reported.append(unavailable)
        broken.clear()

    snapshots = iter(watching.snapshots(app.database, app.watch, [job.id], unavailable))
    next(snapshots)
    broken.set()
    next(snapshots)
    assert reported == [True, False]
    app.close()
