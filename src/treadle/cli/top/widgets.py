"""The footer, the confirmation of an action, and the help."""

import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

# How long the footer shows a message instead of the keys.
MESSAGE_SECONDS = 6.0

HELP = [
    ("↑ ↓  j k", "select a row; also PgUp, PgDn, Home, End"),
    ("Tab", "move to the next table"),
    ("s", "sort the table by its next column"),
    ("/", "filter by job type; Esc clears the filter"),
    ("Enter", "show the details of a job, of the last job of a schedule, or"),
    ("", "of an example of errors; on a type or a limit, filter by its job type"),
    ("f", "switch between running jobs and failed jobs of the last hour"),
    ("e", "switch between running jobs and groups of errors"),
    ("t", "switch between running jobs and schedules"),
    ("l", "switch between running jobs and limits"),
    ("p", "pause or resume the job type of the row, the schedule or the limit"),
    ("c", "cancel the job"),
    ("r", "retry the job, if it has finished; run the schedule now"),
    ("q  Ctrl-C", "quit"),
]


class Footer(Static):
    """Key hints; for a few seconds after an action, its result."""

    def __init__(self, *keys: str) -> None:
        """Shows the first of these lines that fits, so give the longest one first."""
        super().__init__(id="footer")
        self._keys = keys
        self._until = 0.0

    def on_mount(self) -> None:
        self.set_interval(0.5, self._expire)

    def on_resize(self) -> None:
        self._show_keys()

    def show_message(self, text: str) -> None:
        self._until = time.monotonic() + MESSAGE_SECONDS
        self.update(Text(text, style="bold", no_wrap=True, overflow="ellipsis"))

    def show_prompt(self, text: str | None) -> None:
        """Shown until it is replaced; None shows the keys again."""
        self._until = 0.0
        if text is None:
            self._show_keys()
        else:
            self.update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _expire(self) -> None:
        if self._until and time.monotonic() > self._until:
            self._until = 0.0
            self._show_keys()

    def _show_keys(self) -> None:
        line = next((each for each in self._keys if len(each) <= self.size.width), self._keys[-1])
        self.update(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))


class Confirmation(ModalScreen[bool]):
    """A yes-or-no question at the bottom. The tables above it stay live."""

    CSS = """
    Confirmation { align: left bottom; background: transparent; }
    Confirmation Static { height: auto; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)"),
        Binding("n,escape,q,enter", "dismiss(False)"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble((f"{self._text} ", "bold yellow"), ("y", "bold"), "es / ", ("n", "bold"), "o"))


class Help(ModalScreen[None]):
    CSS = """
    Help { align: center middle; background: transparent; }
    Help Static { width: 78; height: auto; padding: 1 2; background: ansi_default; border: round ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "dismiss")]

    def compose(self) -> ComposeResult:
        width = max(len(keys) for keys, _ in HELP)
        lines = [Text.assemble((keys.ljust(width), "bold"), f"  {description}") for keys, description in HELP]
        yield Static(Text("\n").join(lines))
