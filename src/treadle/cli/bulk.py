"""Changes of jobs that are selected by filters: a preview, a confirmation, then chunk by chunk."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from treadle.app.treadle import Treadle
from treadle.cli.filters import as_options
from treadle.cli.jobs import COLUMNS, row
from treadle.cli.output import counted, print_json, say, screen, show_table
from treadle.cli.wording import imperative, past
from treadle.db.queries.listing import find_jobs
from treadle.db.queries.operations import CHUNK
from treadle.operations import bulk
from treadle.operations.bulk import Counts
from treadle.words.changes import Action, Change
from treadle.words.formatting import printable
from treadle.words.listing import LATER, JobFilter, JobSummary
from treadle.words.overview import Total

# The preview shows the first few jobs, and counts the most frequent types in a sample.
FIRST = 5
SAMPLE = 500
TYPES = 8


def change_by_filter(
    app: Treadle, change: Change, job_filter: JobFilter, *, yes: bool, as_json: bool, dry_run: bool
) -> None:
    """Exits with 1 if no job was changed."""
    # Created first because it validates its arguments, which must fail before the jobs are counted.
    running = bulk.Change(app.database, job_filter, change.action, change.actor, change.reason, change.priority)
    total, seen = bulk.count_to_confirm(app.database, job_filter, change.action)
    if not as_json:
        preview(app, change, job_filter, total)
    if dry_run:
        if as_json:
            print_json({"action": change.action, "found": total.jobs, "exact": total.exact, "done": 0})
        return
    if not total.jobs and total.exact:
        if as_json:
            print_json({"action": change.action, **Counts()._asdict()})
        sys.exit(1)
    if not yes:
        confirm(change, job_filter, total)
        running.confirmed = seen
    counts = carry_out(running, change, total, job_filter)
    if as_json:
        print_json({"action": change.action, **counts._asdict()})
    else:
        say(f"{summary(counts, change)}.")
    if not counts.done:
        sys.exit(1)


def preview(app: Treadle, change: Change, job_filter: JobFilter, total: Total) -> None:
    """The number of jobs, their types and the first few, on standard error: standard output is for the result."""
    console = screen(stderr=True)
    if not total.jobs and total.exact:
        say("No matching jobs.", stderr=True)
        return
    some = sample(app, change, job_filter)
    say(f"This would {imperative(change, number_of_jobs(total))}.", stderr=True)
    types = Counter(printable(each.job_type) for each in some).most_common(TYPES + 1)
    if len(types) > 1:
        complete = total.exact and total.jobs <= len(some)
        counts = ", ".join(f"{job_type} {number:,}" for job_type, number in types[:TYPES])
        others = ", …" if len(types) > TYPES else ""
        say(f"{'By type' if complete else f'First {len(some):,} by type'}: {counts}{others}", stderr=True)
    now = datetime.now(UTC)
    show_table(console, COLUMNS, [row(each, now) for each in some[:FIRST]])
    if total.jobs > FIRST:
        say("…", stderr=True)


def sample(app: Treadle, change: Change, job_filter: JobFilter) -> list[JobSummary]:
    """The first of the jobs, in the order in which they will be changed."""
    some: list[JobSummary] = []
    for status in bulk.lists(change.action, job_filter):
        if len(some) < SAMPLE:
            page = app.database.read(find_jobs(job_filter._replace(status=status), None, SAMPLE - len(some)))
            some += [each for each in page.jobs if each.priority != change.priority]
    return some


def confirm(change: Change, job_filter: JobFilter, total: Total) -> None:
    if not sys.stdin.isatty():
        raise click.ClickException(
            "nothing was changed: there is no terminal to ask for confirmation; "
            "add --yes to change the jobs, or --dry-run for the preview alone"
        )
    question = imperative(change, number_of_jobs(total, job_filter.status))
    if change.action is Action.DELETE:
        given = click.prompt(
            f"To {question}, type their number ({total.jobs})", default="", show_default=False, err=True
        )
        if given.strip().replace(",", "") == str(total.jobs):
            return
        say(f"Nothing was changed: expected {total.jobs}, got {printable(given) or 'nothing'}.", stderr=True)
        sys.exit(1)
    if not click.confirm(f"{question[0].upper()}{question[1:]}?", err=True):
        say("Nothing was changed.", stderr=True)
        sys.exit(1)


def number_of_jobs(total: Total, status: str | None = None) -> str:
    """3 failed jobs; at least 100,000 jobs."""
    at_least = "" if total.exact else "at least "
    return at_least + counted(total.jobs, "job" if status in (None, LATER) else f"{status} job")


def carry_out(running: bulk.Change, change: Change, total: Total, job_filter: JobFilter) -> Counts:
    console = screen(stderr=True)
    bar = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    counts = Counts()
    with bar if console.is_terminal else nullcontext():
        task = bar.add_task("", total=max(total.jobs, 1) if total.exact else None)
        try:
            for counts in running:
                bar.update(task, completed=counts.total)
        except KeyboardInterrupt:
            bar.stop()
            # The chunk that was running may have been committed.
            say(f"\nInterrupted. {summary(counts, change)}, and possibly the next {CHUNK}.", stderr=True)
            say(f"To continue: {printable(command_line(change, job_filter))}", stderr=True)
            sys.exit(130)
    return counts


def command_line(change: Change, job_filter: JobFilter) -> str:
    name = change.action.value.replace("_", "-")
    priority = "" if change.priority is None else f" {change.priority}"
    return f"treadle {name}{priority} {as_options(job_filter)}"


def summary(counts: Counts, change: Change) -> str:
    """Retried 12 jobs; skipped 1 no longer eligible."""
    skipped: Sequence[tuple[int, str]] = (
        (counts.unfit, "no longer eligible"),
        (counts.busy, "locked by another transaction (try again)"),
        (counts.missing, "already deleted"),
    )
    parts = [f"{number:,} {why}" for number, why in skipped if number]
    return past(change, counted(counts.done)) + (f"; skipped {', '.join(parts)}" if parts else "")
