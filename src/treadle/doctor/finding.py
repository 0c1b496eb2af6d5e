"""What a check has to say."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from treadle.doctor.limits import Limits


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    WARNING = "warning"
    """The queue works, and something makes it slow or will break it."""
    CRITICAL = "critical"
    """The queue does not work, or is about to stop."""

    @property
    def rank(self) -> int:
        return list(Level).index(self)


class Finding(NamedTuple):
    name: str
    """The same in every version: for monitoring."""
    level: Level
    title: str
    """A sentence."""
    detail: str = ""
    """Who, since when, how much."""
    remedy: str = ""
    """What to do, with the command or the SQL to run."""


def ok(name: str, title: str) -> Finding:
    return Finding(name, Level.OK, title)


def worst(findings: Iterable[Finding]) -> Level:
    return max((each.level for each in findings), key=lambda level: level.rank, default=Level.OK)


def by_urgency(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, else as they came."""
    return sorted(findings, key=lambda each: -each.level.rank)


def level_of(value: float, note: float, warning: float, critical: float = float("inf")) -> Level:
    """How bad a value is that should be small."""
    for limit, level in ((critical, Level.CRITICAL), (warning, Level.WARNING), (note, Level.NOTE)):
        if value >= limit:
            return level
    return Level.OK


def most(*levels: Level) -> Level:
    return max(levels, key=lambda level: level.rank)


class Case(NamedTuple):
    """Whose health it is, and from where on something is worth a word."""

    schema: str
    limits: Limits
    version: str
    """Of this Treadle."""
