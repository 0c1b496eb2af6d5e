"""The lines above the tables: which database, how fast, how much waits, runs and fails."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.text import Text

from treadle.words.overview import Overview, Total
from treadle.words.phrases import count, printable, rate, span
from treadle.words.status import Status

LEVELS = "▁▂▃▄▅▆▇█"


def first_line(where: str, wanted: str, clock: datetime, width: int, away: float | None) -> Text:
    """`away`: for so many seconds there was no answer."""
    wanted = f"  type: {printable(wanted)[:30]}" if wanted else ""
    if away is None:
        right = Text(f"{clock:%H:%M:%S}", style="dim")
    else:
        right = Text(f" the database is away for {span(round(away))}; trying again ", style="yellow reverse")
    named = Text(printable(where), style="bold")
    named.truncate(max(8, width - right.cell_len - len(wanted) - 1), overflow="ellipsis")
    return apart(Text.assemble(named, (wanted, "cyan")), right, width)


def second_line(overview: Overview, width: int) -> Text:
    """212/s ▂▃▅▇  waiting 1,204  running 12  failed 3 in 1h  workers 4"""
    at, totals = overview.at, overview.totals
    failed = sum(each.failed for each in overview.spans if each.at > at - timedelta(hours=1))
    alive = sum(each.alive for each in overview.workers)
    lost = sum(each.lost_at is not None for each in overview.workers)
    facts = [
        Text.assemble("waiting ", (_number(totals.get(Status.PENDING)), "bold")),
        Text.assemble("running ", (_number(totals.get(Status.RUNNING)), "bold")),
        Text.assemble("failed ", (count(failed), "bold red" if failed else "bold"), " in 1h"),
        Text.assemble("workers ", (str(alive), "bold" if alive else "bold red"), f", {lost} lost" if lost else ""),
    ]
    speed = Text(f"{rate(overview.rate) if overview.rate else '0/s':>8}", style="bold")
    rest = Text("   ").join(facts)
    room = width - speed.cell_len - rest.cell_len - 4
    # The last one is not over.
    ended = [each.completed + each.failed + each.cancelled for each in overview.spans[:-1]]
    line = Text.assemble(speed, " ", (spark(ended[-max(0, min(room, 60)) :] if room > 3 else []), "blue"), "   ", rest)
    line.truncate(width, overflow="ellipsis")
    return line


def spark(numbers: Sequence[int]) -> str:
    """One letter each, as high as its share of the highest."""
    most = max(numbers, default=0)
    return "".join(LEVELS[-(-number * (len(LEVELS) - 1) // most)] if most else LEVELS[0] for number in numbers)


def apart(left: Text, right: Text, width: int) -> Text:
    """One at each end of the line; the left one is cut off."""
    left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
    return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)


def _number(total: Total | None) -> str:
    return "0" if total is None else ("" if total.exact else "~") + count(total.jobs)
