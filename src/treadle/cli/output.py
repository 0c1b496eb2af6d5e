"""What commands print: tables and colour on a terminal, plain text in a pipe, JSON for programs.

Text from the database must pass `printable` before it is printed. No output is interpreted as markup.
"""

import codecs
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, TextIO

import click
from rich.console import Console
from rich.text import Text

from treadle.text.masking import masked
from treadle.words.status import Status

COLOURS = {
    Status.PENDING: "yellow",
    Status.CLAIMED: "cyan",
    Status.RUNNING: "blue",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "magenta",
}
# Replacements for characters that the encoding of a terminal lacks.
ASCII_FALLBACKS = {"…": "~", "≈": "~", "·": ".", "▸": ">", "✓": "+", "✗": "x", "•": "*", "—": "-", "→": "->"}
# Of the states of jobs.
ASCII_FALLBACKS |= {"○": "o", "◌": ".", "◔": ">", "▶": ">", "⊘": "-", "∅": "0", "↷": "~", "←": "<-"}
GAP = 2
NARROW = 100


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII_FALLBACKS.get(each, "?") for each in error.object[error.start : error.end]), error.end


codecs.register_error("treadle", _replace_unencodable)


def screen(*, stderr: bool = False) -> Console:
    """A console on the current standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    _tolerate_unencodable(stream)
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def say(text: str, *, stderr: bool = False) -> None:
    """Print a line. It is not wrapped: the terminal does that, and copied text stays in one line."""
    stream = sys.stderr if stderr else sys.stdout
    _tolerate_unencodable(stream)
    click.echo(text, file=stream)


def print_json(value: object, *, show_secrets: bool = False) -> None:
    """One object on one line, with secrets masked. In ASCII, which every terminal can show, and which contains no
    control characters."""
    click.echo(json.dumps(jsonable(value if show_secrets else masked(value)), default=str))


def jsonable(value: Any) -> Any:
    """The value with types that JSON has; a NamedTuple becomes an object."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return jsonable(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value


class Column(NamedTuple):
    name: str
    min_width: int | None = None
    """On a narrow terminal the column can be truncated to this width; None: never."""
    right: bool = False


def show_table(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]) -> None:
    """Aligned columns without borders. In a pipe nothing is truncated."""
    cells = [[Text(column.name, style="dim") for column in columns]]
    cells += [[each if isinstance(each, Text) else Text(each) for each in row] for row in rows]
    widths = [max(each.cell_len for each in column) for column in zip(*cells, strict=True)]
    gap = GAP
    if console.is_terminal:
        gap = 1 if console.width < NARROW else GAP
        widths = fitted(widths, [column.min_width for column in columns], console.width - gap * (len(columns) - 1))
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


def fitted(widths: Sequence[int], minimums: Sequence[int | None], available: int) -> list[int]:
    """Column widths reduced to the available width, the widest first, as far as their minimums allow."""
    fit = list(widths)
    while sum(fit) > available:
        reducible = [index for index, minimum in enumerate(minimums) if minimum is not None and fit[index] > minimum]
        if not reducible:
            break
        fit[max(reducible, key=lambda index: fit[index])] -= 1
    return fit


def write(console: Console, line: str | Text) -> None:
    """One line, which the terminal wraps if it is too long."""
    console.print(line, soft_wrap=True)


def heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def status_text(status: Status) -> Text:
    return Text(status.value, style=COLOURS[status])


def counted(number: int, noun: str = "job", plural: str | None = None) -> str:
    """1 job, 1,200 jobs."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _tolerate_unencodable(stream: TextIO) -> None:
    # Stored text may contain characters that the encoding of the terminal lacks.
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="treadle")
