"""Turns what a handler returned or raised into an outcome. It uses neither the database nor the event loop."""

import asyncio
from typing import Any

from treadle.attempt.attempt import Attempt
from treadle.jobs.function import JobFunction
from treadle.jobs.workflows.workflow import replacement
from treadle.text.exceptions import clean_error, format_traceback, without_our_frames
from treadle.text.log import log
from treadle.words.control import Cancel, RateLimited, Retry, Snooze
from treadle.words.errors import InvalidPayload, JobInterrupted
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.words.stored import Noted
from treadle.words.work import Replacement

_DONE = Outcome(Ending.COMPLETED)
_WRITTEN = Outcome(Ending.WRITTEN)
AT_MOST_ONCE = "delivery is at_most_once"
_STOPPED = (asyncio.CancelledError, JobInterrupted)


class ChildEnded(Exception):
    """A child process did not complete its job; carries the outcome through the middlewares."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error or outcome.ending)
        self.outcome = outcome


def returned(function: JobFunction[..., Any, ..., Any], attempt: Attempt, result: Any) -> Outcome:
    """The handler returned."""
    if attempt.uses_database:
        if attempt.completed:
            return _WRITTEN
        attempt.check_steps()
    if result is None:
        return _DONE
    try:
        if isinstance(result, Replacement):
            return Outcome(Ending.REPLACED, result=replacement(result.work))
        with Noted() as used:
            text = function.encode_result(result)
        return Outcome(Ending.COMPLETED, result=text, stored=tuple(map(str, used)))
    except Exception as error:
        # No retry: the handler would return the same again.
        kind = "replaced" if isinstance(result, Replacement) else "stored"
        message = error if isinstance(error, InvalidPayload) else f"the result cannot be {kind}: {clean_error(error)}"
        return Outcome(Ending.FAILED, error=clean_error(message))


def raised(function: JobFunction[..., Any, ..., Any], attempt: Attempt, error: BaseException) -> Outcome:
    """The handler raised."""
    if isinstance(error, ChildEnded):
        return error.outcome
    if attempt.completed:
        log.error("job %s raised an exception after it had completed itself", attempt.claim.id, exc_info=error)
        return _WRITTEN
    if isinstance(error, Snooze):
        return Outcome(Ending.RELEASED, delay=error.delay)
    if isinstance(error, RateLimited):
        return Outcome(Ending.LIMITED, delay=error.delay, limited_for=error.for_)
    if isinstance(error, Cancel):
        return Outcome(Ending.CANCELLED, error=clean_error(error.reason))
    # A handler that was interrupted may raise any exception on its way out. Unless it timed out, that is no failure.
    interrupt = attempt.interrupted_by
    blameless = interrupt is not None and interrupt is not Interrupt.TIMEOUT
    if (blameless and not isinstance(error, Retry)) or (interrupt is not None and isinstance(error, _STOPPED)):
        return stopped(function, attempt)
    message = clean_error(error.reason if isinstance(error, Retry) else error)
    raw = format_traceback(without_our_frames(error))
    trace = clean_error(raw)
    # A handler of the log, or a listener, might write what was masked or cannot be written.
    exception = error if trace == raw else None
    policy = function.policy
    if isinstance(error, Retry):
        delay = policy.retry.delay(attempt.claim.attempts) if error.delay is None else error.delay
        return Outcome(Ending.RETRY, error=message, traceback=trace, delay=delay, on_purpose=True)
    if policy.retry.gives_up_on(error):
        return Outcome(Ending.FAILED, error=message, traceback=trace, exception=exception)
    delay = policy.retry.delay(attempt.claim.attempts)
    return Outcome(Ending.RETRY, error=message, traceback=trace, delay=delay, exception=exception)


def stopped(function: JobFunction[..., Any, ..., Any], attempt: Attempt) -> Outcome:
    """The handler was interrupted."""
    match attempt.interrupted_by:
        case Interrupt.SHUTDOWN | Interrupt.FENCED if attempt.begun_once:
            return Outcome(Ending.FAILED, error=f"{AT_MOST_ONCE}, and its attempt was interrupted: its worker stopped")
        case Interrupt.SHUTDOWN | Interrupt.FENCED:
            # Written only if no other worker has claimed the job by then.
            return Outcome(Ending.RELEASED)
        case Interrupt.TIMEOUT:
            policy = function.policy.of(attempt.claim)
            error = f"timed out after {policy.timeout or policy.deadline:g} seconds"
            return Outcome(Ending.RETRY, error=error, delay=function.policy.retry.delay(attempt.claim.attempts))
        case _:
            return Outcome(Ending.DROPPED)


def overdue(function: JobFunction[..., Any, ..., Any], attempt: Attempt) -> Outcome:
    """The handler was still running at its deadline."""
    return _killed(
        function,
        attempt,
        f"was still running at its deadline, after {function.policy.of(attempt.claim).deadline:g} seconds",
    )


def over_memory_limit(function: JobFunction[..., Any, ..., Any], attempt: Attempt, used: int) -> Outcome:
    """The handler used more memory than its limit."""
    limit = function.policy.memory_limit or 0
    error = f"used {used / 2**20:,.0f} MB of memory, more than its limit of {limit / 2**20:,.0f} MB, and was killed"
    return _killed(function, attempt, error)


def crashed(attempt: Attempt, error: str) -> Outcome:
    """The child process of the handler died."""
    if attempt.begun_once:
        return Outcome(Ending.FAILED, error=f"{AT_MOST_ONCE}, and how its attempt ended is not known: {error}")
    return Outcome(Ending.CRASHED, error=error)


def begun_before() -> Outcome:
    """An attempt that must not be repeated has begun before under this claim. (Or the claim is lost; then this is not
    accepted.)"""
    return Outcome(Ending.FAILED, error=f"{AT_MOST_ONCE}, and its attempt had already begun")


def _killed(function: JobFunction[..., Any, ..., Any], attempt: Attempt, error: str) -> Outcome:
    if attempt.begun_once:
        return Outcome(Ending.FAILED, error=error)
    return Outcome(Ending.RETRY, error=error, delay=function.policy.retry.delay(attempt.claim.attempts))
