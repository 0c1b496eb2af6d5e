"""What an integration reports as an error: the exceptions of handlers that use up an attempt."""

import asyncio

from treadle.attempt.job import Job
from treadle.jobs.policy import Policy
from treadle.text.exceptions import without_our_frames
from treadle.words.control import ControlException
from treadle.words.errors import JobInterrupted
from treadle.words.outcome import Interrupt

_STOPPED = (asyncio.CancelledError, JobInterrupted)


def interruption(job: Job) -> Interrupt | None:
    """Why the handler was told to stop, if it was."""
    return job._attempt.interrupted_by


def failure(job: Job, policy: Policy, error: BaseException) -> BaseException | None:
    """What to report for an exception that a handler raised. None if it is no failure: the handler asked for it, or it
    was interrupted because the job was cancelled or the worker stops."""
    interrupt = interruption(job)
    if isinstance(error, ControlException) or interrupt not in (None, Interrupt.TIMEOUT):
        return None
    without_our_frames(error)
    if interrupt is Interrupt.TIMEOUT and isinstance(error, _STOPPED):
        # Where the handler was is worth more than the name of the exception that stopped it.
        policy = policy.of(job._attempt.claim)
        late = TimeoutError(f"timed out after {policy.timeout or policy.deadline or 0:g} seconds")
        return late.with_traceback(error.__traceback__)
    return error


def is_last(job: Job, policy: Policy, error: BaseException) -> bool:
    """Whether the job fails for good."""
    return job.attempt >= job.max_attempts or policy.retry.gives_up_on(error)
