"""The screen of the whole queue."""

from datetime import datetime
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Key, Resize
from textual.geometry import Size
from textual.widgets import Static

from treadle.cli.top.acts import changing, pausing
from treadle.cli.top.columns import FAILED, JOBS, LANES, WORKERS, LaneNow, WorkerNow
from treadle.cli.top.head import first_line, second_line
from treadle.cli.top.job import JobScreen
from treadle.cli.top.looks import Glance
from treadle.cli.top.parts import Foot, Help
from treadle.cli.top.screen import LiveScreen
from treadle.cli.top.table import Board
from treadle.words.changes import Action
from treadle.words.snapshot import JobSnapshot

# Columns and lines below which there is nothing to see, and columns from which on two tables stand side by side.
LEAST = (60, 15)
WIDE = 120
KEYS = "Tab table  Enter open  s sort  / filter  p pause  c cancel  ? help  q quit"
ALL_KEYS = "↑↓ move  Tab table  Enter open  s sort  / filter  p pause  c cancel  r retry  f failed  ? help  q quit"


class QueueScreen(LiveScreen):
    AUTO_FOCUS = "#jobs"
    CSS = """
    #head { height: 3; }
    #upper { height: 12fr; layout: vertical; }
    #lanes { height: 7fr; padding-bottom: 1; }
    #holders { height: 5fr; padding-bottom: 1; }
    #jobs { height: 8fr; }
    QueueScreen.-wide #upper { height: 1fr; layout: horizontal; }
    QueueScreen.-wide #lanes { width: 1fr; height: 1fr; margin-right: 3; }
    QueueScreen.-wide #holders { width: 1fr; height: 1fr; }
    QueueScreen.-wide #jobs { height: 2fr; }
    #foot { height: 1; }
    #small { display: none; height: 1fr; }
    QueueScreen.-small #small { display: block; }
    QueueScreen.-small #head, QueueScreen.-small #upper { display: none; }
    QueueScreen.-small #jobs, QueueScreen.-small #foot { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear"),
        Binding("p", "pause"),
        Binding("c", "change('cancel')"),
        Binding("r", "change('retry')"),
        Binding("f", "failed"),
        Binding("question_mark", "help"),
    ]

    def __init__(self, first: Glance) -> None:
        super().__init__()
        self.lanes = Board(LANES, "lanes", self._takes)
        self.holders = Board(WORKERS, "holders", self._takes)
        self.jobs = Board(JOBS, "jobs", self._takes)
        self._head = Static(id="head")
        self._glance = first
        self._wanted = ""
        self._typing = False

    def compose(self) -> ComposeResult:
        yield self._head
        yield Container(self.lanes, self.holders, id="upper")
        yield self.jobs
        yield Foot(ALL_KEYS, KEYS)
        yield Static(id="small")

    def on_mount(self) -> None:
        self._lay_out(self.app.size)
        self.show(self._glance)
        self.set_interval(0.5, self.draw_head)

    async def reload(self) -> None:
        glance = await self.app.looks.glance()
        if glance is not None and self.is_mounted:
            self.show(glance)

    def show(self, glance: Glance) -> None:
        self._glance = glance
        at, seen = glance.overview.at, glance.overview
        self.lanes.show([LaneNow(lane, at) for lane in seen.lanes if self._fits(lane.job_type)])
        self.holders.show(
            [
                WorkerNow(worker, at)
                for worker in seen.workers
                if not self._wanted or any(map(self._fits, worker.job_types or ()))
            ]
        )
        if glance.failed == (self.jobs.plan is FAILED):
            self.jobs.show([job for job in glance.jobs if self._fits(job.job_type)])
        self.draw_head()

    def draw_head(self) -> None:
        width, now = self.size.width, datetime.now().astimezone()
        above = first_line(self.app.where, self._wanted, now, width, self.app.looks.away)
        self._head.update(Text("\n").join([above, second_line(self._glance.overview, width)]))

    def _fits(self, job_type: str) -> bool:
        return self._wanted.lower() in job_type.lower()

    def _takes(self, key: Key) -> bool:
        """The letters after a / are its own. Not a field with a focus: that comes late for what arrives at one go, and
        a q in it would quit."""
        if key.key == "slash" and not self._typing:
            self._typing = True
            self._filter(self._wanted)
            return True
        if not self._typing:
            return False
        if key.key == "backspace":
            self._filter(self._wanted[:-1])
        elif key.key in ("enter", "escape"):
            self._typing = False
            self._filter("" if key.key == "escape" else self._wanted)
        elif key.is_printable and key.character:
            self._filter(self._wanted + key.character)
        return True

    def _filter(self, wanted: str) -> None:
        self._wanted = wanted
        asked = f"job types with: {wanted}▏   Enter keeps it, Esc shows all"
        self.query_one(Foot).ask(asked if self._typing else None)
        self.show(self._glance)

    # Keys

    def action_clear(self) -> None:
        self._filter("")

    def action_failed(self) -> None:
        self.app.looks.failed = not self.app.looks.failed
        self.jobs.change(FAILED if self.app.looks.failed else JOBS)
        self.jobs.focus()
        self.app.look_now()

    def action_help(self) -> None:
        self.app.push_screen(Help())

    def action_pause(self) -> None:
        chosen: Any = self.focused.chosen if isinstance(self.focused, Board) else None
        chosen = chosen.lane if isinstance(chosen, LaneNow) else chosen
        if chosen is None or isinstance(chosen, WorkerNow):
            self.query_one(Foot).say("p pauses the job type of a lane or of a job: choose one")
            return
        pauses = self._glance.overview.pauses
        self.app.perform(pausing(self.app.treadle.schema, chosen.job_type, chosen.queue, pauses, self.app.who))

    def action_change(self, action: str) -> None:
        job = self.jobs.chosen
        if self.focused is not self.jobs or job is None:
            self.query_one(Foot).say("c and r are for jobs: choose one in the table below")
            return
        self.app.perform(changing(self.app.treadle.schema, Action(action), job, self.app.who))

    @on(Board.Opened)
    def _open(self, event: Board.Opened) -> None:
        if isinstance(event.item, LaneNow):
            self._filter(event.item.lane.job_type)
        elif isinstance(event.item, JobSnapshot):
            self.app.push_screen(JobScreen(event.item))

    def on_resize(self, event: Resize) -> None:
        self._lay_out(event.size)
        self.draw_head()

    def _lay_out(self, size: Size) -> None:
        small = size.width < LEAST[0] or size.height < LEAST[1]
        self.set_class(small, "-small")
        self.set_class(size.width >= WIDE, "-wide")
        here, least = f"{size.width} by {size.height}", f"{LEAST[0]} by {LEAST[1]}"
        self.query_one("#small", Static).update(Text(f"treadle top needs {least}\nand this is {here}; q quits"))
