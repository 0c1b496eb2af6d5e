"""The demo: what a queue does, step by step, with the table after each."""

import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle.db.embedded import embedded_url
from treadle.db.migrations import connect, migrate
from treadle.queue import JobQueue
from treadle.words.priority import Priority
from treadle.words.status import Status

SCHEMA = "treadle_demo"

COLOURS = {
    Status.PENDING: "yellow",
    Status.CLAIMED: "cyan",
    Status.RUNNING: "blue",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "magenta",
}


def run_demo(console: Console, url: str | None) -> None:
    url = url or embedded_url()
    with connect(url) as connection:
        connection.execute(f"drop schema if exists {SCHEMA} cascade")
    migrate(url, SCHEMA)
    with JobQueue(url, "ann", schema=SCHEMA) as ann, JobQueue(url, "bob", schema=SCHEMA) as bob:
        for title in steps(ann, bob):
            show_step(console, title, ann)
    console.print("\nAll of this was plain PostgreSQL. README.md has the twenty lines of code.")


def steps(ann: JobQueue, bob: JobQueue) -> Iterator[str]:
    """Two workers and six jobs. Yields a sentence after each step, when the table is worth a look."""
    everything = ["thumbnail", "import", "mail"]
    ann.enqueue("mail", {"to": "ada@example.org"}, priority=Priority.BACKFILL)
    ann.enqueue("import", {"file": "books.csv"}, max_attempts=2)
    ann.enqueue("thumbnail", {"picture": 1}, priority=Priority.EXPLICIT)
    ann.enqueue("thumbnail", {"picture": 2})
    ann.enqueue("mail", {"to": "grace@example.org"}, priority=Priority.BACKFILL)
    ann.enqueue("import", {"file": "films.csv"}, priority=Priority.EXPLICIT)
    yield "Six jobs were enqueued, with three priorities."

    first, second, third, fourth = ann.claim(everything, batch_size=4)
    yield "Ann claimed a batch of four: highest priority first, then oldest."

    ann.start(first)
    ann.progress(first, 30, stage="reading")
    ann.progress(first, 60, stage="resizing")
    yield "Ann works on the first, and says how far it is."

    ann.complete_many([first, second])
    yield "Two are completed."

    ann.fail(third, "disk full", delay=0)
    yield "One failed: pending again, with its error. (By default it would wait a second.)"

    while ann.get(third).status == Status.PENDING:
        (third,) = ann.claim([third.job_type], batch_size=1)
        ann.fail(third, "disk full", delay=0)
    yield "It failed until it was out of attempts."

    ann.release(fourth)
    (fourth,) = bob.claim([fourth.job_type], batch_size=1)
    bob.start(fourth)
    yield "Bob works on one, and is about to vanish."

    time.sleep(1.1)
    count = ann.recover_stale_jobs("1s")
    yield f"Bob was silent for a second: {count} job was recovered, for whoever comes next."

    while batch := ann.claim(everything):
        ann.complete_many(batch)
    yield "The rest is done."


def show_step(console: Console, title: str, queue: JobQueue) -> None:
    console.print(f"\n[bold]{title}[/]")
    show_jobs(console, queue)


def show_jobs(console: Console, queue: JobQueue) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    # Wide enough for what the demo shows, so that the columns stay where they are from step to step.
    widths = {"job": 3, "type": 9, "priority": 8, "status": 9, "progress": 15, "tries": 5, "worker": 6, "note": 12}
    for heading, width in widths.items():
        table.add_column(heading, no_wrap=True, min_width=width)
    for number, job in enumerate(reversed(queue.list().jobs), start=1):
        table.add_row(
            f"#{number}",
            job.job_type,
            str(job.priority),
            Text(job.status, style=COLOURS[job.status]),
            _bar(job.progress),
            f"{job.attempts}/{job.max_attempts}",
            job.worker_id or "",
            job.last_error or (job.current_stage if job.status == Status.RUNNING else "") or "",
        )
    console.print(table)


def _bar(progress: int) -> Text:
    full = progress // 10
    return Text.assemble(("━" * full, "green"), ("─" * (10 - full), "dim"), f" {progress:3}%")
