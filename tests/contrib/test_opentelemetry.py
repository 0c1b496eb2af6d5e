"""Spans and metrics of enqueues and handlers, recorded by the SDK in memory."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.support.workers import SOON, auntil, run
from treadle import Cancel, Job, JobFailed, RateLimited, Retries, Retry, Snooze, Treadle, Workflow
from treadle.contrib.child_processes import Flusher
from treadle.contrib.opentelemetry import instrument
from treadle.worker.worker import Worker


class Telemetry:
    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider(metric_readers=[self.reader])
        self.tracer = self.tracers.get_tracer("test")

    def instrument(self, app: Treadle, **options: Any) -> None:
        instrument(app, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    async def awaited(self, name: str, number: int = 1) -> list[ReadableSpan]:
        await auntil(lambda: len(self.spans(name)) >= number)
        return self.spans(name)

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data
        found = [each for one in data.resource_metrics for two in one.scope_metrics for each in two.metrics]
        return [point for each in found if each.name == name for point in each.data.data_points]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    telemetry = Telemetry()
    yield telemetry
    telemetry.tracers.shutdown()
    telemetry.meters.shutdown()


@pytest.fixture
def traced(app: Treadle, telemetry: Telemetry) -> Treadle:
    telemetry.instrument(app)
    return app


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found
    return found.trace_id, found.span_id


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return child.parent is not None and (child.parent.trace_id, child.parent.span_id) == ids(parent)


def test_an_enqueue_and_its_handler_are_one_trace(traced: Treadle, telemetry: Telemetry) -> None:
    @traced.job
    async def welcome(user: int) -> int:
        return user

    async def body(_: Worker) -> UUID:
        with telemetry.tracer.start_as_current_span("request"):
            handle = await welcome.aenqueue(user=7)
        await handle.aresult(30)
        return handle.id

    job_id = run(traced, body)
    request, enqueue, process = map(telemetry.span, ("request", "enqueue welcome", "process welcome"))
    assert is_child(enqueue, request)
    assert is_child(process, enqueue)
    assert (enqueue.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert process.status.status_code is StatusCode.UNSET
    common = {
        "messaging.system": "treadle",
        "messaging.destination.name": "welcome",
        "messaging.message.id": str(job_id),
    }
    assert attributes(enqueue) == common | {
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
    }
    expected = {"messaging.operation.name": "process", "messaging.operation.type": "process", "treadle.attempt": 1}
    assert expected.items() <= attributes(process).items()
    assert attributes(process)["treadle.queue"] == "default"


@pytest.mark.parametrize("is_async", [True, False], ids=["on the event loop", "on a thread"])
def test_what_a_handler_enqueues_continues_its_trace(traced: Treadle, telemetry: Telemetry, is_async: bool) -> None:
    @traced.job
    def second() -> None: ...

    if is_async:

        @traced.job
        async def first() -> None:
            assert baggage.get_baggage("tenant") == "acme"
            with telemetry.tracer.start_as_current_span("inside"):
                await second.aenqueue()
    else:

        @traced.job
        def first() -> None:
            assert baggage.get_baggage("tenant") == "acme"
            with telemetry.tracer.start_as_current_span("inside"):
                second.enqueue()

    async def body(_: Worker) -> None:
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        await first.aenqueue()
        context.detach(token)
        await telemetry.awaited("process second")

    run(traced, body)
    chain = ["enqueue first", "process first", "inside", "enqueue second", "process second"]
    spans = [telemetry.span(name) for name in chain]
    assert all(is_child(child, parent) for parent, child in pairwise(spans))


def test_one_span_for_many_jobs_and_for_a_workflow(traced: Treadle, telemetry: Telemetry) -> None:
    @traced.job
    async def step(n: int = 0) -> int:
        return n

    async def body(_: Worker) -> None:
        await step.aenqueue_many({"n": n} for n in range(3))
        await telemetry.awaited("process step", 3)
        assert all(is_child(each, telemetry.span("enqueue step")) for each in telemetry.spans("process step"))
        assert attributes(telemetry.span("enqueue step"))["messaging.batch.message_count"] == 3
        telemetry.exporter.clear()
        flow = Workflow("two")
        flow.add(step.call(n=2), after=[flow.add(step.call(n=1))])
        await (await flow.aenqueue()).aresult(30)
        assert len(telemetry.spans("process step")) == 2
        assert all(is_child(each, telemetry.span("enqueue workflow")) for each in telemetry.spans("process step"))

    run(traced, body)


def test_a_failed_attempt_is_an_error_and_its_retry_another_span(traced: Treadle, telemetry: Telemetry) -> None:
    @traced.job(retry=Retries(1, backoff=SOON))
    def fails(job: Job) -> None:
        raise ValueError("the number postgresql://ann:hush@db/x is wrong")

    async def body(_: Worker) -> None:
        with pytest.raises(JobFailed):
            await (await fails.aenqueue()).aresult(30)

    run(traced, body)
    first, second = telemetry.spans("process fails")
    assert is_child(first, telemetry.span("enqueue fails"))
    assert is_child(second, telemetry.span("enqueue fails"))
    assert [attributes(each)["treadle.attempt"] for each in (first, second)] == [1, 2]
    assert [attributes(each)["treadle.outcome"] for each in (first, second)] == ["retry", "failed"]
    assert first.status.status_code is StatusCode.ERROR
    assert attributes(first)["error.type"] == "ValueError"
    (event,) = first.events
    recorded = dict(event.attributes or {})
    assert recorded["exception.type"] == "ValueError"
    assert "raise ValueError" in str(recorded["exception.stacktrace"])
    assert "treadle/contrib" not in str(recorded["exception.stacktrace"])
    assert "hush" not in first.to_json()


@pytest.mark.parametrize(
    ("control", "outcome", "reason"),
    [
        (Retry("not yet", after="1h"), "retry", "not yet"),
        (Snooze("1h"), "snooze", None),
        (RateLimited("1h"), "rate_limited", None),
        (Cancel("not needed"), "cancel", "not needed"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_what_a_handler_asks_for_is_no_error(
    traced: Treadle, telemetry: Telemetry, control: Exception, outcome: str, reason: str | None
) -> None:
    @traced.job
    async def asks() -> None:
        raise control

    async def body(_: Worker) -> None:
        await asks.aenqueue()
        (span,) = await telemetry.awaited("process asks")
        assert span.status.status_code is StatusCode.UNSET
        assert not span.events
        assert attributes(span)["treadle.outcome"] == outcome
        assert attributes(span).get("treadle.reason") == reason

    run(traced, body)


def test_an_interruption_is_no_error_but_a_timeout_is(traced: Treadle, telemetry: Telemetry) -> None:
    started = threading.Event()

    @traced.job
    async def waits() -> None:
        started.set()
        await asyncio.sleep(60)

    @traced.job(timeout=0.05, retry=Retries(0))
    async def is_late() -> None:
        await asyncio.sleep(60)

    async def body(_: Worker) -> None:
        await is_late.aenqueue()
        await telemetry.awaited("process is_late")
        await waits.aenqueue()
        await auntil(started.is_set)

    run(traced, body, grace=0)
    stopped, late = telemetry.span("process waits"), telemetry.span("process is_late")
    assert (stopped.status.status_code, attributes(stopped)["treadle.outcome"]) == (StatusCode.UNSET, "interrupted")
    assert attributes(stopped)["treadle.reason"] == "shutdown"
    assert (late.status.status_code, attributes(late)["error.type"]) == (StatusCode.ERROR, "TimeoutError")
    assert late.status.description == "TimeoutError: timed out after 0.05 seconds"


def test_attempts_can_have_traces_of_their_own(app: Treadle, telemetry: Telemetry) -> None:
    telemetry.instrument(app, continue_traces=False)

    @app.job
    async def welcome() -> None:
        assert baggage.get_baggage("tenant") == "acme"

    async def body(_: Worker) -> None:
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        await (await welcome.aenqueue()).aresult(30)
        context.detach(token)

    run(app, body)
    enqueue, process = telemetry.span("enqueue welcome"), telemetry.span("process welcome")
    assert process.parent is None
    assert ids(process)[0] != ids(enqueue)[0]
    assert [(each.context.trace_id, each.context.span_id) for each in process.links] == [ids(enqueue)]


def test_a_job_without_a_context_starts_a_trace_even_if_the_worker_was_started_in_a_span(
    app: Treadle, telemetry: Telemetry
) -> None:
    @app.job
    async def welcome() -> None: ...

    handle = welcome.enqueue()  # before the application is instrumented
    telemetry.instrument(app)

    async def body(_: Worker) -> None:
        await handle.aresult(30)

    with telemetry.tracer.start_as_current_span("start-up"):
        run(app, body)
    assert telemetry.span("process welcome").parent is None


def test_a_refused_enqueue_is_an_error(traced: Treadle, telemetry: Telemetry) -> None:
    @traced.job
    def welcome(user: int) -> None: ...

    with pytest.raises(ValueError, match="user"):
        welcome.enqueue(user="ann")  # type: ignore[arg-type]
    span = telemetry.span("enqueue welcome")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "treadle.words.errors.InvalidPayload"
    assert telemetry.points("messaging.client.sent.messages") == []


def test_headers_of_the_caller_are_kept_and_large_baggage_is_left_out(traced: Treadle) -> None:
    @traced.job
    async def show(job: Job) -> dict[str, str]:
        return job.headers

    async def body(_: Worker) -> None:
        mine = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tenant": "acme"}
        assert await (await show.using(headers=mine).aenqueue()).aresult(30) == mine
        token = context.attach(baggage.set_baggage("large", "x" * 4000))
        found = await (await show.using(headers={"mine": "y" * 5000}).aenqueue()).aresult(30)
        assert found.keys() == {"mine", "traceparent"}
        found = await (await show.using(headers={"baggage": "a=1"}).aenqueue()).aresult(30)
        assert found["baggage"].startswith("a=1,large=xxx")
        context.detach(token)

    run(traced, body)


def test_messages_and_durations_are_measured(traced: Treadle, telemetry: Telemetry) -> None:
    @traced.job(retry=Retries(0))
    def divide(by: int) -> float:
        return 1 / by

    async def body(_: Worker) -> None:
        await divide.aenqueue_many([{"by": 1}, {"by": 2}, {"by": 0}])
        await telemetry.awaited("process divide", 3)

    run(traced, body)
    (sent,) = telemetry.points("messaging.client.sent.messages")
    assert (sent.value, sent.attributes["messaging.destination.name"]) == (3, "divide")
    consumed = {
        each.attributes.get("error.type"): each.value for each in telemetry.points("messaging.client.consumed.messages")
    }
    assert consumed == {None: 2, "ZeroDivisionError": 1}
    taken = {each.attributes.get("error.type"): each.count for each in telemetry.points("messaging.process.duration")}
    assert taken == {None: 2, "ZeroDivisionError": 1}
    assert len(telemetry.points("messaging.client.operation.duration")) == 1


def test_instrumenting_twice_is_harmless(traced: Treadle, telemetry: Telemetry) -> None:
    telemetry.instrument(traced)

    @traced.job
    def welcome() -> None: ...

    welcome.enqueue()
    assert len(telemetry.spans("enqueue welcome")) == 1


def test_without_a_provider_jobs_run_and_nothing_is_logged(app: Treadle, caplog: pytest.LogCaptureFixture) -> None:
    instrument(app)

    @app.job
    async def show(job: Job) -> dict[str, str]:
        assert not trace.get_current_span().is_recording()
        return job.headers

    async def body(_: Worker) -> None:
        assert await (await show.aenqueue()).aresult(30) == {}

    with caplog.at_level(logging.WARNING):
        run(app, body)
    assert not caplog.records


def test_a_collector_that_is_away_holds_up_one_flush_only() -> None:
    away = threading.Event()
    flusher = Flusher(lambda: away.wait(30))
    flusher.flush(0.01)
    began = time.monotonic()
    flusher.flush(20)
    assert time.monotonic() - began < 10
    away.set()
