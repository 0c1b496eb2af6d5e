"""The job that a handler is given while it runs."""

from contextvars import ContextVar
from datetime import datetime
from uuid import UUID

from treadle.words.claim import Claim
from treadle.words.errors import InvalidArgument, JobInterrupted
from treadle.words.naming import text_within
from treadle.words.outcome import Interrupt


class Job:
    """One attempt of a job. Asked for by a parameter with this annotation; calls on it may be made from any thread."""

    __slots__ = ("_claim", "_interrupt", "_percent", "_stage", "_told", "worker_id")

    def __init__(self, claim: Claim, worker_id: str) -> None:
        self._claim = claim
        self.worker_id = worker_id
        self._interrupt: Interrupt | None = None
        self._percent: int | None = None
        self._stage: str | None = None
        self._told = True

    @property
    def id(self) -> UUID:
        return self._claim.id

    @property
    def type(self) -> str:
        return self._claim.job_type

    @property
    def attempt(self) -> int:
        """1 at the first."""
        return self._claim.attempts

    @property
    def max_attempts(self) -> int:
        return self._claim.max_attempts

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def priority(self) -> int:
        return self._claim.priority

    @property
    def key(self) -> str | None:
        return self._claim.key

    @property
    def created_at(self) -> datetime:
        return self._claim.created_at

    @property
    def fence(self) -> int:
        """A number that grows with every claim of this job, to hand to systems outside."""
        return self._claim.lease

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: cancelled, out of time, or the worker has to let go of the job."""
        return self._interrupt is not None

    def check(self) -> None:
        """Raise JobInterrupted if the handler has to stop."""
        if self._interrupt is not None:
            raise JobInterrupted(self._interrupt)

    def progress(self, percent: float | None = None, stage: str | None = None) -> None:
        """How far the job is, 0 to 100, and a word for what it is doing. Returns at once; written a few times a
        second."""
        self.check()
        if percent is not None:
            if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
                raise InvalidArgument(f"progress must be a number from 0 to 100, got {percent!r}")
            self._percent = int(percent)
        if stage is not None:
            self._stage = text_within(stage, 100, "stage")
        self._told = False

    def __repr__(self) -> str:
        return f"<Job {self.type} {self.id} attempt {self.attempt}>"

    # For the worker

    def interrupt(self, reason: Interrupt) -> None:
        """Ask the handler to stop."""
        self._interrupt = self._interrupt or reason

    @property
    def interrupted_by(self) -> Interrupt | None:
        return self._interrupt

    def hear(self, percent: int | None, stage: str | None) -> None:
        """What the handler said in another process."""
        self._percent, self._stage, self._told = percent, stage, False

    def untold(self) -> None:
        """What was said last could not be passed on."""
        self._told = False

    def news(self) -> tuple[int | None, str | None] | None:
        """What was said since this was last asked."""
        if self._told:
            return None
        self._told = True
        return self._percent, self._stage


running_job: ContextVar[Job] = ContextVar("treadle_job")


def current_job() -> Job:
    """The job that is running here, for code below a handler. LookupError where none is."""
    return running_job.get()
