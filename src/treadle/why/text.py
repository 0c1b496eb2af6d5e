"""How names, times and numbers are written in a sentence."""

from datetime import UTC, datetime

from treadle.words.formatting import count, printable, span


def elapsed(now: datetime, moment: datetime) -> str:
    """The time from a moment until now."""
    return span(max(0.0, (now - moment).total_seconds()))


def utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clipped(text: str, width: int = 200) -> str:
    """Untrusted text in a sentence: on one line, without a full stop of its own."""
    safe = printable(text)
    safe = safe if len(safe) <= width else f"{safe[: width - 1]}…"
    return safe.rstrip(".")


def because(text: str | None) -> str:
    return f": {clipped(text)}" if text else ""


def limited(number: int, limit: int) -> str:
    return f"more than {count(limit)}" if number > limit else count(number)


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def enumerated(names: list[str], limit: int = 12) -> str:
    """a, b, c and 4 more."""
    first = ", ".join(clipped(each, 60) for each in names[:limit])
    return f"{first} and {len(names) - limit} more" if len(names) > limit else first or "none"
