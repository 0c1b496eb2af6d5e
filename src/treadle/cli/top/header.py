"""The two lines above the tables: the database and the time; rates and counts."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.text import Text

from treadle.words.formatting import count, estimated, printable, rate, span
from treadle.words.overview import Overview, Total
from treadle.words.refusal import Refusal
from treadle.words.status import Status

LEVELS = "▁▂▃▄▅▆▇█"


def first_line(
    where: str,
    type_filter: str,
    clock: datetime,
    width: int,
    unavailable_for: float | None,
    refusal: Refusal | None = None,
) -> Text:
    """`unavailable_for`: seconds for which the database has not replied. `refusal`: why it does not write."""
    filtered = f"  type: {printable(type_filter)[:30]}" if type_filter else ""
    time = Text(f"{clock:%H:%M:%S}", style="dim")
    right = time
    if unavailable_for is not None:
        right = unavailable_text(unavailable_for)
    elif refusal is not None:
        right = Text(f" {refusal.sentence} ", style="red reverse")
    named = Text(printable(where), style="bold")
    named.truncate(max(8, width - right.cell_len - len(filtered) - 1), overflow="ellipsis")
    return justified(Text.assemble(named, (filtered, "cyan")), right, width)


def unavailable_text(seconds: float) -> Text:
    return Text(f" database unavailable for {span(round(seconds))}; retrying ", style="yellow reverse")


def second_line(overview: Overview, width: int) -> Text:
    """212/s ▂▃▅▇  waiting 1,204  running 12  failed 3 in 1h  workers 4"""
    at, totals = overview.at, overview.totals
    failed = sum(each.failed for each in overview.spans if each.at > at - timedelta(hours=1))
    alive = sum(each.alive for each in overview.workers)
    states: Counter[str] = Counter(each.state for each in overview.workers)
    workers = Text.assemble("workers ", (str(alive), "bold" if alive else "bold red"))
    for state, text, style in (
        ("asleep", "asleep", ""),
        ("stuck", "stuck", "bold red"),
        ("silent", "without heartbeat", "bold red"),
        ("lost", "lost", ""),
    ):
        workers.append(f", {states[state]} {text}" if states[state] else "", style)
    facts = [
        Text.assemble("waiting ", (_number(totals.get(Status.PENDING)), "bold")),
        Text.assemble("running ", (_number(totals.get(Status.RUNNING)), "bold")),
        Text.assemble("failed ", (count(failed), "bold red" if failed else "bold"), " in 1h"),
        workers,
    ]
    speed = Text(f"{rate(overview.rate) if overview.rate else '0/s':>8}", style="bold")
    rest = Text("   ").join(facts)
    room = width - speed.cell_len - rest.cell_len - 4
    # Without the current minute, which would always look lower.
    finished = [each.completed + each.failed + each.cancelled for each in overview.spans[:-1]]
    line = Text.assemble(
        speed, " ", (sparkline(finished[-max(0, min(room, 60)) :] if room > 3 else []), "blue"), "   ", rest
    )
    line.truncate(width, overflow="ellipsis")
    return line


def sparkline(numbers: Sequence[int]) -> str:
    """One character for each number, scaled to the highest. Only 0 gets the lowest one."""
    most = max(numbers, default=0)
    return "".join(LEVELS[-(-number * (len(LEVELS) - 1) // most)] if most else LEVELS[0] for number in numbers)


def justified(left: Text, right: Text, width: int) -> Text:
    """One text at each end of the line. If they do not fit, the left one is truncated."""
    left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
    return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)


def _number(total: Total | None) -> str:
    return "0" if total is None else estimated(count(total.jobs), total.exact, total.counted_at)
