"""treadle demo: a real worker runs twelve jobs of every kind, with live progress bars.

On a terminal it starts a new round until Ctrl-C. Without one it runs a single round, and its exit code says whether
every job finished as expected.
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
from treadle.cli.demo_round import Round, enqueue_round, summary
from treadle.cli.programs import Program, has_dashboard
from treadle.db.embedded import embedded_url
from treadle.db.migrations import migrate
from treadle.db.setup_connection import connect
from treadle.watching.bars import Bars
from treadle.watching.lines import Lines
from treadle.watching.snapshots import snapshots
from treadle.words.errors import TreadleError
from treadle.words.snapshot import Snapshot
from treadle.words.status import Status

# A round takes 15 seconds, and longer on a busy machine.
SECONDS = 180
# Between two rounds, to read the results.
PAUSE_SECONDS = 4.0
# The progress of the backup in percent at which its worker process is killed.
KILL_AT = 40
# What the dashboard prints when it is ready.
ADDRESS = r"http://\S+"


@click.command()
@click.option("--database-url", metavar="URL", help="Database to use. [default: the embedded server]")
def demo(database_url: str | None) -> None:
    """Run a demonstration: a worker and twelve jobs with live progress bars.

    It runs until Ctrl-C. Without a terminal it runs one round, and the exit code is 1 if a job did not finish as
    expected. It uses the schema treadle_demo, which is dropped and created again each time.

    \b
    treadle demo
    """
    sys.exit(run_demo(Console(), database_url))


class LoggedProgram(Program):
    """A program whose log can be waited for."""

    def __init__(self, arguments: list[str], url: str, log: Path) -> None:
        super().__init__(arguments, {"TREADLE_DATABASE_URL": url}, log, settings=False)
        self._name = arguments[0]
        self._output = log
        self.start()

    def wait_for(self, pattern: str) -> str:
        """Wait until its log matches the pattern, and return the match."""
        while not (found := re.search(pattern, self._output.read_text())):
            self.check()
            time.sleep(0.02)
        return found.group()

    def check(self) -> None:
        """Raise if it has exited."""
        if self.ended:
            raise TreadleError(f"the {self._name} exited: {self._output.read_text()[-2000:]}")

    def kill_process(self) -> int | None:
        """Kill the process that runs the jobs, not its supervisor, as the kernel does when memory runs out. Returns its
        pid."""
        for each in psutil.Process(self.pid).children():
            each.kill()
            return int(each.pid)
        return None


class FaultInjector:
    """Cancels the scan and kills the worker process of the backup, each once."""

    def __init__(self, jobs: Round, worker: LoggedProgram) -> None:
        self._round = jobs
        self._worker = worker
        self._cancelled = self._killed = False

    def update(self, snapshot: Snapshot) -> None:
        self._worker.check()
        by_id = {each.id: each for each in snapshot.jobs}
        unfinished = {job_id for job_id, each in by_id.items() if not each.status.finished}
        scan, backup = self._round.scan, self._round.backup
        if not self._cancelled and unfinished <= {scan.id, backup.id}:
            self._cancelled = True
            scan.cancel("no longer needed")
        # Only when it runs alone: the kill would interrupt other jobs too.
        if not self._killed and by_id[backup.id].progress.percent >= KILL_AT and scan.id not in unfinished:
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
    rounds: list[Round] = []
    console.print("A worker runs twelve jobs." + (" Press Ctrl-C to stop.\n" if live else "\n"))
    with running(url, live and has_dashboard()) as (worker, dashboard):
        try:
            with _signals(), screen:
                worker.wait_for("worker started")
                if dashboard is not None:
                    console.print(f"Dashboard: {dashboard.wait_for(ADDRESS)}\n", highlight=False)
                while live or not rounds:
                    rounds.append(enqueue_round())
                    labels |= {job.handle.id: job.label for job in rounds[-1].jobs}
                    _show_round(screen, rounds[-1], worker, None if live else time.monotonic() + SECONDS)
                    if live:
                        time.sleep(PAUSE_SECONDS / jobs.SPEED)
        except KeyboardInterrupt:
            pass
    try:
        return _summarize(console, rounds)
    finally:
        jobs.app.close()


def _show_round(screen: Bars | Lines, round_: Round, worker: LoggedProgram, deadline: float | None) -> None:
    """Show a round until all of its jobs have finished."""
    faults = FaultInjector(round_, worker)
    order = {job.handle.id: position for position, job in enumerate(round_.jobs)}
    for snapshot in snapshots(jobs.app.database, jobs.app.watch, list(order), screen.unavailable):
        screen.show(snapshot._replace(jobs=sorted(snapshot.jobs, key=lambda each: order[each.id])))
        faults.update(snapshot)
        if deadline is not None and time.monotonic() > deadline:
            return


def _summarize(console: Console, rounds: list[Round]) -> int:
    """Print the jobs of the last round and the totals of all rounds. Returns the exit code."""
    results = [[(job, job.handle.job()) for job in each.jobs] for each in rounds]
    if not results:
        return 0
    console.print(summary(results[-1]))
    everything = [pair for each in results for pair in each]
    counts = Counter(row.status for _, row in everything)
    prefix = f"{len(rounds)} rounds: " if len(rounds) > 1 else ""
    console.print(
        f"\n{prefix}{', '.join(f'{counts[status]} {status}' for status in Status if counts[status])}.\n"
        "The only server was PostgreSQL. To write your own jobs, see README.md.",
        highlight=False,
    )
    unexpected = any(job.problem(row) for job, row in everything if row.status.finished)
    # On a terminal, the user ends the demo in the middle of a round.
    complete = console.is_terminal or all(row.status.finished for _, row in everything)
    return int(unexpected or not complete)


@contextmanager
def running(url: str, with_dashboard: bool) -> Iterator[tuple[LoggedProgram, LoggedProgram | None]]:
    """A worker, and optionally a dashboard."""
    with tempfile.TemporaryDirectory(prefix="treadle-demo-") as folder, ExitStack() as programs:

        def start(*arguments: str) -> LoggedProgram:
            program = LoggedProgram(list(arguments), url, Path(folder) / arguments[0])
            programs.callback(program.stop)
            return program

        worker = start("worker", "treadle.cli.demo_jobs:app", "--grace", "1s")
        dashboard = start("dashboard", "--schema", jobs.app.schema, "--port", "0") if with_dashboard else None
        try:
            yield worker, dashboard
        finally:
            # A second Ctrl-C would leave the programs running.
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and a closed terminal stop the demo as Ctrl-C does, so that no worker is left running."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    yield
