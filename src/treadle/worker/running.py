"""One job that runs, and how to stop it."""

import asyncio
from collections.abc import Callable
from typing import Any

from treadle.app.function import JobFunction, Policy
from treadle.attempt.job import Job, Scribe
from treadle.words.claim import Claim
from treadle.words.clock import now
from treadle.words.outcome import Interrupt

# How long the worker itself has to deal with a job past its deadline, before whoever looks after it kills it.
DEADLINE_SLACK = 2.0


class Running:
    __slots__ = (
        "apart",
        "begun",
        "claim",
        "ended",
        "function",
        "job",
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
        worker_id: str,
        apart: bool,
        scribe: Scribe,
    ) -> None:
        self.claim = claim
        self.function = function
        self.job = Job(claim, worker_id, function, scribe)
        self.slot = 0  # on the board
        self.apart = apart  # in a child process
        self.started = self.job.started
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.stop_child: Callable[[], None] | None = None
        self.begun = False
        self.reported = False
        self.ended = False  # its outcome is decided, although its thread may still run

    def interrupt(self, reason: Interrupt) -> None:
        """Ask the handler to stop. A coroutine is cancelled; a thread finds out when it next uses its job; a child
        process is told, and killed after a while."""
        if self.job.interrupted_by is not None:
            return
        self.job.interrupt(reason)
        if self.stop_child is not None:
            self.stop_child()
        elif self.function.is_async and not self.apart and self.task is not None and self.begun:
            # A task that is cancelled before its first step never takes it, and nobody would clean up.
            self.task.cancel()

    def disarm(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


def deadline_of(policy: Policy) -> float:
    """When whoever looks after the worker kills it, if it begins now."""
    return 0.0 if policy.deadline is None else now() + policy.deadline + DEADLINE_SLACK
