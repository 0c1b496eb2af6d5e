"""Turns what a handler returned or raised into an outcome. Touches no database and no loop."""

import asyncio
import logging
import traceback
from pathlib import Path
from typing import Any

import treadle
from treadle.app.function import JobFunction
from treadle.attempt.job import Job
from treadle.words.control import Cancel, Retry, Snooze
from treadle.words.errors import InvalidPayload, JobInterrupted
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.words.payload import clean_error
from treadle.words.stored import Noted

log = logging.getLogger("treadle")

_OURS = str(Path(treadle.__file__).parent)
_DONE = Outcome(Ending.COMPLETED)
_WRITTEN = Outcome(Ending.WRITTEN)
_STOPPED = (asyncio.CancelledError, JobInterrupted)


class ChildEnded(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error or outcome.ending)
        self.outcome = outcome


def returned(function: JobFunction[..., Any, ..., Any], job: Job, result: Any) -> Outcome:
    """The handler returned."""
    if job.remembers:
        if job.completed:
            return _WRITTEN
        job.check_steps()
    if result is None:
        return _DONE
    try:
        with Noted() as used:
            text = function.encode_result(result)
        return Outcome(Ending.COMPLETED, result=text, stored=tuple(map(str, used)))
    except Exception as error:
        # Doing it all again would only return the same.
        told = error if isinstance(error, InvalidPayload) else f"the result cannot be stored: {error}"
        return Outcome(Ending.FAILED, error=clean_error(told))


def raised(function: JobFunction[..., Any, ..., Any], job: Job, error: BaseException) -> Outcome:
    """The handler raised."""
    if isinstance(error, ChildEnded):
        return error.outcome
    if job.completed:
        log.error("job %s raised after it had completed itself", job.id, exc_info=error)
        return _WRITTEN
    if isinstance(error, Snooze):
        return Outcome(Ending.RELEASED, delay=error.delay)
    if isinstance(error, Cancel):
        return Outcome(Ending.CANCELLED, error=clean_error(error.reason))
    # A handler that is stopped may come apart in its own way: what it raises then is not its failure.
    cut = job.interrupted_by is not None and job.interrupted_by is not Interrupt.TIMEOUT
    if (cut and not isinstance(error, Retry)) or (job.interrupted_by is not None and isinstance(error, _STOPPED)):
        return stopped(function, job)
    told = clean_error(error.reason if isinstance(error, Retry) else error)
    trace = clean_error("".join(traceback.format_exception(_without_ours(error))))
    policy = function.policy
    if isinstance(error, Retry):
        delay = policy.backoff.seconds(job.attempt) if error.delay is None else error.delay
        return Outcome(Ending.RETRY, error=told, traceback=trace, delay=delay)
    given_up = isinstance(error, policy.give_up_on) or (
        policy.retry_on is not None and not isinstance(error, policy.retry_on)
    )
    if given_up:
        return Outcome(Ending.FAILED, error=told, traceback=trace)
    return Outcome(Ending.RETRY, error=told, traceback=trace, delay=policy.backoff.seconds(job.attempt))


def stopped(function: JobFunction[..., Any, ..., Any], job: Job) -> Outcome:
    """The handler was stopped from outside."""
    match job.interrupted_by:
        case Interrupt.SHUTDOWN | Interrupt.FENCED:
            # Written only if nobody else has the job by then.
            return Outcome(Ending.RELEASED)
        case Interrupt.TIMEOUT:
            error = f"timed out after {function.policy.timeout or function.policy.deadline:g} seconds"
            return Outcome(Ending.RETRY, error=error, delay=function.policy.backoff.seconds(job.attempt))
        case _:
            return Outcome(Ending.DROPPED)


def overdue(function: JobFunction[..., Any, ..., Any], job: Job) -> Outcome:
    """The handler went on past its deadline."""
    error = f"still ran at its deadline, after {function.policy.deadline:g} seconds"
    return Outcome(Ending.RETRY, error=error, delay=function.policy.backoff.seconds(job.attempt))


def hungry(function: JobFunction[..., Any, ..., Any], job: Job, used: int) -> Outcome:
    """The handler used more memory than it may."""
    limit = function.policy.memory_limit or 0
    error = f"used {used / 2**20:,.0f} MB of memory, more than its limit of {limit / 2**20:,.0f} MB, and was killed"
    return Outcome(Ending.RETRY, error=error, delay=function.policy.backoff.seconds(job.attempt))


def _without_ours(error: BaseException) -> BaseException:
    """The error with a traceback that begins in the handler."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return error.with_traceback(trace)
