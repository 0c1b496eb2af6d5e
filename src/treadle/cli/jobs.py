"""treadle jobs."""

import shlex
from datetime import UTC, datetime
from typing import Any

import click
from rich.text import Text

from treadle.app import Treadle
from treadle.cli.filters import BLOCKED, as_options, filter_from, filters
from treadle.cli.options import as_json, database_url, opened, schema
from treadle.cli.output import Column, print_json, say, screen, show_table, status_text
from treadle.db.queries.listing import find_jobs
from treadle.words.formatting import age, countdown, printable, span
from treadle.words.listing import JobFilter, JobSummary, Listing
from treadle.words.masking import masked
from treadle.words.status import Status

COLUMNS = [Column("ID"), Column("STATUS"), Column("TYPE", 8), Column("AGE", right=True), Column("DETAILS", 8)]
# A query of a search reads a limited number of jobs. After this many queries the command stops, and prints how to
# continue.
QUERIES = 10
PAGE = 50


@click.command()
@filters
@click.option("--limit", default=PAGE, show_default=True, type=click.IntRange(1, 1000), help="Maximum number of jobs.")
@click.option("--after", metavar="CURSOR", help="Cursor of the next page, as printed after the previous one.")
@as_json
@database_url
@schema
def jobs(limit: int, after: str | None, as_json: bool, database_url: str | None, schema: str, **options: Any) -> None:
    """List jobs, selected by status, type, queue, worker, key or text.

    The newest job comes first. With --status, the job that finished or was claimed last comes first; with --status
    pending, the job that will be claimed next.

    \b
    treadle jobs --status failed --type import_rows
    treadle jobs --search books.csv
    treadle jobs --status running --json | jq -r .worker_id | sort | uniq -c
    """
    job_filter = filter_from(options)
    with opened(database_url, schema) as app:
        page = find(app, job_filter, after, limit)
    console = screen()
    if as_json:
        for each in page.jobs:
            print_json(each)
    elif page.jobs:
        now = datetime.now(UTC)
        show_table(console, COLUMNS, [row(each, now) for each in page.jobs])
    elif page.next is None:
        say("No more matching jobs." if after else "No matching jobs.", stderr=True)
    if page.next is not None:
        size = [f"--limit {limit}"] if limit != PAGE else []
        command = " ".join(
            filter(None, ["treadle jobs", as_options(job_filter), *size, "--after", shlex.quote(page.next)])
        )
        searched = f"Searched {page.examined:,} jobs. " if page.examined else ""
        say(f"{searched}Next page: {printable(command)}", stderr=as_json or not console.is_terminal)


def find(app: Treadle, job_filter: JobFilter, after: str | None, limit: int) -> Listing:
    """A page of jobs. A search that finds too few in `QUERIES` queries returns what it found."""
    found: list[JobSummary] = []
    examined = 0
    for _ in range(QUERIES):
        page = app.database.read(find_jobs(job_filter, after, limit - len(found)))
        found += page.jobs
        examined += page.examined or 0
        after = page.next
        if after is None or len(found) >= limit:
            return Listing(found, after)
    return Listing(found, after, examined)


def row(job: JobSummary, now: datetime) -> list[str | Text]:
    job = masked(job)
    return [
        str(job.id),
        Text(BLOCKED, style="yellow") if job.held and job.status == Status.PENDING else status_text(job.status),
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
