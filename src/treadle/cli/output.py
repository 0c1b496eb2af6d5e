"""What commands print: tables and colour on a terminal, plain text in a pipe, JSON for programs.

Whatever comes from the database is text: it passes `printable`, and no markup is read anywhere.
"""

import codecs
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, TextIO

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from treadle.words.masking import masked
from treadle.words.status import Status

COLOURS = {
    Status.PENDING: "yellow",
    Status.CLAIMED: "cyan",
    Status.RUNNING: "blue",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "magenta",
}
# What a terminal without these letters shows instead.
PLAIN = {"…": "~", "≈": "~", "·": ".", "▸": ">", "✓": "+", "✗": "x", "•": "*", "—": "-", "→": "->"}
GAP = 2
NARROW = 100


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(each, "?") for each in error.object[error.start : error.end]), error.end


codecs.register_error("treadle", _plain)


def screen(*, stderr: bool = False) -> Console:
    """Standard output, or standard error, as it is now."""
    stream = sys.stderr if stderr else sys.stdout
    _spell_out(stream)
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def say(text: str, *, stderr: bool = False) -> None:
    """A sentence of ours. It is not folded: a terminal does that, and what is copied stays whole."""
    stream = sys.stderr if stderr else sys.stdout
    _spell_out(stream)
    click.echo(text, file=stream)


def print_json(value: object, *, show_secrets: bool = False) -> None:
    """One object on one line, masked. In ASCII: every terminal can show it, and none interprets it."""
    click.echo(json.dumps(plain(value if show_secrets else masked(value)), default=str))


def plain(value: Any) -> Any:
    """The value in what JSON has; a NamedTuple as an object."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


class Column(NamedTuple):
    name: str
    least: int | None = None
    """On a narrow terminal it may be shortened to this; None: never."""
    right: bool = False


def show_table(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]) -> None:
    """Aligned, without lines. In a pipe nothing is shortened."""
    cells = [[Text(column.name, style="dim") for column in columns]]
    cells += [[each if isinstance(each, Text) else Text(each) for each in row] for row in rows]
    widths = [max(each.cell_len for each in column) for column in zip(*cells, strict=True)]
    gap = GAP
    if console.is_terminal:
        gap = 1 if console.width < NARROW else GAP
        widths = fitted(widths, [column.least for column in columns], console.width - gap * (len(columns) - 1))
    for row in cells:
        line = Text()
        for column, cell, width in zip(columns, row, widths, strict=True):
            if line:
                line.append(" " * gap)
            cell.truncate(width, overflow="ellipsis")
            room = " " * (width - cell.cell_len)
            line.append_text(Text(room).append_text(cell) if column.right else cell.append(room))
        line.rstrip()
        write(console, line)


def fitted(widths: Sequence[int], least: Sequence[int | None], room: int) -> list[int]:
    """Widths that fit the room, as far as they may be shortened: the widest first."""
    fit = list(widths)
    while sum(fit) > room:
        loose = [at for at, bound in enumerate(least) if bound is not None and fit[at] > bound]
        if not loose:
            break
        fit[max(loose, key=lambda at: fit[at])] -= 1
    return fit


def write(console: Console, line: str | Text) -> None:
    """One line, whole: the terminal folds it where it must."""
    console.print(line, soft_wrap=True)


def heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def status_text(status: Status, said: str | None = None) -> Text:
    return Text(said or status.value, style=COLOURS[status])


def counted(number: int, noun: str = "job") -> str:
    """1 job, 1,200 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, width: int) -> str:
    """So many cells of it at most."""
    if cell_len(text) <= width:
        return text
    made = Text(text)
    made.truncate(width, overflow="ellipsis")
    return made.plain


def _spell_out(stream: TextIO) -> None:
    # What is stored may hold letters that this terminal has not.
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="treadle")
