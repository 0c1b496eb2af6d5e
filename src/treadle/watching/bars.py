"""Draws jobs as live progress bars on a terminal, with their newest events below them."""

import time
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Self
from uuid import UUID

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from treadle.watching.states import describe_state
from treadle.words.formatting import facts, pace, printable
from treadle.words.record import RecordedEvent
from treadle.words.snapshot import JobSnapshot, Snapshot
from treadle.words.status import Status

EVENTS = 5
# Countdowns continue between two snapshots.
REDRAWS_A_SECOND = 4
LABEL_LIMIT = 24

MARKS = {
    Status.PENDING: ("·", "yellow"),
    Status.CLAIMED: ("·", "cyan"),
    Status.RUNNING: ("▸", "blue"),
    Status.COMPLETED: ("✓", "green"),
    Status.FAILED: ("✗", "red"),
    Status.CANCELLED: ("✗", "magenta"),
}
ASCII = str.maketrans("·▸✓✗━─╾…", ".>+x#-#~")


class Bars:
    """`with Bars(console) as bars: bars.show(snapshot)`. Unless they are `transient`, the bars stay at the end."""

    def __init__(self, console: Console, labels: Mapping[UUID, str] | None = None, *, transient: bool = False) -> None:
        self._console = console
        self._labels = {} if labels is None else labels
        self._jobs: list[JobSnapshot] = []
        self._events: deque[RecordedEvent] = deque(maxlen=EVENTS)
        self._shown_at = time.monotonic()
        self._unavailable = False
        self._live = Live(
            console=console, get_renderable=self.draw, refresh_per_second=REDRAWS_A_SECOND, transient=transient
        )

    def show(self, snapshot: Snapshot) -> None:
        self._jobs, self._shown_at = snapshot.jobs, time.monotonic()
        self._events.extend(snapshot.events)
        self._live.refresh()

    def unavailable(self, unavailable: bool) -> None:
        """The database has become unavailable, or is back."""
        self._unavailable = unavailable

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def draw(self) -> RenderableType:
        width, height = self._console.size
        passed = timedelta(seconds=0 if self._unavailable else time.monotonic() - self._shown_at)
        labels = {job.id: label_of(job, self._labels) for job in self._jobs}
        wide = min(max(map(cell_len, labels.values()), default=0), LABEL_LIMIT, width // 4)
        room = max(1, height - EVENTS - 5)
        shown = self._jobs if len(self._jobs) <= room else self._jobs[: room - 1]
        lines = [line(job._replace(at=job.at + passed), labels[job.id], wide, width) for job in shown]
        if len(shown) < len(self._jobs):
            lines.append(Text(f"  and {len(self._jobs) - len(shown)} more", style="dim"))
        if self._events:
            lines.append(Text())
            lines += [event_line(event, self._labels, width) for event in self._events]
        if self._unavailable:
            lines.append(Text("the database is unavailable; retrying", style="yellow"))
        if self._console.options.ascii_only:
            lines = [Text(str(each).translate(ASCII), style=each.style) for each in lines]
        return Group(*lines)


def label_of(job: JobSnapshot | RecordedEvent, labels: Mapping[UUID, str]) -> str:
    job_id = job.id if isinstance(job, JobSnapshot) else job.job_id
    return labels.get(job_id) or printable(job.job_type)


def line(job: JobSnapshot, label: str, wide: int, width: int) -> Text:
    """▸ import_rows  ━━━━━━━━╾───── 61%  importing        1,220/2,000  212/s  4.1s left"""
    mark, colour = MARKS[job.status]
    bar_width = 20 if width >= 110 else 14
    head = Text.assemble((mark, colour), " ", _fitted(label, wide), "  ")
    head.append_text(bar(job.progress.percent, bar_width, colour))
    head.append(f" {job.progress.percent:3}%  ")
    rest = max(0, width - head.cell_len)
    if job.status != Status.RUNNING:
        state = Text(describe_state(job), style="" if job.status.finished else "dim")
        state.truncate(rest, overflow="ellipsis")
        return head.append_text(state)
    stage, parts = printable(job.progress.stage or ""), pace(job.progress)
    # Without enough room, parts are left out, first the rate, so that the stage stays readable.
    while parts and cell_len("  ".join(parts)) + 2 + min(cell_len(stage), 16) > rest:
        parts.remove(parts[1] if len(parts) == 3 else parts[0])
    right = "  ".join(parts)
    head.append(_fitted(stage, rest - cell_len(right) - 2 if right else rest))
    return head.append(f"  {right}", style="cyan") if right else head


def bar(percent: int, width: int, colour: str) -> Text:
    halves = percent * width * 2 // 100
    full, half = divmod(halves, 2)
    return Text.assemble(("━" * full + "╾" * half, colour), ("─" * (width - full - half), "bright_black"))


def event_line(event: RecordedEvent, labels: Mapping[UUID, str], width: int) -> Text:
    line = (
        f"  {event.at.astimezone():%H:%M:%S}  {label_of(event, labels)}: {printable(event.name)}  {facts(event.data)}"
    )
    text = Text(line.rstrip(), style="dim")
    text.truncate(width, overflow="ellipsis")
    return text


def _fitted(text: str, width: int) -> Text:
    made = Text(text)
    made.truncate(max(0, width), overflow="ellipsis", pad=True)
    return made
