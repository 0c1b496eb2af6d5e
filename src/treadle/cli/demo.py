"""The demo: a real worker process, a dozen jobs of every kind, and the table while it works."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from treadle.app import Handle
from treadle.cli import demo_jobs as jobs
from treadle.db.embedded import embedded_url
from treadle.db.migrations import connect, migrate
from treadle.words.errors import TreadleError
from treadle.words.job import JobRow
from treadle.words.status import Status

SECONDS = 60

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
        connection.execute(f"drop schema if exists {jobs.app.schema} cascade")
    migrate(url, jobs.app.schema)
    os.environ["TREADLE_DATABASE_URL"] = url
    console.print("A dozen jobs, and a worker process that runs them:\n")
    try:
        handles = enqueue()
        with worker(url) as alive:
            watch(console, handles, alive)
    finally:
        jobs.app.close()
    ended = [handle.status() for handle in handles]
    told = ", ".join(f"{ended.count(status)} {status}" for status in Status if status in ended)
    console.print(f"\n\n{told}.\nAll of it was plain PostgreSQL. README.md has the twenty lines of code.")


def enqueue() -> list[Handle[Any]]:
    handles: list[Handle[Any]] = [
        *(jobs.thumbnail.enqueue(picture=number) for number in (1, 2, 3)),
        *(jobs.import_rows.enqueue(file=name) for name in ("books.csv", "films.csv")),
        jobs.render.enqueue(film="train"),
        *(jobs.mail.enqueue(to=f"{name}@example.org") for name in ("ada", "grace")),
        jobs.thumbnail.using(delay="3s").enqueue(picture=4),
        *(jobs.thumbnail.using(key="album").enqueue(picture=number) for number in (5, 6)),
        jobs.forever.enqueue(),
    ]
    return handles


@contextmanager
def worker(url: str) -> Iterator[Callable[[], None]]:
    """A worker process; what it gives raises if it has died."""
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        command = [sys.executable, "-m", "treadle", "worker", "treadle.cli.demo_jobs:app", "--grace", "1s"]
        process = subprocess.Popen(command, stderr=log, env=os.environ | {"TREADLE_DATABASE_URL": url})

        def alive() -> None:
            if process.poll() is not None:
                raise TreadleError(f"the worker ended: {Path(log.name).read_text()[-2000:]}")

        try:
            yield alive
        finally:
            process.terminate()
            process.wait()


def watch(console: Console, handles: list[Handle[Any]], alive: Callable[[], None]) -> None:
    """Show the jobs until all have ended: live in a terminal, else when something has changed."""
    crashing: list[Handle[Any]] = []
    end, shown = time.monotonic() + SECONDS, ""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while time.monotonic() < end:
            alive()
            rows = [handle.job() for handle in handles]
            left = [row for row in rows if not row.status.finished]
            live.update(table(rows), refresh=console.is_terminal)
            running = sum(row.status == Status.RUNNING for row in rows)
            now = f"{len(rows) - len(left)} of {len(rows)} jobs have ended, {running} running"
            if not console.is_terminal and now != shown:
                console.print(now)
                shown = now
            if not left:
                return
            if not crashing and len(left) <= 4:
                # Late, so that the others are not disturbed: it takes the process of everybody with it.
                crashing.append(jobs.crash.enqueue())
                handles += crashing
            elif crashing and {row.job_type for row in left} == {"forever"}:
                jobs.app.handle(left[0].id).cancel("seen enough")
            time.sleep(0.1)


def table(rows: list[JobRow]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="dim")
    # Wide enough for what the demo shows, so that the columns stay where they are.
    widths = {"type": 11, "status": 9, "progress": 15, "stage": 13, "tries": 5}
    for heading, width in widths.items():
        shown.add_column(heading, no_wrap=True, min_width=width)
    shown.add_column("note", no_wrap=True, overflow="ellipsis")
    for row in rows:
        shown.add_row(
            row.job_type,
            Text(row.status, style=COLOURS[row.status]),
            bar(row.progress),
            Text((row.current_stage or "") if row.status == Status.RUNNING else "", style="dim"),
            f"{row.attempts}/{row.max_attempts}",
            Text(row.last_error or "", style="dim"),
        )
    return shown


def bar(progress: int) -> Text:
    full = progress // 10
    return Text.assemble(("━" * full, "green"), ("─" * (10 - full), "dim"), f" {progress:3}%")
