"""Why a job does not run, for people and for programs."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from treadle.words.phrases import count, printable, span


class Other(NamedTuple):
    """A cause that would be left if the first one were lifted."""

    name: str
    short: str


class Reason(NamedTuple):
    name: str
    """Stable: due_later, paused, … (see docs/why.md)."""
    sentence: str
    remedy: str
    """What to do."""
    short: str
    """In a few words, of a job that was named before: `is due in 4m 10s`."""
    data: dict[str, Any]
    """What the sentence is made of; which there are depends on the name."""
    also: tuple[Other, ...] = ()

    def __str__(self) -> str:
        return self.sentence


def since(at: datetime, moment: datetime) -> str:
    """How long it is ago."""
    return span(max(0.0, (at - moment).total_seconds()))


def clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clipped(text: str, width: int = 200) -> str:
    """Untrusted text in a sentence: on one line, without a full stop of its own."""
    safe = printable(text)
    safe = safe if len(safe) <= width else f"{safe[: width - 1]}…"
    return safe.rstrip(".")


def because(text: str | None) -> str:
    return f": {clipped(text)}" if text else ""


def counted(number: int, limit: int) -> str:
    return f"more than {count(limit)}" if number > limit else count(number)


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str], most: int = 12) -> str:
    """a, b, c and 4 more."""
    shown = ", ".join(clipped(each, 60) for each in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "nothing"
