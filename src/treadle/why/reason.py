"""The reason why a job does not run, for people and for programs."""

from typing import Any, NamedTuple


class Other(NamedTuple):
    """Another cause, which would remain if the first one were removed."""

    name: str
    short: str


class Reason(NamedTuple):
    """Why a job is not running, or a schedule does not run."""

    name: str
    """Stable: due_later, paused, … (see docs/why.md)."""
    sentence: str
    remedy: str
    """What to do."""
    short: str
    """In a few words, to follow the job's name: `is due in 4m 10s`."""
    data: dict[str, Any]
    """The values in the sentence; which keys there are depends on the name."""
    also: tuple[Other, ...] = ()
    """Causes that remain when this one is removed."""

    def __str__(self) -> str:
        return self.sentence
