"""One running job, and how to interrupt it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from treadle.attempt.attempt import Attempt, RecordWriter
from treadle.attempt.environment import Environment
from treadle.jobs.function import JobFunction
from treadle.jobs.policy import Policy
from treadle.words.clock import now
from treadle.words.interruption import NOTICE_SECONDS, Interruption
from treadle.words.job import Claim
from treadle.words.outcome import Interrupt

# A supervisor kills the worker this long after a job's deadline: the worker has this time to end the job itself.
DEADLINE_SLACK = 2.0


class Running:
    __slots__ = (
        "attempt",
        "begun",
        "claim",
        "ended",
        "entered",
        "function",
        "in_child",
        "interruption",
        "policy",
        "reported",
        "slot",
        "started",
        "stop_child",
        "task",
        "timers",
    )

    def __init__(
        self,
        claim: Claim,
        function: JobFunction[..., Any, ..., Any],
        environment: Environment,
        writer: RecordWriter,
        in_child: bool,
    ) -> None:
        self.claim = claim
        self.function = function
        self.policy = function.policy if claim.timeout is None else function.policy.of(claim)
        self.attempt = Attempt(claim, environment, writer)
        self.slot = 0  # in shared memory (worker/job_slots.py), from when it has begun or waits for a child process
        self.in_child = in_child
        self.started = self.attempt.started  # when it began, once it has
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.stop_child: Callable[[], None] | None = None
        self.interruption: Interruption | None = None  # of a handler on a thread
        self.entered = False  # its task has taken its first step
        self.begun = False  # it does not wait for a child process, or for the first step of its task
        self.reported = False
        self.ended = False  # its outcome is decided, although its thread may still run

    def begin(self) -> None:
        """It begins now."""
        self.started = time.monotonic()
        self.begun = True

    def interrupt(self, reason: Interrupt) -> None:
        """Ask the handler to stop. A coroutine is cancelled; a thread is interrupted when it next uses its job, or soon
        after that; a child process is asked, and killed if it does not stop."""
        if self.attempt.interrupted_by is not None:
            return
        self.attempt.interrupt(reason)
        if self.stop_child is not None:
            self.stop_child()
        elif self.function.is_async and not self.in_child and self.task is not None and self.entered:
            # A task that is cancelled before its first step never runs, so it would never be removed.
            self.task.cancel()
        elif self.interruption is not None:
            self.interrupt_thread(self.interruption)

    def interrupt_thread(self, interruption: Interruption) -> None:
        """A handler that checks its job may stop in its own way."""
        reason = self.attempt.interrupted_by

        def interrupt() -> None:
            if reason is not None and not self.attempt.noticed:
                interruption.interrupt(reason)

        self.timers.append(asyncio.get_running_loop().call_later(NOTICE_SECONDS, interrupt))

    def disarm(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


def environment_of(function: JobFunction[..., Any, ..., Any], worker_id: str) -> Environment:
    """What the attempts of this function share. It is created once, not for every job."""
    backend, policy = function.backend, function.policy
    return Environment(
        worker_id, backend.own, backend.payload_limit, function.encode_result, policy.logs, policy.prints
    )


def deadline_of(policy: Policy) -> float:
    """When a supervisor kills the worker if a job that starts now is still running."""
    return 0.0 if policy.deadline is None else now() + policy.deadline + DEADLINE_SLACK
