"""The demo: a real worker, a dozen jobs of every kind, and bars of them while they run.

With a terminal it goes on, round after round, until Ctrl-C. Without, it is one round, and its exit code says whether
everything ended as it should.
"""

import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import psutil
from rich.console import Console

from treadle.cli import demo_jobs as jobs
from treadle.cli.demo_cast import Cast, enqueue, summary
from treadle.cli.programs import Program, has_dashboard
from treadle.db.embedded import embedded_url
from treadle.db.migrations import connect, migrate
from treadle.watching.bars import Bars
from treadle.watching.lines import Lines
from treadle.watching.snapshots import snapshots
from treadle.words.errors import TreadleError
from treadle.words.snapshot import Snapshot
from treadle.words.status import Status

# A round takes 15; on a busy machine it takes its time.
SECONDS = 180
# Between two rounds, to look at what came of it.
LINGER_SECONDS = 4.0
# How far the backup is when its worker process is killed, in percent.
KILL_AT = 40
# Where the dashboard says that it is.
ADDRESS = r"http://\S+"


@click.command()
@click.option("--database-url", metavar="URL", help="The database. [default: the embedded server]")
def demo(database_url: str | None) -> None:
    """Watch the queue work: a worker and a dozen jobs of every kind, with live bars, until Ctrl-C.

    Without a terminal it is one round, and ends with 1 if something did not go as it should. In a schema of its own,
    treadle_demo, which is made anew each time.

    \b
    treadle demo
    """
    sys.exit(run_demo(Console(), database_url))


class Actor(Program):
    """A program of the demo: what it says can be waited for."""

    def __init__(self, arguments: list[str], url: str, log: Path) -> None:
        super().__init__(arguments, {"TREADLE_DATABASE_URL": url}, log)
        self._name = arguments[0]
        self._said = log
        self.start()

    def said(self, pattern: str) -> str:
        """Wait until it says this: a second or two, which are not the jobs' time."""
        while not (found := re.search(pattern, self._said.read_text())):
            self.check()
            time.sleep(0.02)
        return found.group()

    def check(self) -> None:
        """Raise if it has ended."""
        if self.ended:
            raise TreadleError(f"the {self._name} ended: {self._said.read_text()[-2000:]}")

    def kill_process(self) -> int | None:
        """As if it ran out of memory: not the supervisor, the process that runs the jobs. Which one it was."""
        for each in psutil.Process(self.pid).children():
            each.kill()
            return int(each.pid)
        return None


class Director:
    """Cancels and kills when it is time."""

    def __init__(self, cast: Cast, worker: Actor) -> None:
        self._cast = cast
        self._worker = worker
        self._cancelled = self._killed = False

    def look(self, sight: Snapshot) -> None:
        self._worker.check()
        seen = {each.id: each for each in sight.jobs}
        left = {job_id for job_id, each in seen.items() if not each.status.finished}
        scan, backup = self._cast.scan, self._cast.backup
        if not self._cancelled and left <= {scan.id, backup.id}:
            self._cancelled = True
            scan.cancel("seen enough")
        # By then it runs alone: whoever ran beside it would have to begin again.
        if not self._killed and seen[backup.id].progress.percent >= KILL_AT and scan.id not in left:
            killed = self._worker.kill_process()
            if killed is not None:
                self._killed = True
                jobs.app.queue.event(backup.id, "worker killed", signal=9, process=killed)


def run_demo(console: Console, url: str | None) -> int:
    """Returns the exit code."""
    url = url or embedded_url()
    with connect(url) as connection:
        connection.execute(f"drop schema if exists {jobs.app.schema} cascade")
    migrate(url, jobs.app.schema)
    os.environ["TREADLE_DATABASE_URL"] = url
    live = console.is_terminal and not console.is_dumb_terminal
    labels: dict[Any, str] = {}
    screen = Bars(console, labels, transient=True) if live else Lines(console, labels)
    casts: list[Cast] = []
    console.print("A dozen jobs, and a worker that runs them" + (". Ctrl-C ends it.\n" if live else ":\n"))
    with running(url, live and has_dashboard()) as (worker, page):
        try:
            with _signals(), screen:
                worker.said("worker started")
                if page is not None:
                    console.print(f"The dashboard: {page.said(ADDRESS)}\n", highlight=False)
                while live or not casts:
                    casts.append(enqueue())
                    labels |= {part.handle.id: part.label for part in casts[-1].parts}
                    _play(screen, casts[-1], worker, None if live else time.monotonic() + SECONDS)
                    if live:
                        time.sleep(LINGER_SECONDS)
        except KeyboardInterrupt:
            pass
    try:
        return _tell(console, casts)
    finally:
        jobs.app.close()


def _play(screen: Bars | Lines, cast: Cast, worker: Actor, end: float | None) -> None:
    """Show a round until all of its jobs have ended."""
    director = Director(cast, worker)
    for sight in snapshots(
        jobs.app.database, jobs.app.watch, [part.handle.id for part in cast.parts], screen.unavailable
    ):
        order = {part.handle.id: place for place, part in enumerate(cast.parts)}
        screen.show(sight._replace(jobs=sorted(sight.jobs, key=lambda each: order[each.id])))
        director.look(sight)
        if end is not None and time.monotonic() > end:
            return


def _tell(console: Console, casts: list[Cast]) -> int:
    """The last round job by job, all of them in numbers. The exit code."""
    told = [[(part, part.handle.job()) for part in cast.parts] for cast in casts]
    if not told:
        return 0
    console.print(summary(told[-1]))
    everything = [pair for each in told for pair in each]
    counted = Counter(row.status for _, row in everything)
    rounds = f"{len(casts)} rounds: " if len(casts) > 1 else ""
    console.print(
        f"\n{rounds}{', '.join(f'{counted[status]} {status}' for status in Status if counted[status])}.\n"
        "All of it was plain PostgreSQL. README.md has the twenty lines of code.",
        highlight=False,
    )
    wrong = any(part.wrong(row) for part, row in everything if row.status.finished)
    stopped = console.is_terminal
    return int(wrong or not (stopped or all(row.status.finished for _, row in everything)))


@contextmanager
def running(url: str, with_page: bool) -> Iterator[tuple[Actor, Actor | None]]:
    """A worker, and if somebody may look at it, the page."""
    with tempfile.TemporaryDirectory(prefix="treadle-demo-") as folder, ExitStack() as programs:

        def start(*arguments: str) -> Actor:
            program = Actor(list(arguments), url, Path(folder) / arguments[0])
            programs.callback(program.stop)
            return program

        worker = start("worker", "treadle.cli.demo_jobs:app", "--grace", "1s")
        page = start("dashboard", "--schema", jobs.app.schema, "--port", "0") if with_page else None
        try:
            yield worker, page
        finally:
            # Whoever presses Ctrl-C again would leave them behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _signals() -> Iterator[None]:
    """A closed terminal and SIGTERM end it as Ctrl-C does: the worker must not stay behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    yield
