"""Job types and queues: what waits, what finished, and who works on it."""

from datetime import datetime
from typing import NamedTuple

from treadle.words.overview import Span, Total
from treadle.words.percentiles import Times


class Activity(NamedTuple):
    """What finished in a window."""

    window: int
    """In seconds."""
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Failed attempts, including those that were retried."""
    waited: Times
    """From due to claimed."""
    ran: Times

    @property
    def failure_share(self) -> float | None:
        """Failed attempts of all attempts that ended; None: none has."""
        attempts = self.completed + self.errors
        return self.errors / attempts if attempts else None

    @property
    def rate(self) -> float:
        """Finished jobs per second."""
        return (self.completed + self.failed + self.cancelled) / self.window


class Place(NamedTuple):
    """A job type, a queue, or a type in a queue."""

    job_type: str | None
    """None: all types of the queue."""
    queue: str | None
    """None: all queues of the type."""
    waiting: Total
    due_since: datetime | None
    """Since when the first job could run; None: none is due."""
    paused: bool
    """All of it is paused."""
    partly_paused: bool
    """Only in some queues, or only some types."""
    workers: int
    """Live workers that claim from it."""
    unserved: bool
    """Jobs wait that no live worker claims."""
    activity: Activity


class Places(NamedTuple):
    at: datetime
    """Now, by the database's clock."""
    window: int
    places: list[Place]
    """By name."""


class PlaceDetails(NamedTuple):
    at: datetime
    place: Place
    parts: list[Place]
    """Of a type, each queue that it is in; of a queue, each type."""
    spans: list[Span]
    step: int
    depths: list[int | None]
    """How many jobs waited during each span; None: that was not counted."""
