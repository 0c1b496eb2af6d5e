"""The outcome of an attempt. The executor returns it; the completer writes it."""

from enum import StrEnum
from typing import NamedTuple


class Ending(StrEnum):
    """The outcomes that treadle.settle_jobs() accepts, and four others: completed, replaced, written, dropped."""

    COMPLETED = "completed"
    REPLACED = "replaced"  # by other jobs, whose result becomes its own
    RETRY = "retry"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RELEASED = "released"
    CRASHED = "crashed"
    LIMITED = "limited"
    WRITTEN = "written"  # completed by the handler itself, in its own transaction
    DROPPED = "dropped"  # the claim was lost: nothing is written


class Outcome(NamedTuple):
    ending: Ending
    result: str | None = None  # JSON; of a replaced job, what replaces it
    error: str | None = None
    traceback: str | None = None
    delay: float | None = None  # seconds
    limited_for: str | None = None  # the part of its limits that wait
    stored: tuple[str, ...] = ()  # the ids of stored content that the result refers to
    on_purpose: bool = False  # a retry that the handler asked for, which is not logged with a traceback
    exception: BaseException | None = None  # what the handler raised, if it ran in this process


class Interrupt(StrEnum):
    """Why a handler is interrupted."""

    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    FENCED = "the lease could not be renewed"
    LEASE_LOST = "lease lost"
