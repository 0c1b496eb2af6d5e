"""The state of one attempt of a job: the worker's side of the Job that a handler sees."""

import threading
import time
from collections.abc import Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from treadle.attempt.environment import Environment
from treadle.attempt.memory import Memory
from treadle.attempt.outbox import Outbox
from treadle.attempt.progress import ProgressReport, ProgressTracker
from treadle.attempt.transactions import Transactions
from treadle.words.errors import INTERRUPTIONS
from treadle.words.job import Claim, Origin
from treadle.words.outcome import Interrupt
from treadle.words.record import OutgoingEvent, OutgoingLogLine

# Locked while a part of an attempt is created: two threads of a handler may need it at the same moment. Reentrant,
# because the garbage collector may run code here that logs.
_making = threading.RLock()


class RecordWriter(Protocol):
    """Writes the events and log lines of attempts to the database, or sends them to the process that does."""

    def notify(self, attempt: "Attempt") -> None:
        """The attempt's outbox has new records. May be called from any thread."""

    def flush_now(self, attempt: "Attempt") -> None:
        """Wait until everything is written. May be called from any thread but that of the event loop."""


class Attempt:
    __slots__ = (
        "_child_progress",
        "_memory",
        "_outbox",
        "_progress",
        "_progress_changed",
        "_transactions",
        "_writer",
        "arguments",
        "begun_once",
        "claim",
        "environment",
        "interrupted_by",
        "job",
        "noticed",
        "started",
    )

    def __init__(self, claim: Claim, environment: Environment, writer: RecordWriter) -> None:
        self.claim = claim
        self.environment = environment
        self.started = time.monotonic()
        self.interrupted_by: Interrupt | None = None
        self.noticed = False
        """The handler knows that it is interrupted."""
        self.begun_once = False
        """The handler has begun, and must not be called again if it does not end."""
        self._writer = writer
        self.arguments: dict[str, Any] | None = None
        """What the handler is called with, once it is known."""
        self._progress_changed = False
        # Made when they are first needed: most jobs need none of them.
        self._progress: ProgressTracker | None = None
        self._child_progress: ProgressReport | None = None
        self._outbox: Outbox | None = None
        self._memory: Memory | None = None
        self._transactions: Transactions | None = None
        # A Job, made by job_of() in job.py. Not typed as one: job.py imports this module.
        self.job: Any = None

    @property
    def origin(self) -> Origin | None:
        return None if self.claim.origin is None else Origin.read(self.claim.origin)

    # Interruption

    def interrupt(self, reason: Interrupt) -> None:
        """Ask the handler to stop. The first reason counts."""
        self.interrupted_by = self.interrupted_by or reason

    def check(self) -> None:
        """Raise JobInterrupted if the handler has to stop."""
        if self.interrupted_by is not None:
            self.noticed = True
            raise INTERRUPTIONS[self.interrupted_by]

    def require_accepted(self, accepted: bool) -> None:
        """Stop the handler if the database refused a write because the job is no longer claimed by this attempt."""
        if not accepted:
            self.interrupt(Interrupt.LEASE_LOST)
            self.noticed = True
            raise INTERRUPTIONS[Interrupt.LEASE_LOST]

    # Progress

    @property
    def progress(self) -> ProgressTracker:
        if self._progress is None:
            with _making:
                self._progress = self._progress or ProgressTracker(self.progress_not_written, self.check)
        return self._progress

    def take_progress(self) -> ProgressReport | None:
        """The progress to write, or None if it has not changed since the last call."""
        if not self._progress_changed:
            return None
        self._progress_changed = False
        return self._child_progress if self._progress is None else self._progress.report()

    def progress_not_written(self) -> None:
        """Note that there is progress to write: it has changed, or writing it has failed."""
        self._progress_changed = True

    # Events and log lines

    @property
    def outbox(self) -> Outbox:
        if self._outbox is None:
            with _making:
                if self._outbox is None:
                    self._outbox = Outbox(partial(self._writer.notify, self))
        return self._outbox

    @property
    def has_unwritten(self) -> bool:
        """Whether there may be progress, events or log lines that are not yet written."""
        return self._progress_changed or self._outbox is not None

    def receive(
        self,
        progress: ProgressReport | None,
        events: Iterable[OutgoingEvent],
        log_lines: Iterable[OutgoingLogLine],
    ) -> None:
        """Take over what the handler reported in a child process."""
        if progress is not None:
            self._child_progress, self._progress_changed = progress, True
        if events or log_lines:
            self.outbox.receive(events, log_lines)

    def end_line(self) -> None:
        """Keep a last printed line that has no line end."""
        if self._outbox is not None:
            self._outbox.end_line()

    def flush(self) -> None:
        """Wait until all progress, events and log lines are written. Not to be called on the event loop."""
        self._writer.flush_now(self)

    # Checkpoint, steps and transactions

    @property
    def memory(self) -> Memory:
        if self._memory is None:
            with _making:
                self._memory = self._memory or Memory(self.claim, self.environment, self.check, self.require_accepted)
        return self._memory

    @property
    def transactions(self) -> Transactions:
        if self._transactions is None:
            with _making:
                self._transactions = self._transactions or Transactions(
                    self.claim, self.environment, self.check, self.require_accepted, self.check_steps, self.flush
                )
        return self._transactions

    @property
    def uses_database(self) -> bool:
        """Whether the handler has used its checkpoint, steps or transactions. Most jobs do not."""
        return self._memory is not None or self._transactions is not None

    @property
    def completed(self) -> bool:
        """Whether the handler has committed the completion itself, with job.complete()."""
        return self._transactions is not None and self._transactions.completed

    def check_steps(self) -> None:
        """Raise StepsChanged if an earlier attempt finished steps that this one has not called."""
        if self._memory is not None:
            self._memory.check_all_called()


running_attempt: ContextVar[Attempt] = ContextVar("treadle_attempt")


def running_job_fields() -> dict[str, object]:
    """What log lines tell about the job that runs in this context; empty if there is none."""
    attempt = running_attempt.get(None)
    if attempt is None:
        return {}
    return {"job_id": attempt.claim.id, "job_type": attempt.claim.job_type, "attempt": attempt.claim.attempts}


def running_job_id() -> UUID | None:
    """The id of the job that runs in this context, if there is one."""
    attempt = running_attempt.get(None)
    return None if attempt is None else attempt.claim.id
