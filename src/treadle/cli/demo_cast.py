"""The dozen: which jobs the demo enqueues, what each is there to show, and how it has to end."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from treadle.app import Handle
from treadle.cli import demo_jobs as jobs
from treadle.watching.bars import MARKS
from treadle.words.job import JobRow
from treadle.words.phrases import printable, span
from treadle.words.status import Status


class Part(NamedTuple):
    label: str
    handle: Handle[Any]
    note: str
    status: Status = Status.COMPLETED
    attempts: int = 1
    fits: Callable[[Any], bool] = lambda _: True
    """Whether the result is as it should be."""

    def wrong(self, row: JobRow) -> str | None:
        """What is not as it should be, of a job that has ended."""
        if row.status != self.status:
            return f"{row.status}, not {self.status}: {printable(row.last_error or 'no reason was given')}"
        if row.attempts != self.attempts:
            return f"{row.attempts} attempts, not {self.attempts}"
        return None if self.fits(row.result) else f"returned {row.result!r}"


class Cast(NamedTuple):
    """One round of them."""

    parts: list[Part]
    scan: Handle[Any]
    backup: Handle[Any]


def enqueue() -> Cast:
    scan = jobs.scan.using(key="disk").enqueue()
    backup = jobs.backup.using(key="disk").enqueue()
    booking = jobs.booking.using(key="train")
    parts = [
        Part("thumbnail cat", jobs.thumbnail.enqueue(picture="cat"), "async, high priority"),
        Part("thumbnail dog", jobs.thumbnail.enqueue(picture="dog"), "async, high priority"),
        Part("import books.csv", jobs.import_rows.enqueue(file="books.csv"), "on a thread, with checkpoints"),
        Part("render film", jobs.render.enqueue(film="film"), "in a process, stages in stages"),
        Part("newsletter", jobs.newsletter.enqueue(), "async, low priority, tells events"),
        Part("mail", jobs.mail.enqueue(to="ada@example.org"), "failed at first, tried again", attempts=2),
        Part(
            "order 7",
            jobs.order.enqueue(number=7),
            "tried again; its card charged once",
            attempts=2,
            fits=lambda charged_by: charged_by == 1,
        ),
        Part("reminder", jobs.reminder.using(delay="3s").enqueue(text="tea"), "three seconds later"),
        Part("booking 12A", booking.enqueue(seat="12A"), "with a key"),
        Part("booking 12B", booking.enqueue(seat="12B"), "after the other of its key"),
        Part("scan", scan, "cancelled while it ran", Status.CANCELLED),
        Part(
            "backup",
            backup,
            "worker killed: went on where it was",
            fits=lambda began_at: isinstance(began_at, int) and began_at > 0,
        ),
    ]
    return Cast(parts, scan, backup)


def summary(told: Iterable[tuple[Part, JobRow]]) -> Table:
    """Per job: outcome, attempts, time, note."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading, width in {"job": 16, "outcome": 11}.items():
        table.add_column(heading, no_wrap=True, min_width=width)
    for heading, width in {"tries": 5, "time": 5}.items():
        table.add_column(heading, no_wrap=True, min_width=width, justify="right")
    table.add_column("note", overflow="ellipsis", no_wrap=True)
    for part, row in told:
        mark, colour = MARKS[row.status]
        wrong = part.wrong(row) if row.status.finished else None
        ended = row.finished_at
        note = part.note if ended else "given back: the next worker goes on"
        table.add_row(
            part.label,
            Text(f"{mark} {row.status}", style=colour),
            str(row.attempts),
            "" if ended is None else span((ended - row.created_at).total_seconds()),
            Text(wrong, style="red") if wrong else Text(note, style="dim"),
        )
    return table
