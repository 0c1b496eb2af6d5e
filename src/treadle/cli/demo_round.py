"""A round of the demo: the twelve jobs it enqueues, what each one demonstrates, and its expected outcome."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from treadle.cli import demo_jobs as jobs
from treadle.jobs.handle import Handle
from treadle.watching.bars import MARKS
from treadle.words.formatting import printable, span
from treadle.words.job import JobRow
from treadle.words.status import Status


class DemoJob(NamedTuple):
    label: str
    handle: Handle[Any]
    note: str
    status: Status = Status.COMPLETED
    attempts: int = 1
    is_expected: Callable[[Any], bool] = lambda _: True
    """Checks the result."""

    def problem(self, row: JobRow) -> str | None:
        """How a finished job differs from what was expected."""
        if row.status != self.status:
            return f"expected {self.status}, got {row.status}: {printable(row.last_error or 'no error recorded')}"
        if row.attempts != self.attempts:
            return f"expected {self.attempts} attempts, got {row.attempts}"
        return None if self.is_expected(row.result) else f"unexpected result: {row.result!r}"


class Round(NamedTuple):
    jobs: list[DemoJob]
    scan: Handle[Any]
    backup: Handle[Any]


def enqueue_round() -> Round:
    scan = jobs.scan.using(key="disk").enqueue()
    backup = jobs.backup.using(key="disk").enqueue()
    booking = jobs.booking.using(key="train")
    enqueued = [
        DemoJob("thumbnail cat", jobs.thumbnail.enqueue(picture="cat"), "async, high priority"),
        DemoJob("thumbnail dog", jobs.thumbnail.enqueue(picture="dog"), "async, high priority"),
        DemoJob("import books.csv", jobs.import_rows.enqueue(file="books.csv"), "on a thread, with checkpoints"),
        DemoJob("render film", jobs.render.enqueue(film="film"), "in a child process, with nested stages"),
        DemoJob("newsletter", jobs.newsletter.enqueue(), "async, low priority, publishes events"),
        DemoJob("mail", jobs.mail.enqueue(to="ada@example.org"), "failed once, then retried", attempts=2),
        DemoJob(
            "order 7",
            jobs.order.enqueue(number=7),
            "retried; the card was charged once",
            attempts=2,
            is_expected=lambda charged_by: charged_by == 1,
        ),
        DemoJob("reminder", jobs.reminder.using(delay=3 / jobs.SPEED).enqueue(text="tea"), "scheduled 3 s ahead"),
        DemoJob("booking 12A", booking.enqueue(seat="12A"), "with a key"),
        DemoJob("booking 12B", booking.enqueue(seat="12B"), "waited for the other job with its key"),
        DemoJob("scan", scan, "cancelled while running", Status.CANCELLED),
        DemoJob(
            "backup",
            backup,
            "resumed after its worker was killed",
            is_expected=lambda began_at: isinstance(began_at, int) and began_at > 0,
        ),
    ]
    return Round(enqueued, scan, backup)


def summary(results: Iterable[tuple[DemoJob, JobRow]]) -> Table:
    """A table of the jobs with outcome, attempts, time and note."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading, width in {"job": 16, "outcome": 11}.items():
        table.add_column(heading, no_wrap=True, min_width=width)
    for heading, width in {"attempts": 8, "time": 5}.items():
        table.add_column(heading, no_wrap=True, min_width=width, justify="right")
    table.add_column("note", overflow="ellipsis", no_wrap=True)
    for job, row in results:
        mark, colour = MARKS[row.status]
        problem = job.problem(row) if row.status.finished else None
        finished = row.finished_at
        note = job.note if finished else "released, to be resumed by the next worker"
        table.add_row(
            job.label,
            Text(f"{mark} {row.status}", style=colour),
            str(row.attempts),
            "" if finished is None else span((finished - row.created_at).total_seconds()),
            Text(problem, style="red") if problem else Text(note, style="dim"),
        )
    return table
