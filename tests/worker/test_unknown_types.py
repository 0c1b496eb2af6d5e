"""A worker warns of due jobs whose type it does not know."""

import logging

import pytest

from tests.support.workers import auntil, run, running_worker
from treadle import JobQueue, Treadle, events
from treadle.worker import unknown_types
from treadle.worker.worker import Worker


def test_a_worker_warns_once_of_each_type_that_nobody_knows(
    app: Treadle, queue: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    app.job(name="known", aliases=["former"])(lambda: None)
    app.job(name="elsewhere")(lambda: None)
    heard: list[events.UnknownTypesFound] = []
    app.on(events.UnknownTypesFound)(heard.append)
    queue.enqueue("lost", {})
    queue.enqueue("another", {})
    queue.enqueue("former", {}, queue="not served")
    queue.enqueue("later", {}, delay="1h")
    queue.cancel(queue.enqueue("cancelled", {}))

    async def body(worker: Worker) -> None:
        await worker.unknown_types.check()
        await worker.unknown_types.check()
        queue.enqueue("third", {})
        await worker.unknown_types.check()

    with caplog.at_level(logging.WARNING, "treadle"):
        run(app, body, types=["known"])
    assert [each.job_types for each in heard] == [("another", "lost"), ("third",)]
    assert "jobs are due whose type this application does not know" in caplog.text
    assert "job_types=another,lost" in caplog.text


def test_types_of_another_application_that_works_here_are_no_surprise(app: Treadle, queue: JobQueue, url: str) -> None:
    app.job(name="ours")(lambda: None)
    other = Treadle(url)
    other.job(name="theirs")(lambda: None)
    heard: list[events.UnknownTypesFound] = []
    app.on(events.UnknownTypesFound)(heard.append)

    async def body(worker: Worker) -> None:
        async with running_worker(other, concurrency=1) as theirs:
            theirs.claimers[0].stop()
            queue.enqueue("theirs", {})
            await worker.unknown_types.check()
            assert heard == []
        await worker.unknown_types.check()
        assert len(heard) == 1
        await other.aclose()

    run(app, body)


def test_the_check_is_one_of_the_services(app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_types, "CHECK_SECONDS", 0.05)
    app.job(name="known")(lambda: None)
    heard: list[events.UnknownTypesFound] = []
    app.on(events.UnknownTypesFound)(heard.append)
    queue.enqueue("lost", {})

    async def body(worker: Worker) -> None:
        await auntil(lambda: bool(heard))

    run(app, body)
