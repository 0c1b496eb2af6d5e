"""treadle jobs."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import click
from rich.status import Status as StatusLine
from rich.text import Text

from treadle.app.treadle import Treadle
from treadle.cli.commands import INTERRUPTED
from treadle.cli.filters import as_options, filter_from, filters
from treadle.cli.options import as_json, database_url, opened, schema
from treadle.cli.output import Column, counted, print_json, say, screen, show_table, status_text
from treadle.db.queries.listing import estimate_jobs, find_jobs, is_whole_list, may_read_payloads
from treadle.text.masking import masked
from treadle.words.formatting import age, countdown, printable, span
from treadle.words.listing import BLOCKED, JobFilter, JobSummary, Listing
from treadle.words.status import Status

COLUMNS = [Column("ID"), Column("STATUS"), Column("TYPE", 8), Column("AGE", right=True), Column("DETAILS", 8)]
PAGE = 50


@click.command()
@filters
@click.option("--limit", default=PAGE, show_default=True, type=click.IntRange(1, 1000), help="Maximum number of jobs.")
@click.option("--after", metavar="CURSOR", help="Cursor of the next page, as printed after the previous one.")
@as_json
@database_url
@schema
def jobs(limit: int, after: str | None, as_json: bool, database_url: str | None, schema: str, **options: Any) -> None:
    """List jobs, selected by status, type, queue, worker, key, time, text or a value in the payload.

    The newest job comes first. With --status, the job that finished or was claimed last comes first; with --status
    pending, the job that will be claimed next.

    A search goes on until it has found --limit jobs or has examined all. Ctrl-C stops it (exit code 130).

    \b
    treadle jobs --status failed --type import_rows
    treadle jobs --search books.csv
    treadle jobs --status failed --since 2h
    treadle jobs --where 'data.order = "ORD-1999"'
    treadle jobs --status running --json | jq -r .worker_id | sort | uniq -c
    """
    job_filter = filter_from(options)
    with opened(database_url, schema) as app:
        if job_filter.search is not None and not app.database.read(may_read_payloads()):
            say("Searching errors and ids only: this database role may not read payloads.", stderr=True)
        search = Search(app, job_filter, after, limit)
        for each in search:
            if as_json:
                print_json(each)
    console = screen()
    if search.found and not as_json:
        now = datetime.now(UTC)
        show_table(console, COLUMNS, [row(each, now) for each in search.found])
    elif not search.found and search.next is None:
        say("No more matching jobs." if after else "No matching jobs.", stderr=True)
    if search.interrupted:
        found = counted(len(search.found), "matching job")
        say(f"Stopped. {search.covered()}; found {found}.", stderr=True)
    if search.next is not None:
        size = [f"--limit {limit}"] if limit != PAGE else []
        command = " ".join(
            filter(None, ["treadle jobs", as_options(job_filter), *size, "--after", shlex.quote(search.next)])
        )
        following = "To continue" if search.interrupted else "Next page"
        to_stderr = search.interrupted or as_json or not console.is_terminal
        say(f"{following}: {printable(command)}", stderr=to_stderr)
        if job_filter.is_search and not search.interrupted:
            say(f"{search.covered()}.", stderr=True)
    if search.interrupted:
        sys.exit(INTERRUPTED)


class Search:
    """The jobs of one page. A query examines a limited number of jobs, so a search runs one after the other until the
    page is full or all jobs were examined, with a line of progress on a terminal. Ctrl-C ends it, and what was found is
    kept."""

    def __init__(self, app: Treadle, job_filter: JobFilter, after: str | None, limit: int) -> None:
        self.found: list[JobSummary] = []
        self.next = after
        self.interrupted = False
        self._app, self._filter, self._limit = app, job_filter, limit
        self._searched = 0
        self._total: int | None = None
        self._reached: datetime | None = None

    def __iter__(self) -> Iterator[JobSummary]:
        console = screen(stderr=True)
        shown = console.is_terminal and self._filter.is_search
        with console.status("Searching…") if shown else nullcontext() as status:
            try:
                for page in self._pages():
                    self.found += page.jobs
                    yield from page.jobs
                    if isinstance(status, StatusLine):
                        status.update(f"{self.covered()}; found {len(self.found):,}. Ctrl-C stops.")
            except KeyboardInterrupt:
                self.interrupted = True

    def _pages(self) -> Iterator[Listing]:
        while True:
            wanted = self._limit - len(self.found)
            page: Listing = self._app.database.read(find_jobs(self._filter, self.next, wanted))
            self._searched += page.searched
            self._reached, self.next = page.reached, page.next
            if (
                page.next is not None
                and self._searched == page.searched
                and self._filter.is_search
                and is_whole_list(self._filter)
            ):
                self._total = self._app.database.read(estimate_jobs(self._filter.status))
            yield page
            if page.next is None or len(self.found) >= self._limit:
                return

    def covered(self) -> str:
        """Searched 48,000 of about 200,000 jobs, back to 12 Nov 14:03."""
        number, total, reached = self._searched, self._total, self._reached
        about = f" of about {total:,}" if total is not None and total > number else ""
        back = "" if reached is None else f", back to {reached.astimezone():%d %b %H:%M}"
        return f"Searched {number:,}{about} jobs{back}"


def row(job: JobSummary, now: datetime) -> list[str | Text]:
    job = masked(job)
    return [
        str(job.id),
        Text(BLOCKED, style="yellow") if job.blocked and job.status == Status.PENDING else status_text(job.status),
        printable(job.job_type),
        age((now - job.created_at).total_seconds()),
        details(job, now),
    ]


def details(job: JobSummary, now: datetime) -> str:
    """Progress, duration, error or due time: whatever matters for its status."""
    error = printable(job.error) if job.error else ""
    match job.status:
        case Status.RUNNING:
            return f"{job.progress}%" + (f" {printable(job.stage)}" if job.stage else "")
        case Status.COMPLETED if job.started_at and job.finished_at:
            return f"took {span(max(0.0, (job.finished_at - job.started_at).total_seconds()))}"
        case Status.FAILED:
            return f"{job.attempts}/{job.max_attempts}: {error}"
        case Status.CANCELLED:
            return error
        case Status.PENDING:
            due = (job.run_at - now).total_seconds()
            when = f"due in {countdown(due)}" if due > 0 else ""
            # The error of the previous attempt.
            return ", ".join(filter(None, [when, f"{job.attempts}/{job.max_attempts}: {error}" if error else ""]))
    return ""
