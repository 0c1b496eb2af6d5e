"""The screen of one job: how far it is, and the newest of what it told and logged."""

import textwrap
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from treadle.cli.top.acts import changing
from treadle.cli.top.head import apart
from treadle.cli.top.parts import Foot
from treadle.db.queries import events as event_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.watching.bars import MARKS, bar
from treadle.words.changes import Action
from treadle.words.masking import masked
from treadle.words.phrases import facts, pace, printable, span, standing
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

if TYPE_CHECKING:
    from treadle.cli.top.screen import Top

KEYS = "Esc back  c cancel  r retry  q quit"
EVENTS = 100
LOGS = 200
ERROR_LINES = 4
# Two headings with a line above each, and the keys.
AROUND = 5


class Told(NamedTuple):
    job: JobSnapshot
    events: list[RecordedEvent]
    logs: list[LogLine]


class JobScreen(Screen[None]):
    CSS = """
    #job { height: 1fr; }
    #foot { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "back"),
        Binding("c", "change('cancel')"),
        Binding("r", "change('retry')"),
    ]
    app: "Top"

    def __init__(self, job: JobSnapshot) -> None:
        super().__init__()
        self._told = Told(job, [], [])
        self._gone = False
        self._page = Static(id="job")

    def compose(self) -> ComposeResult:
        yield self._page
        yield Foot(KEYS)

    async def on_mount(self) -> None:
        self._draw()
        self.set_interval(0.5, self._draw)
        self.app.look_now()

    async def look(self) -> None:
        told = await self.app.looks.ask(self._ask)
        if told is not None:
            self._told = told
        if self.is_mounted:
            self._draw()

    async def _ask(self) -> Told:
        database, before = self.app.treadle.database, self._told
        found = await database.alook(snapshot_queries.find_snapshots([before.job.id]))
        self._gone = not found
        job = found[0] if found else before.job
        last = before.events[-1].number or 0 if before.events else 0
        events, logs = before.events, before.logs
        if job.events_count > last:
            events = [*events, *await database.alook(event_queries.find_newest_events({job.id: last}, EVENTS))][
                -EVENTS:
            ]
        new = await database.alook(log_queries.get_logs(job.id, logs[-1].number if logs else 0))
        return masked(Told(job, events, [*logs, *new][-LOGS:]))

    def action_back(self) -> None:
        self.dismiss()

    def action_change(self, action: str) -> None:
        job = self._told.job
        self.app.perform(changing(self.app.treadle.schema, Action(action), job, self.app.who))

    def on_resize(self, event: Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        lines = head(self._told.job, width, self.app.looks.away, self._gone)
        room = max(2, height - len(lines) - AROUND)
        events = [event_line(each) for each in self._told.events]
        logs = [log_line(each) for each in self._told.logs]
        # Half of the room for each; what one does not need is the other's.
        for_logs = min(len(logs), max(room // 2, room - len(events)))
        for_events = min(len(events), room - for_logs)
        lines += section("events", events, for_events) + section("log", logs, for_logs)
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
        self._page.update(Text("\n").join(lines))


def head(job: JobSnapshot, width: int, away: float | None, gone: bool) -> list[Text]:
    mark, colour = MARKS[job.status]
    status = Text(f"{mark} {job.status}", style=colour)
    if gone:
        status = Text("not there any more", style="red")
    if away is not None:
        status = Text(f" the database is away for {span(round(away))}; trying again ", style="yellow reverse")
    progress = job.progress
    long = max(10, min(60, width - 50))
    how_far = (
        [printable(progress.stage or ""), *pace(progress)]
        if job.status == Status.RUNNING
        else [standing(job._replace(error=None))]
    )
    known = [
        f"attempt {job.attempts} of {job.max_attempts}",
        f"queue {printable(job.queue)}",
        f"priority {job.priority}",
        *([f"on {printable(job.worker_id)}"] if job.worker_id else []),
        *([f"for {span(job.seconds)}"] if job.seconds is not None and not job.status.finished else []),
    ]
    lines = [
        apart(Text.assemble((printable(job.job_type), "bold"), (f"  {job.id}", "dim")), status, width),
        bar(progress.percent, long, colour).append(f" {progress.percent:3}%  " + "  ".join(filter(None, how_far))),
        Text(", ".join(known), style="dim"),
    ]
    if job.error:
        before = "" if job.status.finished else "the attempt before failed: "
        told = textwrap.wrap(before + printable(job.error), width, max_lines=ERROR_LINES, placeholder=" …")
        lines += [Text(line, style="red") for line in told]
    return lines


def section(name: str, lines: list[Text], room: int) -> list[Text]:
    counted = f"{len(lines)}" if room == len(lines) else f"the last {room}"
    heading = Text.assemble((name, "bold"), (f" {counted}" if lines else " none", "dim"))
    return [Text(), heading, *lines[len(lines) - room :]]


def event_line(event: RecordedEvent) -> Text:
    return Text.assemble(
        (f"{event.at.astimezone():%H:%M:%S}  ", "dim"), printable(event.name), (f"  {facts(event.data)}", "dim")
    )


def log_line(line: LogLine) -> Text:
    style = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}.get(line.level, "dim")
    return Text.assemble(
        (f"{line.at.astimezone():%H:%M:%S}  ", "dim"), (f"{line.level:<8}", style), f"{printable(line.message)}"
    )
