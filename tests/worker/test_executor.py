"""Where handlers run, and the events around them."""

import json
import logging
import threading
from dataclasses import replace

import pytest

from tests.support.workers import auntil, run
from treadle import Backoff, InvalidJob, Job, JobFailed, Retries, Treadle, current_job, events
from treadle.worker.log import write
from treadle.worker.log_format import JsonFormatter, TextFormatter
from treadle.worker.worker import Worker


def test_async_handlers_run_on_the_loop_and_sync_handlers_on_threads(app: Treadle) -> None:
    @app.job
    async def on_the_loop() -> str:
        return threading.current_thread().name

    @app.job
    def on_a_thread(job: Job) -> str:
        assert current_job() is job
        return threading.current_thread().name

    async def body(worker: Worker) -> None:
        assert await (await on_the_loop.aenqueue()).aresult(30) == "MainThread"
        assert (await (await on_a_thread.aenqueue()).aresult(30)).startswith("treadle-job")

    run(app, body)


def test_context_variables_of_one_job_are_not_seen_by_the_next(app: Treadle) -> None:
    from contextvars import ContextVar

    colour: ContextVar[str] = ContextVar("colour", default="none")

    @app.job
    async def paints() -> str:
        before = colour.get()
        colour.set("red")
        return before

    async def body(worker: Worker) -> None:
        for _ in range(3):
            assert await (await paints.aenqueue()).aresult(30) == "none"

    run(app, body, concurrency=1)


def test_a_function_inside_another_cannot_have_a_process_of_its_own(app: Treadle) -> None:
    with pytest.raises(InvalidJob, match="at the top level of a module"):

        @app.job(process=True)
        def inner() -> None: ...


def test_events_tell_everything(app: Treadle, caplog: pytest.LogCaptureFixture) -> None:
    told: list[events.Event] = []
    app.on(events.Event)(told.append)

    @app.on(events.JobClaimed)
    def broken_listener(event: events.JobClaimed) -> None:
        raise RuntimeError("a listener cannot stop a job")

    @app.job(retry=Retries(1, backoff=Backoff(first=0.1)))
    async def twice(job: Job, secret: str) -> None:
        if job.attempt == 1:
            raise ValueError("no")

    @app.job(retry=Retries(0))
    async def never() -> None:
        raise OSError("never")

    async def body(worker: Worker) -> None:
        await (await twice.aenqueue(secret="hunter2")).aresult(30)  # noqa: S106
        await auntil(lambda: any(isinstance(each, events.JobCompleted) for each in told))  # the worker hears it later
        with pytest.raises(JobFailed):
            await (await never.aenqueue()).aresult(30)
        await auntil(lambda: any(isinstance(each, events.JobFailed) for each in told))

    with caplog.at_level(logging.DEBUG, "treadle"):
        run(app, body)
    kinds = [type(each).__name__ for each in told]
    assert kinds == [
        "WorkerStarted",
        "JobClaimed",
        "JobStarted",
        "JobRetried",
        "JobClaimed",
        "JobStarted",
        "JobCompleted",
        "JobClaimed",
        "JobStarted",
        "JobFailed",
        "WorkerStopped",
    ]
    completed = next(each for each in told if isinstance(each, events.JobCompleted))
    assert (completed.job_type, completed.attempt) == ("twice", 2)
    assert completed.data == '{"secret": "hunter2"}'
    assert [each.lease for each in told if isinstance(each, events.JobRetried | events.JobCompleted)] == [1, 2]
    lines = [record for record in caplog.records if record.name == "treadle" and hasattr(record, "event")]
    assert [vars(record)["what"] for record in lines if record.levelno >= logging.WARNING] == [
        "job failed, will be retried",
        "job failed",
    ]
    for record in lines:
        for formatter in (TextFormatter(), JsonFormatter()):
            assert "hunter2" not in formatter.format(record)
    failed, stopped = lines[-2:]
    shown = json.loads(JsonFormatter().format(failed))
    assert (shown["message"], shown["error"]) == ("job failed", "OSError: never")
    # With any formatter the fields are in the message; in JSON they are separate.
    assert failed.getMessage().startswith(f"job failed job_id={shown['job_id']} job_type=never")
    assert 'error="OSError: never"' in TextFormatter().format(failed)
    assert stopped.getMessage().startswith("worker stopped worker_id=")
    hostile = logging.makeLogRecord(
        {"msg": "job failed error=%s", "args": ("\x1b[2J\u202e\x9b\tä",), "name": "treadle"}
    )
    hostile.exc_text = "Traceback\n  boo.\x1b]0;owned\x07Error"
    assert TextFormatter().format(hostile).partition("error=")[2] == (
        "\\x1b[2J\\u202e\\x9b\tä\nTraceback\n  boo.\\x1b]0;owned\\x07Error"
    )
    with caplog.at_level(logging.ERROR, "treadle"):
        write(replace(next(each for each in told if isinstance(each, events.JobFailed)), error=""))
    assert "error=" not in caplog.records[-1].getMessage(), "there is nothing to say about it"
