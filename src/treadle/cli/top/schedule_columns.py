"""The table of schedules and its columns."""

from datetime import datetime
from typing import NamedTuple

from rich.text import Text

from treadle.cli.top.table import Column, TableSpec
from treadle.watching.bars import MARKS
from treadle.words.formatting import countdown, printable, span
from treadle.words.schedule_status import HISTORY, Occurrence, ScheduleStatus
from treadle.words.status import Status

# A time that passed this long ago without being dealt with is late.
LATE_SECONDS = 15.0
# Dots for outcomes. What has ended differently also differs without colours.
DOTS = {
    "completed": ("●", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", "magenta"),
    "running": ("▸", "blue"),
    "claimed": ("○", "cyan"),
    "pending": ("○", "yellow"),
    "skipped": ("-", "bright_black"),
    "missed": ("!", "red"),
    "deleted": ("·", "bright_black"),
}
# The states that need attention, in the order in which they are sorted.
STATES = {"error": "red", "late": "red", "paused": "yellow"}


class ScheduleNow(NamedTuple):
    """A schedule, and when it was read, by the clock of the database."""

    schedule: ScheduleStatus
    at: datetime

    @property
    def seconds(self) -> float | None:
        """Until its next time."""
        due = self.schedule.next_at
        return None if due is None else (due - self.at).total_seconds()

    @property
    def state(self) -> str:
        seconds = self.seconds
        if self.schedule.state == "active" and seconds is not None and seconds < -LATE_SECONDS:
            return "late"
        return self.schedule.state


def _next(now: ScheduleNow, _: int) -> str:
    seconds = now.seconds
    if seconds is None:
        return ""
    return f"in {countdown(seconds)}" if seconds > 0 else "now"


def _order(now: ScheduleNow) -> float:
    """Those with an error first, those without a next time last."""
    if now.state == "error":
        return float("-inf")
    return float("inf") if now.seconds is None else now.seconds


def _last(now: ScheduleNow, _: int) -> str:
    last = now.schedule.last_at
    return "" if last is None else span(max(0.0, (now.at - last).total_seconds()))


def _outcome(now: ScheduleNow, _: int) -> Text:
    outcome = now.schedule.last_outcome
    if outcome is None or outcome == "deleted":
        return Text(outcome or "", style="bright_black")
    mark, colour = MARKS[Status(outcome)]
    return Text(f"{mark} {outcome}", style=colour)


def _state(now: ScheduleNow, _: int) -> Text:
    return Text(now.state, style=STATES.get(now.state, ""))


def strip(history: list[Occurrence], width: int) -> Text:
    """The latest occurrences, as many as fit, the newest on the right."""
    return Text.assemble(*(DOTS[each.outcome] for each in history[-width:]))


SCHEDULES = TableSpec[ScheduleNow](
    name="schedules",
    columns=[
        Column(
            "schedule", lambda now, _: printable(now.schedule.name), 3, grows=True, order=lambda now: now.schedule.name
        ),
        Column("type", lambda now, _: printable(now.schedule.job_type), 2, grows=True, min_table_width=100),
        Column("times", lambda now, _: printable(now.schedule.expression), 2, grows=True, min_table_width=110),
        Column("next", _next, 10, right=True, order=_order),
        Column("last", _last, 8, right=True, min_table_width=70),
        Column("last job", _outcome, 11, min_table_width=90),
        Column("history", lambda now, width: strip(now.schedule.history, width), HISTORY),
        Column("state", _state, 7, order=lambda now: [*STATES, now.state].index(now.state)),
    ],
    key=lambda now: now.schedule.name,
    sort_by="next",
    empty="There are no schedules.",
    dimmed=lambda now: now.state in ("retired", "ended"),
)
