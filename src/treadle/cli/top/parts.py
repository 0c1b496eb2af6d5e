"""The line below, with keys or a message; the question in its place; the page of keys."""

import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

# How long a message stands in the place of the keys.
MESSAGE_SECONDS = 6.0

HELP = [
    ("↑ ↓  j k", "choose a row; PgUp, PgDn, Home, End for longer ways"),
    ("Tab", "the next table"),
    ("s", "sort the table by its next column"),
    ("/", "show only job types with this in their name; Esc shows all"),
    ("Enter", "look into the job; on a lane: show only its type"),
    ("f", "failed within the last hour, instead of running"),
    ("p", "pause the job type of the row, or resume it"),
    ("c", "cancel the job"),
    ("r", "retry the job, if it has ended"),
    ("q  Ctrl-C", "quit"),
]


class Foot(Static):
    """Keys; after something was done, for a while what came of it."""

    def __init__(self, *keys: str) -> None:
        """The longest of these lines that fits is shown; the last one is the shortest."""
        super().__init__(id="foot")
        self._keys = keys
        self._until = 0.0

    def on_mount(self) -> None:
        self.set_interval(0.5, self._expire)

    def on_resize(self) -> None:
        self._show_keys()

    def say(self, text: str) -> None:
        self._until = time.monotonic() + MESSAGE_SECONDS
        self.update(Text(text, style="bold", no_wrap=True, overflow="ellipsis"))

    def ask(self, text: str | None) -> None:
        """For something to be typed; None: no more."""
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


class Question(ModalScreen[bool]):
    """Below, on a line or more of its own; the tables go on above it."""

    CSS = """
    Question { align: left bottom; background: transparent; }
    Question Static { height: auto; background: ansi_default; }
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
        wide = max(len(keys) for keys, _ in HELP)
        lines = [Text.assemble((keys.ljust(wide), "bold"), f"  {what}") for keys, what in HELP]
        yield Static(Text("\n").join(lines))
