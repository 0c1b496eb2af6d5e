"""Formats jobs, numbers and times for a line on a screen. Text from the database is made printable: it cannot move the
cursor or add a line."""

import json
import math
import unicodedata
from collections.abc import Mapping
from uuid import UUID

from treadle.words.json import Json
from treadle.words.snapshot import Progress

# Surrogates, control characters, and format characters such as those that reverse the direction of the text.
_UNPRINTABLE = {"Cc", "Cs", "Cf"}


def printable(text: str) -> str:
    """The text on one line, without anything that a terminal would interpret."""
    if text.isascii() and text.isprintable():
        return text
    safe = "".join(
        " " if unicodedata.category(each) in _UNPRINTABLE or each in "\u2028\u2029" else each for each in text
    )
    return " ".join(safe.split())


def printable_lines(text: str) -> list[str]:
    """The same for a text of several lines; each line keeps its indentation."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return [" " * (len(line) - len(line.lstrip(" "))) + printable(line.lstrip(" ")) for line in lines]


def age(seconds: float) -> str:
    """A duration in one unit: 4s, 12m, 3h, 9d."""
    for size, letter in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{max(0, int(seconds))}s"


def span(seconds: float) -> str:
    """A duration: 4.2s, 42s, 3m 20s, 2h 05m, 3d 4h."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole // 60 % 60:02}m"
    return f"{whole // 86_400}d {whole // 3600 % 24}h"


def short_id(job_id: UUID) -> str:
    """The last 8 digits. The first ones encode the time, so jobs enqueued together share them."""
    return job_id.hex[-8:]


def countdown(seconds: float) -> str:
    """A duration in whole seconds, so that it does not flicker."""
    return f"{math.ceil(seconds)}s" if seconds <= 59 else span(seconds)


def count(number: int) -> str:
    """A number: 1,220 or 1.2M."""
    if abs(number) < 1_000_000:
        return f"{number:,}"
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if abs(number) >= size:
            return f"{number / size:,.1f}{letter}"
    raise AssertionError("unreachable")


def estimated(number: str, exact: bool, counted_at: object) -> str:
    """7,000 if it is exact, ≈7,000 if a worker counted them some time ago, 7,000+ if there are at least so many."""
    if exact:
        return number
    return f"{number}+" if counted_at is None else f"≈{number}"


def rate(a_second: float) -> str:
    """212/s, 2.1/s, 24/min."""
    if a_second >= 9.95:
        return f"{count(round(a_second))}/s"
    if a_second >= 0.95:
        return f"{a_second:.1f}/s"
    return f"{a_second * 60:.0f}/min"


def share(value: float) -> str:
    """A part of a whole in percent: 0 %, 0.03 %, 4.2 %, 17 %."""
    percent = value * 100
    if percent <= 0 or percent >= 9.95:
        return f"{percent:.0f} %"
    return "<0.01 %" if percent < 0.01 else f"{percent:.2g} %"


def pace(progress: Progress) -> list[str]:
    """1,220/2,000 and 212/s and 4s left, as far as they are known."""
    parts = []
    if progress.done is not None:
        parts.append(count(progress.done) + ("" if progress.total is None else f"/{count(progress.total)}"))
    if progress.rate:
        parts.append(rate(progress.rate))
    if progress.left:
        parts.append(f"{countdown(progress.left)} left")
    return parts


def facts(data: Mapping[str, Json]) -> str:
    """An event's data as rows=1200 file=books.csv."""
    return " ".join(f"{printable(key)}={_fact(value)}" for key, value in data.items())


def _fact(value: Json) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(json.dumps(value, ensure_ascii=False))
