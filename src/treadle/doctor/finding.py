"""A finding: the result of one check."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from treadle.doctor.limits import Limits


class Severity(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Worth knowing; no action is required."""
    WARNING = "warning"
    """The queue works, but something slows it down or will break it."""
    CRITICAL = "critical"
    """The queue does not work, or will stop working soon."""

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Finding(NamedTuple):
    name: str
    """The same in every version, for monitoring."""
    level: Severity
    title: str
    """What is wrong, as a sentence."""
    detail: str = ""
    """What causes it, since when, how much."""
    remedy: str = ""
    """What to do, with the command or the SQL to run."""


def ok(name: str, title: str) -> Finding:
    return Finding(name, Severity.OK, title)


def worst(findings: Iterable[Finding]) -> Severity:
    return highest(*(each.level for each in findings))


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """The most severe first; among equals the order stays."""
    return sorted(findings, key=lambda each: -each.level.rank)


def severity_of(value: float, note: float, warning: float, critical: float = float("inf")) -> Severity:
    """The severity of a value that should be small."""
    for limit, severity in ((critical, Severity.CRITICAL), (warning, Severity.WARNING), (note, Severity.NOTE)):
        if value >= limit:
            return severity
    return Severity.OK


def highest(*severities: Severity) -> Severity:
    return max(severities, key=lambda severity: severity.rank, default=Severity.OK)


class Context(NamedTuple):
    """What every rule knows besides its facts."""

    schema: str
    limits: Limits
    version: str
    """Of this Treadle."""
