"""Sentry: the exceptions of handlers, with their job, and traces across the queue.

    import sentry_sdk
    from treadle.contrib.sentry import instrument

    sentry_sdk.init(dsn="…")
    instrument(app)

Exceptions are captured where the handler runs, with its breadcrumbs and tags. What happens outside of it, such as the
death of a child process, is captured from the worker's events. Needs the extra `treadle[sentry]`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from pydantic_core import from_json

from treadle.app.treadle import Treadle
from treadle.attempt.job import Job
from treadle.contrib.child_processes import in_child_process
from treadle.contrib.failures import failure, is_last
from treadle.contrib.trace_headers import add_context
from treadle.jobs.middleware import EnqueueCall
from treadle.text.masking import masked, redacted
from treadle.words import events

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.scope import should_send_default_pii
    from sentry_sdk.tracing_utils import has_tracing_enabled
    from sentry_sdk.utils import event_from_exception
except ImportError as error:
    raise ImportError(f'{error}; run: pip install "treadle[sentry]"') from error

__all__ = ["instrument"]

FILTERED = "[Filtered]"
# How long a child process, and a worker that ends, wait until events are sent.
FLUSH_SECONDS = 2.0
_REPORTED = "_treadle_reported"
_instrumented: WeakSet[Treadle] = WeakSet()


def instrument(app: Treadle, *, last_attempt_only: bool = False) -> None:
    """Send the exceptions of this application's handlers to Sentry. Calling it again has no effect.

    Call it in the module of the application, after sentry_sdk.init(), so that worker and child processes do the same.

    Attempts that fail are reported, or with `last_attempt_only` those after which the job fails for good. Retry, Snooze
    and the like are no errors, and neither are interruptions because a job was cancelled or the worker stops. Arguments
    are sent if the options of the SDK allow it, with secrets masked.
    """
    if app in _instrumented:
        return
    _instrumented.add(app)
    # The worker logs each failure, too.
    ignore_logger("treadle")
    reporter = _Reporter(app, last_attempt_only)
    app.enqueue_middleware(_traced_enqueue)
    app.middleware(reporter.around)
    app.on(events.JobFailed)(reporter.failed)
    app.on(events.JobRetried)(reporter.failed)
    app.on(events.WorkerStopped)(lambda _: sentry_sdk.flush(FLUSH_SECONDS))


def _traced_enqueue(call: EnqueueCall) -> Iterator[None]:
    scope = sentry_sdk.get_current_scope()
    # A job is not part of a trace unless something was traced that enqueued it.
    span = scope.span
    if span is None or "sentry-trace" in call.headers:
        yield
        return
    with span.start_child(op="queue.publish", name=call.job_type, origin="auto.queue.treadle") as publish:
        add_context(call.headers, dict(scope.iter_trace_propagation_headers(span=publish)))
        publish.set_data("messaging.destination.name", call.job_type)
        yield
        if len(call.ids) == 1:
            publish.set_data("messaging.message.id", str(call.ids[0]))


class _Reporter:
    def __init__(self, app: Treadle, last_attempt_only: bool) -> None:
        self._app = app
        self._last_attempt_only = last_attempt_only
        self._in_child = in_child_process()

    def around(self, job: Job) -> Iterator[None]:
        if not sentry_sdk.is_initialized():
            yield
            return
        with _scope_of(job.type) as scope:
            scope.set_tag("treadle.queue", job.queue)
            scope.add_event_processor(lambda event, hint: _described(event, job))
            try:
                with _transaction(job) as transaction:
                    try:
                        yield
                    except BaseException as error:
                        failed = self._report(job, error)
                        transaction.set_status("internal_error" if failed else "aborted")
                        raise
            finally:
                if self._in_child:  # which may be killed as soon as the worker has the outcome
                    sentry_sdk.flush(FLUSH_SECONDS)

    def _report(self, job: Job, error: BaseException) -> bool:
        """Report what the handler raised. Returns whether the attempt has failed."""
        policy = self._app.function(job.type).policy
        failed = failure(job, policy, error)
        if failed is None:
            return False
        with suppress(Exception):  # an exception that takes no attributes
            setattr(error, _REPORTED, True)
        if is_last(job, policy, error) or not self._last_attempt_only:
            _capture(failed)
        return True

    def failed(self, event: events.JobFailed | events.JobRetried) -> None:
        """Report what the middleware has not seen: arguments that do not fit, results that cannot be stored, and child
        processes that died or were killed."""
        if not sentry_sdk.is_initialized() or event.on_purpose:
            return
        if self._last_attempt_only and isinstance(event, events.JobRetried):
            return
        unseen = event.exception is not None and not hasattr(event.exception, _REPORTED)
        # Without a traceback no handler raised it, except if it timed out, which the middleware has seen.
        if not unseen and (event.traceback is not None or event.error.startswith("timed out after")):
            return
        with _scope_of(event.job_type) as scope:
            scope.set_context("job", {"id": str(event.job_id), "type": event.job_type, "attempt": event.attempt})
            if event.exception is not None and unseen:
                _capture(event.exception)
            else:
                # Without a stack trace Sentry would group by the message, which has numbers in it.
                scope.fingerprint = ["treadle", event.job_type, re.sub(r"[\d.,]+", "#", event.error)]
                sentry_sdk.capture_message(f"{event.job_type}: {event.error}", level="error")


@contextmanager
def _scope_of(job_type: str) -> Iterator[sentry_sdk.Scope]:
    """A scope for one job: what its handler sets must not reach other jobs on the same thread or event loop. The worker
    may have been started in a trace, which is not that of its jobs."""
    with sentry_sdk.isolation_scope() as scope:
        scope.clear_breadcrumbs()
        scope.set_new_propagation_context()
        scope.set_tag("treadle.job_type", job_type)
        current = sentry_sdk.get_current_scope()
        current.span = None  # first: the next line would rename its transaction
        current.set_transaction_name(job_type, source="task")
        yield scope


@contextmanager
def _transaction(job: Job) -> Iterator[Any]:
    """Continue the trace of the enqueue, or start another one; with a transaction, if the SDK is told to trace."""
    transaction: Any = sentry_sdk.continue_trace(
        job.headers, op="queue.process", name=job.type, source="task", origin="auto.queue.treadle"
    )
    options = sentry_sdk.get_client().options
    if has_tracing_enabled(options) and options.get("trace_lifecycle") != "stream":  # which has no transactions
        transaction = sentry_sdk.start_transaction(transaction)
        transaction.set_status("ok")
        transaction.set_data("messaging.destination.name", job.type)
        transaction.set_data("messaging.message.id", str(job.id))
        transaction.set_data("messaging.message.retry.count", job.attempt - 1)
        transaction.__enter__()
        try:
            yield transaction
        finally:
            # With the exception, it would be an error whatever it is.
            transaction.__exit__(None, None, None)
    else:
        yield transaction


def _capture(error: BaseException) -> None:
    event, hint = event_from_exception(
        (type(error), error, error.__traceback__),
        client_options=sentry_sdk.get_client().options,
        mechanism={"type": "treadle", "handled": False},
    )
    event["exception"] = redacted(event["exception"])
    sentry_sdk.capture_event(event, hint=hint)


def _described(event: Any, job: Job) -> Any:
    arguments = from_json(job._attempt.claim.data)
    event.setdefault("contexts", {})["job"] = {
        "id": str(job.id),
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "enqueued_at": job.created_at.isoformat(),
        "worker": job.worker_id,
        "arguments": masked(arguments) if _sends_arguments() else dict.fromkeys(arguments, FILTERED),
    }
    return event


def _sends_arguments() -> bool:
    """Newer versions of the SDK have an option for each kind of data, and derive it from send_default_pii."""
    collected: Any = sentry_sdk.get_client().options.get("data_collection") or {}
    return bool(collected["queues"]) if "queues" in collected else should_send_default_pii()
