"""The screen of the whole queue."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Key, Resize
from textual.geometry import Size
from textual.widgets import Static

from treadle.cli.top.actions import (
    change_job,
    pause_or_resume,
    pause_or_resume_limit,
    pause_or_resume_schedule,
    run_schedule,
)
from treadle.cli.top.columns import FAILED, JOBS, LANES, WORKERS, LaneNow, WorkerNow
from treadle.cli.top.error_columns import ERRORS, ErrorsNow
from treadle.cli.top.header import first_line, second_line
from treadle.cli.top.job import JobScreen
from treadle.cli.top.limit_columns import LIMITS, is_at_limit
from treadle.cli.top.refresh import LIMITS as MOST_LIMITS
from treadle.cli.top.refresh import QueueSnapshot, View
from treadle.cli.top.schedule_columns import SCHEDULES, ScheduleNow
from treadle.cli.top.screen import LiveScreen
from treadle.cli.top.table import Table, TableSpec
from treadle.cli.top.widgets import Footer, Help
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.text.masking import masked
from treadle.words.changes import Action
from treadle.words.errors import InvalidArgument
from treadle.words.formatting import printable
from treadle.words.limit_status import LimitStatus
from treadle.words.snapshot import JobSnapshot

# The smallest size in columns and lines, and the width from which two tables are side by side.
MINIMUM_SIZE = (60, 15)
WIDE = 120
KEYS = "Tab table  Enter open  s sort  / filter  p pause  c cancel  ? help  q quit"
ALL_KEYS = f"{KEYS.partition('?')[0]}r retry  f failed  e errors  t schedules  l limits  ? help  q quit"
# The lower table, by what it shows.
VIEWS: dict[View, TableSpec[Any]] = {
    "running": JOBS,
    "failed": FAILED,
    "errors": ERRORS,
    "schedules": SCHEDULES,
    "limits": LIMITS,
}


class QueueScreen(LiveScreen):
    AUTO_FOCUS = "#jobs"
    CSS = """
    #header { height: 3; }
    #upper { height: 12fr; layout: vertical; }
    #lanes { height: 7fr; padding-bottom: 1; }
    #workers { height: 5fr; padding-bottom: 1; }
    #jobs { height: 8fr; }
    QueueScreen.-wide #upper { height: 1fr; layout: horizontal; }
    QueueScreen.-wide #lanes { width: 1fr; height: 1fr; margin-right: 3; }
    QueueScreen.-wide #workers { width: 1fr; height: 1fr; }
    QueueScreen.-wide #jobs { height: 2fr; }
    #footer { height: 1; }
    #small { display: none; height: 1fr; }
    QueueScreen.-small #small { display: block; }
    QueueScreen.-small #header, QueueScreen.-small #upper { display: none; }
    QueueScreen.-small #jobs, QueueScreen.-small #footer { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear"),
        Binding("p", "pause"),
        Binding("c", "change('cancel')"),
        Binding("r", "change('retry')"),
        Binding("f", "view('failed')"),
        Binding("e", "view('errors')"),
        Binding("t", "view('schedules')"),
        Binding("l", "view('limits')"),
        Binding("question_mark", "help"),
    ]

    def __init__(self, first: QueueSnapshot) -> None:
        super().__init__()
        self.lanes = Table(LANES, "lanes", self._edit_filter)
        self.worker_table = Table(WORKERS, "workers", self._edit_filter)
        self.jobs = Table[Any](JOBS, "jobs", self._edit_filter)
        self._header = Static(id="header")
        self._snapshot = first
        self._type_filter = ""
        self._typing = False

    def compose(self) -> ComposeResult:
        yield self._header
        yield Container(self.lanes, self.worker_table, id="upper")
        yield self.jobs
        yield Footer(ALL_KEYS, KEYS)
        yield Static(id="small")

    def on_mount(self) -> None:
        self._lay_out(self.app.size)
        self.show(self._snapshot)
        self.set_interval(0.5, self.draw_header)

    async def reload(self) -> None:
        snapshot = await self.app.refresher.refresh()
        if snapshot is not None and self.is_mounted:
            self.show(snapshot)

    def show(self, snapshot: QueueSnapshot) -> None:
        self._snapshot = snapshot
        at, overview = snapshot.overview.at, snapshot.overview
        limits = snapshot.limits
        self.lanes.show(
            [
                LaneNow(lane, at, is_at_limit(lane.job_type, lane.queue, limits))
                for lane in overview.lanes
                if self._matches(lane.job_type)
            ]
        )
        self.worker_table.show(
            [
                WorkerNow(worker, at)
                for worker in overview.workers
                if not self._type_filter or any(map(self._matches, worker.job_types or ()))
            ]
        )
        if self.jobs.spec is VIEWS[snapshot.view]:
            if snapshot.view == "limits":
                chosen = [each for each in limits if self._matches(each.name, each.key or "", *each.job_types)]
                self.jobs.show(chosen, more=len(limits) >= MOST_LIMITS)
            elif snapshot.errors is not None:
                groups = [each for each in snapshot.errors.groups if self._matches(each.job_type, each.title)]
                self.jobs.show([ErrorsNow(each, snapshot.errors.at) for each in groups], more=snapshot.errors.more)
            elif snapshot.schedules is not None:
                rows = [each for each in snapshot.schedules.schedules if self._matches(each.name, each.job_type)]
                shown = [ScheduleNow(each, snapshot.schedules.at) for each in rows]
                self.jobs.show(shown, more=snapshot.schedules.next is not None)
            else:
                self.jobs.show([job for job in snapshot.jobs if self._matches(job.job_type)])
        self.draw_header()

    def draw_header(self) -> None:
        width, now = self.size.width, datetime.now().astimezone()
        overview, unavailable_for = self._snapshot.overview, self.app.refresher.unavailable_for
        first = first_line(self.app.where, self._type_filter, now, width, unavailable_for, overview.refusal)
        self._header.update(Text("\n").join([first, second_line(overview, width)]))

    def _matches(self, *names: str) -> bool:
        return any(self._type_filter.lower() in name.lower() for name in names)

    def _edit_filter(self, key: Key) -> bool:
        """After a /, keys edit the filter. This is no input widget: focus would move to it too late for pasted text,
        and a q in the text would quit."""
        if key.key == "slash" and not self._typing:
            self._typing = True
            self._filter(self._type_filter)
            return True
        if not self._typing:
            return False
        if key.key == "backspace":
            self._filter(self._type_filter[:-1])
        elif key.key in ("enter", "escape"):
            self._typing = False
            self._filter("" if key.key == "escape" else self._type_filter)
        elif key.is_printable and key.character:
            self._filter(self._type_filter + key.character)
        return True

    def _filter(self, text: str) -> None:
        self._type_filter = self.app.refresher.search = text
        prompt = f"Filter by job type: {text}▏   Enter apply  Esc clear"
        self.query_one(Footer).show_prompt(prompt if self._typing else None)
        self.show(self._snapshot)

    # Keys

    def action_clear(self) -> None:
        self._filter("")

    def action_view(self, view: View) -> None:
        """Show this in the lower table, or the running jobs again."""
        self.app.refresher.view = "running" if self.app.refresher.view == view else view
        self.jobs.switch_to(VIEWS[self.app.refresher.view])
        self.jobs.focus()
        self.app.refresh_now()

    def action_help(self) -> None:
        self.app.push_screen(Help())

    def action_pause(self) -> None:
        selected: Any = self.focused.selected if isinstance(self.focused, Table) else None
        if isinstance(selected, ScheduleNow):
            self.app.perform(pause_or_resume_schedule(selected.schedule, self.app.actor))
            return
        if isinstance(selected, LimitStatus):
            try:
                self.app.perform(pause_or_resume_limit(selected, self.app.actor))
            except InvalidArgument as error:
                self.query_one(Footer).show_message(printable(masked(str(error))))
            return
        selected = selected.lane if isinstance(selected, LaneNow) else selected
        if selected is None or isinstance(selected, WorkerNow | ErrorsNow):
            self.query_one(Footer).show_message("Select a type or a job to pause its job type.")
            return
        pauses = self._snapshot.overview.pauses
        self.app.perform(pause_or_resume(selected.job_type, selected.queue, pauses, self.app.actor))

    def action_change(self, action: str) -> None:
        job = self.jobs.selected
        if self.focused is self.jobs and isinstance(job, ScheduleNow) and action == Action.RETRY:
            self.app.perform(run_schedule(job.schedule, self.app.actor))
            return
        if self.focused is not self.jobs or not isinstance(job, JobSnapshot):
            hint = f"Select a job to {action} it."
            if self.focused is self.jobs and isinstance(job, ErrorsNow):
                hint = f"To {action} its jobs: treadle errors {action} {job.group.id}"
            self.query_one(Footer).show_message(hint)
            return
        self.app.perform(change_job(Action(action), job, self.app.actor))

    @on(Table.Opened)
    def _open(self, event: Table.Opened) -> None:
        if isinstance(event.item, LaneNow):
            self._filter(event.item.lane.job_type)
        elif isinstance(event.item, LimitStatus) and event.item.job_types:
            self._filter(event.item.job_types[0])
        elif isinstance(event.item, JobSnapshot):
            self.app.push_screen(JobScreen(event.item))
        elif isinstance(event.item, ScheduleNow):
            job_id = event.item.schedule.last_job
            if job_id is None:
                self.query_one(Footer).show_message("The schedule has enqueued no job yet.")
            else:
                self.run_worker(self._open_job(job_id))
        elif isinstance(event.item, ErrorsNow):
            self.run_worker(self._open_example(event.item.group.id))

    async def _open_example(self, group_id: int) -> None:
        query = group_queries.get_example(group_id)
        example = await self.app.refresher.run(lambda: self.app.treadle.database.aread(query))
        if example is None:
            self.query_one(Footer).show_message("There is no example of this group.")
        else:
            await self._open_job(example.job_id, "The job of the example no longer exists.")

    async def _open_job(self, job_id: UUID, missing: str = "The last job no longer exists.") -> None:
        query = snapshot_queries.find_snapshots([job_id])
        found = await self.app.refresher.run(lambda: self.app.treadle.database.aread(query))
        if found:
            self.app.push_screen(JobScreen(masked(found[0])))
        else:
            self.query_one(Footer).show_message(missing)

    def on_resize(self, event: Resize) -> None:
        self._lay_out(event.size)
        self.draw_header()

    def _lay_out(self, size: Size) -> None:
        small = size.width < MINIMUM_SIZE[0] or size.height < MINIMUM_SIZE[1]
        self.set_class(small, "-small")
        self.set_class(size.width >= WIDE, "-wide")
        actual, minimum = f"{size.width}x{size.height}", f"{MINIMUM_SIZE[0]}x{MINIMUM_SIZE[1]}"
        text = f"This terminal is {actual}.\ntreadle top needs at least {minimum}.\nq quit"
        self.query_one("#small", Static).update(Text(text))
