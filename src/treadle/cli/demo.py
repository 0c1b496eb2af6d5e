"""The demo: what a queue does, step by step, with the table after each."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle.db.embedded import embedded_url
from treadle.db.migrations import connect, migrate
from treadle.queue import JobQueue
from treadle.words.job import JobRow
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
    with JobQueue(url, "ann", schema=SCHEMA) as queue, JobQueue(url, "bob", schema=SCHEMA) as lost:

        def step(title: str) -> None:
            console.print(f"\n[bold]{title}[/]")
            show_jobs(console, queue)

        _enqueue(queue)
        step("Six jobs were enqueued, with three priorities.")
        first = queue.claim(["thumbnail", "import", "mail"], batch_size=4)
        step("Ann claimed a batch of four: highest priority first, then oldest.")
        _work(
            queue,
            first[0],
            ["reading", "resizing", "writing"],
            lambda: step("Ann works on the first, and says how far it is."),
        )
        queue.complete_many(first[:2])
        step("Two are completed.")
        failing = first[2]
        queue.fail(failing, "disk full", delay=0)
        step("One failed: pending again, with its error. (By default it would wait a second.)")
        while queue.get(failing).status == Status.PENDING:
            (failing,) = queue.claim([failing.job_type], batch_size=1)
            queue.fail(failing, "disk full", delay=0)
        step("It failed until it was out of attempts.")
        queue.release(first[3])
        (held,) = lost.claim([first[3].job_type], batch_size=1)
        lost.start(held)
        step("Bob works on one, and is about to vanish.")
        time.sleep(1.1)
        count = queue.recover_stale_jobs("1s")
        step(f"Bob was silent for a second: {count} job was recovered, for whoever comes next.")
        while batch := queue.claim(["thumbnail", "import", "mail"], batch_size=10):
            queue.complete_many(batch)
        step("The rest is done.")
    console.print("\nAll of this was plain PostgreSQL. README.md has the twenty lines of code.")


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


def _enqueue(queue: JobQueue) -> None:
    queue.enqueue("mail", {"to": "ada@example.org"}, priority=Priority.BACKFILL)
    queue.enqueue("import", {"file": "books.csv"}, max_attempts=2)
    queue.enqueue("thumbnail", {"picture": 1}, priority=Priority.EXPLICIT)
    queue.enqueue("thumbnail", {"picture": 2})
    queue.enqueue("mail", {"to": "grace@example.org"}, priority=Priority.BACKFILL)
    queue.enqueue("import", {"file": "films.csv"}, priority=Priority.EXPLICIT)


def _work(queue: JobQueue, job: JobRow, stages: list[str], show: Callable[[], None]) -> None:
    queue.start(job)
    for nth, stage in enumerate(stages, start=1):
        queue.progress(job, 30 * nth, stage=stage)
        if nth == 2:
            show()
