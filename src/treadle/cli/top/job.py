"""The screen of one job: its progress, and its latest events and log lines."""

import textwrap
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import Static

from treadle.cli.top.actions import change_job
from treadle.cli.top.header import justified, unavailable_text
from treadle.cli.top.screen import LiveScreen
from treadle.cli.top.widgets import Footer
from treadle.db.queries import events as event_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.text.masking import masked
from treadle.watching.bars import MARKS, bar
from treadle.watching.states import describe_state
from treadle.words.changes import Action
from treadle.words.formatting import facts, pace, printable, span
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

KEYS = "Esc back  c cancel  r retry  q quit"
EVENTS = 100
LOGS = 200
ERROR_LINES = 4
# Lines that are neither events nor log lines: two headings, an empty line above each, and the footer.
OTHER_LINES = 5


class JobRecord(NamedTuple):
    """A job with its latest events and log lines."""

    job: JobSnapshot
    events: list[RecordedEvent]
    logs: list[LogLine]


class JobScreen(LiveScreen):
    CSS = """
    #job { height: 1fr; }
    #footer { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "back"),
        Binding("c", "change('cancel')"),
        Binding("r", "change('retry')"),
    ]

    def __init__(self, job: JobSnapshot) -> None:
        super().__init__()
        self._record = JobRecord(job, [], [])
        self._deleted = False
        self._page = Static(id="job")

    def compose(self) -> ComposeResult:
        yield self._page
        yield Footer(KEYS)

    async def on_mount(self) -> None:
        self._draw()
        self.set_interval(0.5, self._draw)
        self.app.refresh_now()

    async def reload(self) -> None:
        record = await self.app.refresher.run(self._read)
        if record is not None:
            self._record = record
        if self.is_mounted:
            self._draw()

    async def _read(self) -> JobRecord:
        """Read only what was added since the last refresh."""
        database, before = self.app.treadle.database, self._record
        found = await database.aread(snapshot_queries.find_snapshots([before.job.id]))
        self._deleted = not found
        job = found[0] if found else before.job
        last = before.events[-1].number or 0 if before.events else 0
        events, logs = before.events, before.logs
        if job.events_count > last:
            events = [*events, *await database.aread(event_queries.find_newest_events({job.id: last}, EVENTS))][
                -EVENTS:
            ]
        new = await database.aread(log_queries.get_logs(job.id, logs[-1].number if logs else 0))
        return masked(JobRecord(job, events, [*logs, *new][-LOGS:]))

    def action_back(self) -> None:
        self.dismiss()

    def action_change(self, action: str) -> None:
        self.app.perform(change_job(Action(action), self._record.job, self.app.actor))

    def on_resize(self, event: Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        lines = header(self._record.job, width, self.app.refresher.unavailable_for, self._deleted)
        room = max(2, height - len(lines) - OTHER_LINES)
        events = [event_line(each) for each in self._record.events]
        logs = [log_line(each) for each in self._record.logs]
        # Each section gets half of the lines, and those that the other one does not need.
        for_logs = min(len(logs), max(room // 2, room - len(events)))
        for_events = min(len(events), room - for_logs)
        lines += section("events", events, for_events) + section("log", logs, for_logs)
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
        self._page.update(Text("\n").join(lines))


def header(job: JobSnapshot, width: int, unavailable_for: float | None, deleted: bool) -> list[Text]:
    mark, colour = MARKS[job.status]
    status = Text(f"{mark} {job.status}", style=colour)
    if deleted:
        status = Text("deleted", style="red")
    if unavailable_for is not None:
        status = unavailable_text(unavailable_for)
    progress = job.progress
    bar_width = max(10, min(60, width - 50))
    state = (
        [printable(progress.stage or ""), *pace(progress)]
        if job.status == Status.RUNNING
        else [describe_state(job._replace(error=None))]
    )
    details = [
        f"attempt {job.attempts} of {job.max_attempts}",
        f"queue {printable(job.queue)}",
        f"priority {job.priority}",
        *([f"on {printable(job.worker_id)}"] if job.worker_id else []),
        *([f"for {span(job.seconds)}"] if job.seconds is not None and not job.status.finished else []),
    ]
    lines = [
        justified(Text.assemble((printable(job.job_type), "bold"), (f"  {job.id}", "dim")), status, width),
        bar(progress.percent, bar_width, colour).append(f" {progress.percent:3}%  " + "  ".join(filter(None, state))),
        Text(", ".join(details), style="dim"),
    ]
    if job.error:
        prefix = "" if job.status.finished else "previous attempt failed: "
        wrapped = textwrap.wrap(prefix + printable(job.error), width, max_lines=ERROR_LINES, placeholder=" …")
        lines += [Text(line, style="red") for line in wrapped]
    return lines


def section(name: str, lines: list[Text], room: int) -> list[Text]:
    counted = f"{len(lines)}" if room == len(lines) else f"last {room}"
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
