"""OpenTelemetry: spans and metrics of enqueues and of handlers, in one trace across the queue.

    from treadle.contrib.opentelemetry import instrument

    instrument(app)

Names and attributes follow the semantic conventions for messaging. The destination is the job type, because that is
what producers and workers agree on; the queue is an attribute. Needs the extra `treadle[opentelemetry]`, which is only
the API: without a provider of the SDK, nothing is recorded.
"""

import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from treadle.app.treadle import Treadle
from treadle.attempt.job import Job
from treadle.contrib.child_processes import Flusher, in_child_process
from treadle.contrib.failures import failure, interruption, is_last
from treadle.contrib.trace_headers import BAGGAGE, add_context
from treadle.jobs.middleware import EnqueueCall
from treadle.text.exceptions import clean_error, format_traceback
from treadle.words import events
from treadle.words.control import Cancel, RateLimited, Retry, Snooze
from treadle.words.headers import read_headers

try:
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.context import Context, attach, detach
    from opentelemetry.trace import INVALID_SPAN, Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode
except ImportError as error:
    raise ImportError(f'{error}; run: pip install "treadle[opentelemetry]"') from error

__all__ = ["instrument"]

NAME = "treadle"
# Those of the semantic conventions, and longer ones: jobs run for longer than requests.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 900, 3600)
# How long a job in a child process may wait until its span is sent; afterwards the child may be killed.
CHILD_SECONDS = 1.0
# How long a worker that ends waits for the last spans.
STOP_SECONDS = 5.0

W3C = {"traceparent", "tracestate", BAGGAGE}
_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_OUTCOMES: dict[type[BaseException], str] = {
    Retry: "retry",
    Snooze: "snooze",
    RateLimited: "rate_limited",
    Cancel: "cancel",
}
_instrumented: WeakSet[Treadle] = WeakSet()


def instrument(
    app: Treadle,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    continue_traces: bool = True,
) -> None:
    """Trace and measure the enqueues and the handlers of this application. Calling it again has no effect.

    Call it in the module of the application, so that worker and child processes do the same. Without providers, the
    global ones are used, also if they are set later.

    The span of a handler is a child of the span that enqueued its job, so that all of it is one trace. With
    `continue_traces=False`, each attempt starts a trace of its own, with a link to that span.
    """
    if app in _instrumented:
        return
    _instrumented.add(app)
    tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
    meter = metrics.get_meter(NAME, meter_provider=meter_provider)
    flusher = Flusher(
        lambda: _force_flush(tracer_provider or trace.get_tracer_provider()),
        lambda: _force_flush(meter_provider or metrics.get_meter_provider()),
    )
    app.enqueue_middleware(_Producer(tracer, meter).around)
    app.middleware(_Consumer(app, tracer, meter, continue_traces, flusher).around)
    # A worker process ends without atexit, where the SDK would send what it has left.
    app.on(events.WorkerStopped)(lambda _: flusher.flush(STOP_SECONDS))


class _Producer:
    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self._tracer = tracer
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Number of jobs that were enqueued."
        )
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of enqueueing.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    def around(self, call: EnqueueCall) -> Iterator[None]:
        attributes = _attributes("enqueue", "send", call.job_type)
        began = time.perf_counter()
        span = self._tracer.start_span(f"enqueue {call.job_type}", kind=SpanKind.PRODUCER, attributes=attributes)
        token = attach(trace.set_span_in_context(span))
        try:
            _inject(call.headers)
            yield
        except BaseException as error:
            span.set_attributes(_record(span, error))
            self._duration.record(time.perf_counter() - began, {**attributes, "error.type": _type(error)})
            raise
        else:
            if len(call.ids) == 1:
                span.set_attribute("messaging.message.id", str(call.ids[0]))
            else:
                span.set_attribute("messaging.batch.message_count", len(call.ids))
            self._sent.add(len(call.ids), attributes)
            self._duration.record(time.perf_counter() - began, attributes)
        finally:
            detach(token)
            span.end()


class _Consumer:
    def __init__(
        self, app: Treadle, tracer: trace.Tracer, meter: metrics.Meter, continue_traces: bool, flusher: Flusher
    ) -> None:
        self._app = app
        self._tracer = tracer
        self._continue_traces = continue_traces
        self._flusher = flusher if in_child_process() else None
        # Jobs of one enqueue_many() have the same headers.
        self._extract = lru_cache(1024)(_extract)
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Number of jobs whose handler was called."
        )
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of handlers.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    def around(self, job: Job) -> Iterator[None]:
        claim = job._attempt.claim
        common = _attributes("process", "process", claim.job_type)
        # Not the context of the worker, which may have been started in a span.
        context = Context() if claim.headers is None else self._extract(claim.headers)
        links: list[Link] | None = None
        if not self._continue_traces:
            enqueued = trace.get_current_span(context).get_span_context()
            links = [Link(enqueued)] if enqueued.is_valid else None
            context = trace.set_span_in_context(INVALID_SPAN, context)
        span = self._tracer.start_span(
            f"process {claim.job_type}",
            context,
            SpanKind.CONSUMER,
            {
                **common,
                "messaging.message.id": str(claim.id),
                "treadle.queue": claim.queue,
                "treadle.attempt": claim.attempts,
            },
            links,
        )
        token = attach(trace.set_span_in_context(span, context))
        began = time.perf_counter()
        measured = common
        try:
            yield
        except BaseException as error:
            if failed := self._ended(job, span, error):
                measured = {**common, "error.type": failed}
            raise
        finally:
            detach(token)
            span.end()
            self._consumed.add(1, measured)
            self._duration.record(time.perf_counter() - began, measured)
            if self._flusher is not None:
                self._flusher.flush(CHILD_SECONDS)

    def _ended(self, job: Job, span: Span, error: BaseException) -> str | None:
        """Record what the handler raised. Returns its type if the attempt has failed."""
        policy = self._app.function(job.type).policy
        failed = failure(job, policy, error)
        if failed is not None:
            outcome = "failed" if is_last(job, policy, error) else "retry"
            span.set_attributes({"treadle.outcome": outcome, **_record(span, failed)})
            return _type(failed)
        interrupt = interruption(job)
        outcome = next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "interrupted")
        reason = getattr(error, "reason", None) or interrupt
        span.set_attributes({"treadle.outcome": outcome} | ({"treadle.reason": clean_error(reason)} if reason else {}))
        return None


@lru_cache(1024)
def _attributes(operation: str, kind: str, job_type: str) -> Mapping[str, str]:
    return {
        "messaging.system": NAME,
        "messaging.destination.name": job_type,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }


def _inject(headers: dict[str, str]) -> None:
    """Add the current context to the headers of a job, unless they have one, which the caller has chosen."""
    if not headers.keys().isdisjoint(propagate.get_global_textmap().fields - {BAGGAGE}):
        return
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    add_context(headers, carrier)


def _extract(headers: str) -> Context:
    carrier = read_headers(headers)
    propagator = propagate.get_global_textmap()
    # The usual case takes a third of the time: W3C, the default, without a state and baggage.
    if propagator.fields == W3C and carrier.keys().isdisjoint(("tracestate", BAGGAGE)):
        found = _TRACEPARENT.fullmatch(carrier.get("traceparent", ""))
        if found is not None:
            enqueued = SpanContext(int(found[1], 16), int(found[2], 16), True, TraceFlags(int(found[3], 16)))
            parent = NonRecordingSpan(enqueued)
            return trace.set_span_in_context(parent, Context())
    return propagator.extract(carrier, Context())


def _record(span: Span, error: BaseException) -> dict[str, str]:
    """Record the error, with secrets masked, and return the attributes that say so."""
    kind, text = _type(error), clean_error(error)
    span.add_event(
        "exception",
        {
            "exception.type": kind,
            "exception.message": text,
            "exception.stacktrace": clean_error(format_traceback(error)),
        },
    )
    span.set_status(Status(StatusCode.ERROR, text))
    return {"error.type": kind}


def _type(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _force_flush(provider: Any) -> None:
    # Only the providers of the SDK can be flushed.
    if flush := getattr(provider, "force_flush", None):
        flush()
