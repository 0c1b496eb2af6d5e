"""What is sent to Sentry, by its SDK with a transport that keeps events in memory."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from psycopg import Connection
from sentry_sdk.integrations.logging import unignore_logger

from tests.support.sentry import FakeTransport, init
from tests.support.workers import SOON, auntil, count, run, until, worker_process
from treadle import Cancel, Job, RateLimited, Retries, Retry, Snooze, Treadle
from treadle.contrib.opentelemetry import instrument as instrument_opentelemetry
from treadle.contrib.sentry import instrument
from treadle.worker.worker import Worker

Start = Callable[..., FakeTransport]


@pytest.fixture
def start() -> Iterator[Start]:
    """Initializes the SDK."""

    def start(**options: Any) -> FakeTransport:
        transport = FakeTransport()
        init(transport, **options)
        return transport

    yield start
    sentry_sdk.get_global_scope().set_client(None)
    unignore_logger("treadle")


async def finished(*jobs: Any) -> None:
    """Wait until these jobs have ended or wait for their next attempt."""
    for job in jobs:
        await auntil(partial(_is_over, job))


async def _is_over(handle: Any) -> bool:
    row = await handle.ajob()
    return row.status in ("completed", "failed", "cancelled") or (row.status == "pending" and row.lease > 0)


def run_jobs(app: Treadle, *jobs: Any, **options: Any) -> None:
    async def body(_: Worker) -> None:
        await finished(*[await job.aenqueue() for job in jobs])

    run(app, body, **options)


def values(event: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["type"], each["value"]) for each in event["exception"]["values"]]


def test_an_exception_arrives_with_its_traceback_and_its_job(app: Treadle, start: Start) -> None:
    sentry = start(data_collection={"queues": True})
    instrument(app)

    @app.job(retry=Retries(0), queue="mail")
    async def divide(by: int, password: str) -> float:
        try:
            return 1 / by
        except ZeroDivisionError as error:
            raise ValueError("at postgresql://ann:hush@db/x") from error

    async def body(worker: Worker) -> None:
        handle = await divide.aenqueue(by=0, password="hush")  # noqa: S106
        await finished(handle)
        (event,) = sentry.errors  # and not a second one, of the log
        assert values(event) == [
            ("ZeroDivisionError", "division by zero"),
            ("ValueError", "at postgresql://ann:********@db/x"),
        ]
        assert [each["function"] for each in event["exception"]["values"][1]["stacktrace"]["frames"]] == ["divide"]
        assert event["transaction"] == "divide"
        assert event["tags"] == {"treadle.job_type": "divide", "treadle.queue": "mail"}
        job = event["contexts"]["job"]
        assert job.pop("enqueued_at")
        assert job == {
            "id": str(handle.id),
            "type": "divide",
            "queue": "mail",
            "attempt": 1,
            "max_attempts": 1,
            "worker": worker.worker_id,
            "arguments": {"by": 0, "password": "********"},
        }
        assert not event["exception"]["values"][1]["mechanism"]["handled"]

    run(app, body)
    assert "hush" not in json.dumps(sentry.errors)


def test_arguments_are_not_sent_without_consent(app: Treadle, start: Start) -> None:
    sentry = start()
    instrument(app)

    @app.job(retry=Retries(0))
    def fails(name: str) -> None:
        raise LookupError

    async def body(_: Worker) -> None:
        await finished(await fails.aenqueue(name="ann"))

    run(app, body)
    assert sentry.errors[0]["contexts"]["job"]["arguments"] == {"name": "[Filtered]"}


def test_every_failed_attempt_is_reported_the_same_wherever_it_runs(app: Treadle, start: Start) -> None:
    """Sentry groups by stack trace, so that these are one issue."""
    sentry = start()
    instrument(app)

    def cause(job: Job) -> None:
        raise ConnectionError(f"attempt {job.attempt}")

    @app.job(retry=Retries(1, backoff=SOON))
    def on_a_thread(job: Job) -> None:
        cause(job)

    @app.job(retry=Retries(1, backoff=SOON))
    async def on_the_loop(job: Job) -> None:
        cause(job)

    async def body(_: Worker) -> None:
        await on_a_thread.aenqueue()
        await on_the_loop.aenqueue()
        await auntil(lambda: len(sentry.errors) == 4)

    run(app, body)
    found = sorted(
        (event["transaction"], event["contexts"]["job"]["attempt"], *(each["function"] for each in frames))
        for event in sentry.errors
        for frames in [event["exception"]["values"][0]["stacktrace"]["frames"]]
    )
    assert found == [(name, attempt, name, "cause") for name in ("on_a_thread", "on_the_loop") for attempt in (1, 2)]
    assert not any("fingerprint" in event for event in sentry.errors)


def test_only_the_last_attempt_is_reported_on_request(app: Treadle, start: Start, connection: Connection[Any]) -> None:
    sentry = start()
    instrument(app, last_attempt_only=True)

    @app.job(retry=Retries(1, backoff=SOON))
    def fails() -> None:
        raise ConnectionError

    @app.job(retry=Retries(4, give_up_on=[LookupError]))
    def gives_up() -> None:
        raise LookupError

    @app.job(retry=Retries(backoff=SOON))
    def needs_a_number(n: int) -> None: ...

    async def body(_: Worker) -> None:
        for job in (fails, gives_up):
            handle = await job.aenqueue()
            await auntil(partial(_has_failed, handle))
        connection.execute("""select enqueue('needs_a_number', '{"n": "seven"}', p_max_attempts => 2)""")
        await auntil(lambda: count(connection, "status = 'failed'") == 3)

    run(app, body)
    attempts = [(event["transaction"], event["contexts"]["job"]["attempt"]) for event in sentry.errors]
    assert attempts == [("fails", 2), ("gives_up", 1), ("needs_a_number", 2)]


async def _has_failed(handle: Any) -> bool:
    return bool(await handle.astatus() == "failed")


@pytest.mark.parametrize(
    "control",
    [Retry("not yet", after="1h"), Snooze("1h"), RateLimited("1h"), Cancel()],
    ids=lambda each: type(each).__name__,
)
def test_what_a_handler_asks_for_is_no_error(app: Treadle, start: Start, control: Exception) -> None:
    sentry = start(traces_sample_rate=1.0)
    instrument(app)

    @app.job(retry=Retries(0))
    async def asks() -> None:
        raise control

    run_jobs(app, asks)
    assert sentry.errors == []
    assert [each["contexts"]["trace"]["status"] for each in sentry.transactions] == ["aborted"]


def test_an_interruption_is_no_error_but_a_timeout_is(app: Treadle, start: Start) -> None:
    sentry = start()
    instrument(app)
    started = threading.Event()

    @app.job
    async def waits() -> None:
        started.set()
        await asyncio.sleep(60)

    @app.job(timeout=0.05, retry=Retries(0))
    async def is_late() -> None:
        await asyncio.sleep(60)

    async def body(_: Worker) -> None:
        await finished(await is_late.aenqueue())
        await waits.aenqueue()
        await auntil(started.is_set)

    run(app, body, grace=0)
    assert [values(each) for each in sentry.errors] == [[("TimeoutError", "timed out after 0.05 seconds")]]
    assert sentry.errors[0]["exception"]["values"][0]["stacktrace"]["frames"][0]["function"] == "is_late"


def test_what_jobs_set_does_not_reach_other_jobs(app: Treadle, start: Start) -> None:
    sentry = start()
    instrument(app)
    sentry_sdk.add_breadcrumb(message="outside")
    both = threading.Barrier(2, timeout=30)
    together = asyncio.Event()
    waiting: list[str] = []

    @app.job(retry=Retries(0))
    def on_a_thread(name: str) -> None:
        both.wait()
        sentry_sdk.set_tag(name, "set")
        sentry_sdk.add_breadcrumb(message=name)
        both.wait()
        raise LookupError(name)

    @app.job(retry=Retries(0))
    async def on_the_loop(name: str) -> None:
        sentry_sdk.set_tag(name, "set")
        sentry_sdk.add_breadcrumb(message=name)
        waiting.append(name)
        if len(waiting) == 2:
            together.set()
        await together.wait()
        raise LookupError(name)

    async def body(_: Worker) -> None:
        handles = [await on_a_thread.aenqueue(name="a"), await on_a_thread.aenqueue(name="b")]
        handles += [await on_the_loop.aenqueue(name="c"), await on_the_loop.aenqueue(name="d")]
        await finished(*handles)

    run(app, body)
    assert len(sentry.errors) == 4
    for event in sentry.errors:
        name = event["exception"]["values"][0]["value"]
        assert event["tags"].keys() & {"a", "b", "c", "d"} == {name}
        assert [each["message"] for each in event["breadcrumbs"]["values"]] == [name]
    assert len({each["contexts"]["trace"]["trace_id"] for each in sentry.errors}) == 4
    assert not sentry_sdk.get_isolation_scope()._tags.keys() & {"a", "b", "c", "d"}
    sentry_sdk.get_isolation_scope().clear_breadcrumbs()


def test_a_trace_continues_through_the_queue(app: Treadle, start: Start) -> None:
    sentry = start(traces_sample_rate=1.0)
    instrument(app)

    @app.job(retry=Retries(0))
    def second() -> None:
        raise LookupError

    @app.job
    async def first() -> None:
        await second.aenqueue()

    async def body(_: Worker) -> None:
        with sentry_sdk.start_transaction(name="request"):
            await first.aenqueue()
        await auntil(lambda: len(sentry.transactions) == 3 and len(sentry.errors) == 1)

    run(app, body)
    by_name = {each["transaction"]: each for each in sentry.transactions}
    request, one, two = by_name["request"], by_name["first"], by_name["second"]
    assert len({each["contexts"]["trace"]["trace_id"] for each in sentry.sent}) == 1
    assert one["contexts"]["trace"]["parent_span_id"] == request["spans"][0]["span_id"]
    assert two["contexts"]["trace"]["parent_span_id"] == one["spans"][0]["span_id"]
    assert request["spans"][0]["op"] == "queue.publish"
    assert one["contexts"]["trace"]["op"] == "queue.process"
    assert (one["contexts"]["trace"]["status"], two["contexts"]["trace"]["status"]) == ("ok", "internal_error")


def test_the_transaction_in_which_a_worker_was_started_is_not_that_of_its_jobs(app: Treadle, start: Start) -> None:
    sentry = start(traces_sample_rate=1.0)
    instrument(app)

    @app.job(retry=Retries(0))
    async def fails() -> None:
        raise LookupError

    @app.job(retry=Retries(0))
    async def returns_an_object() -> Any:
        return object()

    handles = [fails.enqueue(), returns_an_object.enqueue()]

    async def body(_: Worker) -> None:
        await finished(*handles)

    with sentry_sdk.start_transaction(name="start-up") as transaction:
        run(app, body)
    (started,) = [each for each in sentry.transactions if each["transaction"] == "start-up"]
    assert started["contexts"]["trace"]["trace_id"] == transaction.trace_id
    assert {each["transaction"] for each in sentry.errors} == {"fails", "returns_an_object"}
    ours = {each["contexts"]["trace"]["trace_id"] for each in sentry.errors}
    assert transaction.trace_id not in ours


def test_what_fails_outside_of_a_handler_is_reported(app: Treadle, start: Start, connection: Connection[Any]) -> None:
    sentry = start()
    instrument(app)

    @app.job(retry=Retries(0))
    def needs_a_number(n: int) -> None: ...

    @app.job(retry=Retries(0))
    def returns_an_object() -> Any:
        return object()

    async def body(_: Worker) -> None:
        connection.execute("""select enqueue('needs_a_number', '{"n": "seven"}', p_max_attempts => 1)""")
        await finished(await returns_an_object.aenqueue())
        await auntil(lambda: len(sentry.errors) == 2)

    run(app, body)
    by_type = {event["transaction"]: event for event in sentry.errors}
    assert "n" in by_type["needs_a_number"]["exception"]["values"][-1]["value"]
    assert by_type["returns_an_object"]["message"].startswith("returns_an_object: ")
    assert by_type["returns_an_object"]["contexts"]["job"]["attempt"] == 1
    assert len({each["contexts"]["trace"]["trace_id"] for each in sentry.errors}) == 2


def test_without_the_sdk_being_initialized_jobs_run(app: Treadle) -> None:
    instrument(app)

    @app.job
    def welcome() -> int:
        return 7

    async def body(_: Worker) -> None:
        assert await (await welcome.aenqueue()).aresult(30) == 7

    run(app, body)


@pytest.mark.long
def test_events_of_workers_and_child_processes_are_sent_before_they_end(
    url: str, connection: Connection[Any], tmp_path: Path
) -> None:
    file = tmp_path / "events"
    jobs = ("on_the_loop", "in_a_child", "dies")
    environment = {"app": "tests.support.sentry_app:app", "TREADLE_TEST_SENTRY": str(file)}
    with worker_process(url, tmp_path, **environment) as worker:
        for name in jobs:
            connection.execute("select enqueue(%s, '{}', p_max_attempts => 1)", [name])
        until(lambda: count(connection, "status = 'failed'") == len(jobs), worker.log.read_text)
        worker.terminate()
        assert worker.ended() == 0
    sent = [json.loads(line) for line in file.read_text().splitlines()]
    by_type = {name: [each for each in sent if each["transaction"] == name] for name in jobs}
    for name in ("on_the_loop", "in_a_child"):
        assert [values(each) for each in by_type[name]] == [[("LookupError", "nothing found")]]
    # It is tried again until the limit of crashes is reached.
    assert len(by_type["dies"]) == 3
    assert {each["message"] for each in by_type["dies"]} == {"dies: its process was killed by SIGKILL"}
    assert {tuple(each["fingerprint"]) for each in by_type["dies"]} == {
        ("treadle", "dies", "its process was killed by SIGKILL")
    }


def test_sentry_and_opentelemetry_can_be_used_together(app: Treadle, start: Start) -> None:
    sentry = start(traces_sample_rate=1.0)
    provider = TracerProvider()
    instrument(app)
    instrument_opentelemetry(app, tracer_provider=provider)

    @app.job
    async def show(job: Job) -> dict[str, str]:
        assert baggage.get_baggage("tenant") == "acme"
        return job.headers

    async def body(_: Worker) -> None:
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        with sentry_sdk.start_transaction(name="request"):
            found = await (await show.aenqueue()).aresult(30)
        context.detach(token)
        assert found.keys() == {"traceparent", "sentry-trace", "baggage"}

    run(app, body)
    assert len({each["contexts"]["trace"]["trace_id"] for each in sentry.transactions}) == 1
    assert len(sentry.transactions) == 2
    provider.shutdown()
