"""treadle errors."""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from treadle.cli.bulk import confirm, number_of_jobs, summary
from treadle.cli.options import actor, as_json, database_url, opened, reason, schema
from treadle.cli.output import Column, counted, heading, print_json, say, screen, show_table, write
from treadle.cli.wording import imperative
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries.error_groups import GroupFilter
from treadle.operations.bulk import Counts
from treadle.operations.error_groups import STATUSES, GroupChange, count_jobs, get_details, get_groups
from treadle.text.masking import masked
from treadle.words.changes import Action, Change
from treadle.words.duration import duration
from treadle.words.error_group import ErrorGroup, GroupDetails, GroupJobs
from treadle.words.formatting import age, count, printable, printable_lines
from treadle.words.listing import JobFilter

COLUMNS = [
    Column("ID", right=True),
    Column("TYPE", 8),
    Column("24H", right=True),
    Column("TOTAL", right=True),
    Column("TREND"),
    Column("FIRST", right=True),
    Column("LAST", right=True),
    Column("VERSION", 6),
    Column("ERROR", 20),
]
ROWS = 100
# The hours of the trend that a line has room for.
TREND_HOURS = 12
_BARS = "▁▂▃▄▅▆▇█"
ORDERS = {"failures": "failures", "last": "last_seen", "first": "first_seen"}

_id = click.argument("group_id", type=int, metavar="ID")
_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    return as_json(database_url(schema(command)))


def _change_options(command: Callable[..., None]) -> Callable[..., None]:
    return reason(actor(_shared(command)))


@click.group(invoke_without_command=True)
@click.option("--type", "job_type", metavar="TYPE", help="Only of jobs of this type.")
@click.option("--queue", metavar="NAME", help="Only of jobs in this queue.")
@click.option("--muted", is_flag=True, help="List muted groups instead.")
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    default="failures",
    show_default=True,
    help="The most failures within 24 hours first, or those seen last, or those that are newest.",
)
@_shared
@click.pass_context
def errors(
    context: click.Context,
    job_type: str | None,
    queue: str | None,
    muted: bool,
    order: str,
    as_json: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """List groups of failed attempts, and retry, cancel or mute one.

    \b
    treadle errors
    treadle errors --type import_rows --order first
    treadle errors show 17
    treadle errors retry 17 --reason "the disk has room again"
    treadle errors mute 17 --for 1d
    """
    if context.invoked_subcommand is not None:
        return
    with opened(database_url, schema) as app:
        found = get_groups(app.database, GroupFilter(job_type, queue, muted, ORDERS[order]), ROWS)
    if as_json:
        for each in found.groups:
            print_json(each)
        return
    if not found.groups:
        say("There are no muted errors." if muted else "There are no errors.", stderr=True)
    else:
        show_table(screen(), COLUMNS, [_row(each, found.at) for each in masked(found.groups)])
    if found.more:
        say(f"… only {ROWS} groups are listed; use --type or --queue for others", stderr=True)
    if found.muted and not muted:
        say(f"{counted(found.muted, 'group')} muted: treadle errors --muted", stderr=True)


@errors.command()
@_id
@_shared
def show(group_id: int, as_json: bool, database_url: str | None, schema: str) -> None:
    """Show a group: its versions, an example with its traceback, and its jobs.

    \b
    treadle errors show 17
    """
    with opened(database_url, schema) as app:
        details = masked(get_details(app.database, group_id))
    if as_json:
        print_json(details)
    else:
        _show(screen(), details)


@errors.command()
@_id
@_yes
@_dry_run
@_change_options
def retry(group_id: int, **given: Any) -> None:
    """Retry the failed jobs of a group.

    \b
    treadle errors retry 17 --reason "the disk has room again"
    """
    _change_jobs(group_id, Action.RETRY, given)


@errors.command()
@_id
@_yes
@_dry_run
@_change_options
def cancel(group_id: int, **given: Any) -> None:
    """Cancel the jobs of a group that wait for another attempt.

    \b
    treadle errors cancel 17
    """
    _change_jobs(group_id, Action.CANCEL, given)


@errors.command()
@_id
@click.option("--for", "span", metavar="SPAN", help="For this long, such as 1d. [default: until it is unmuted]")
@click.option("--until-new-version", is_flag=True, help="Until a version of the application fails that is new.")
@_change_options
def mute(group_id: int, span: str | None, until_new_version: bool, **given: Any) -> None:
    """Mute a group: it is still counted, but is no alarm.

    \b
    treadle errors mute 17 --for 1d --reason "fixed in the next release"
    """
    length = None if span is None else duration(span, "--for")
    with opened(given["database_url"], given["schema"]) as app:
        app.database.run(group_queries.mute(group_id, length, until_new_version, given["actor"], given["reason"]))
    _said(group_id, "muted", given["as_json"], changed=True)


@errors.command()
@_id
@_change_options
def unmute(group_id: int, **given: Any) -> None:
    """End the muting of a group.

    \b
    treadle errors unmute 17
    """
    with opened(given["database_url"], given["schema"]) as app:
        changed = app.database.run(group_queries.unmute(group_id, given["actor"], given["reason"]))
    _said(group_id, "unmuted", given["as_json"], changed=changed)


def trend_text(trend: Sequence[int]) -> str:
    """The last hours as bars: ▁▁▃█."""
    hours = trend[-TREND_HOURS:]
    most = max(hours, default=0)
    return "".join(_BARS[max(1, each * (len(_BARS) - 1) // most)] if each else _BARS[0] for each in hours)


def _row(group: ErrorGroup, at: datetime) -> list[str | Text]:
    return [
        str(group.id),
        printable(group.job_type),
        count(group.last_day),
        count(group.failures),
        trend_text(group.trend),
        age((at - group.first_seen).total_seconds()),
        age((at - group.last_seen).total_seconds()),
        printable(group.versions[0]) if group.versions else "-",
        printable(group.title) or "-",
    ]


def _show(console: Console, details: GroupDetails) -> None:
    group, at = details.group, details.at

    def ago(moment: datetime) -> str:
        return f"{moment.astimezone():%Y-%m-%d %H:%M:%S} ({age((at - moment).total_seconds())} ago)"

    write(console, Text.assemble((printable(group.job_type), "bold"), "  ", (printable(group.title), "red")))
    lines = [
        ("id", str(group.id)),
        ("failures", f"{count(group.last_day)} in 24 hours, {count(group.failures)} in total"),
        ("trend", f"{trend_text(group.trend)} (the last {TREND_HOURS} hours)"),
        ("first", ago(group.first_seen)),
        ("last", ago(group.last_seen)),
        ("queues", printable(", ".join(group.queues))),
    ]
    if group.muted is not None:
        ends = "until a new version fails" if group.muted.until_new_version else "until it is unmuted"
        until = ends if group.muted.until is None else f"until {group.muted.until.astimezone():%Y-%m-%d %H:%M:%S}"
        because = f": {printable(group.muted.reason)}" if group.muted.reason else ""
        lines.append(("muted", f"by {printable(group.muted.by or 'unknown')}, {until}{because}"))
    for name, value in lines:
        write(console, Text.assemble((f"  {name:<9} ", "dim"), value))
    if details.versions:
        heading(console, "versions")
        for each in details.versions:
            times = f"{ago(each.first_seen)} to {ago(each.last_seen)}"
            write(console, f"  {printable(each.version)}  {count(each.failures)}  {times}")
    if details.example is not None:
        heading(console, "example")
        write(console, Text(f"  job {details.example.job_id}, {ago(details.example.failed_at)}", style="dim"))
        for line in printable_lines((details.example.traceback or details.example.error).rstrip()):
            write(console, f"    {line}")
    _jobs(console, "failed jobs", details.failed)
    _jobs(console, "jobs that wait for another attempt", details.pending)


def _jobs(console: Console, title: str, found: GroupJobs) -> None:
    if not found.jobs:
        return
    heading(console, title)
    for job in found.jobs:
        write(console, f"  {job.id}  {printable(job.queue)}  attempt {job.attempts} of {job.max_attempts}")
    if found.next is not None:
        write(console, Text("  … and more", style="dim"))


def _change_jobs(group_id: int, action: Action, given: dict[str, Any]) -> None:
    """Exits with 1 if no job was changed."""
    change = Change(action, given["actor"], given["reason"])
    with opened(given["database_url"], given["schema"]) as app:
        _, group = app.database.read(group_queries.get_group(group_id))
        total = count_jobs(app.database, group_id, STATUSES[action])
        if not given["as_json"]:
            what = f"This would {imperative(change, number_of_jobs(total, STATUSES[action]))}"
            say(f"{what} of {printable(group.job_type)}: {printable(masked(group.title))}", stderr=True)
        if given["dry_run"]:
            if given["as_json"]:
                print_json({"action": action, "group": group_id, "found": total.jobs, "exact": total.exact, "done": 0})
            return
        if (total.jobs or not total.exact) and not given["yes"]:
            confirm(change, JobFilter(STATUSES[action]), total)
        *_, counts = [Counts(), *GroupChange(app.database, group_id, action, change.actor, change.reason)]
    if given["as_json"]:
        print_json({"action": action, "group": group_id, **counts._asdict()})
    else:
        say(f"{summary(counts, change)}.")
    if not counts.done:
        sys.exit(1)


def _said(group_id: int, state: str, as_json: bool, *, changed: bool) -> None:
    if as_json:
        print_json({"group": group_id, "muted": state == "muted", "changed": changed})
    else:
        say(f"Group {group_id} is {state}." if changed else f"Group {group_id} is not muted.")
