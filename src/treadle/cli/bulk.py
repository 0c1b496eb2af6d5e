"""Many jobs at once, by filter: a preview, a question, and then chunk by chunk."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from treadle.app import Treadle
from treadle.cli.filters import as_typed
from treadle.cli.jobs import COLUMNS, row
from treadle.cli.output import counted, print_json, say, screen, show_table
from treadle.db.queries.listing import find_jobs
from treadle.operations import bulk
from treadle.operations.bulk import Counts
from treadle.words.changes import Change
from treadle.words.listing import Listed, Wanted
from treadle.words.overview import Total
from treadle.words.phrases import printable

# Shown in the preview; and as many are asked for their type.
FIRST = 5
SAMPLE = 500
KINDS = 8


def change_by_filter(app: Treadle, change: Change, wanted: Wanted, *, yes: bool, as_json: bool, dry_run: bool) -> None:
    """Ends with 1 if nothing was done."""
    # What is wrong with it is said before anything is counted.
    going = bulk.Change(app.database, wanted, change.action, change.actor, change.reason, change.priority)
    total = bulk.count(app.database, wanted, change.action)
    if not as_json:
        preview(app, change, wanted, total)
    if dry_run:
        if as_json:
            print_json({"action": change.action, "found": total.jobs, "exact": total.exact, "done": 0})
        return
    if not total.jobs and total.exact:
        if as_json:
            print_json({"action": change.action, **Counts()._asdict()})
        sys.exit(1)
    if not yes:
        ask(change, total)
    tally = carry_out(going, change, total, wanted)
    if as_json:
        print_json({"action": change.action, **tally._asdict()})
    else:
        say(said_of(tally, change))
    if not tally.done:
        sys.exit(1)


def preview(app: Treadle, change: Change, wanted: Wanted, total: Total) -> None:
    """How many, of which types, and the first few. On standard error: it is not the answer."""
    console = screen(stderr=True)
    if not total.jobs and total.exact:
        say("there are no such jobs, or none that this could change", stderr=True)
        return
    some = sample(app, change, wanted)
    more = "" if total.exact else ", and more that were not counted"
    say(f"{counted(total.jobs)}{more} would be {change.done}", stderr=True)
    kinds = Counter(printable(each.job_type) for each in some).most_common(KINDS + 1)
    if len(kinds) > 1:
        whole = total.exact and total.jobs <= len(some)
        told = ", ".join(f"{kind} {number:,}" for kind, number in kinds[:KINDS])
        others = ", …" if len(kinds) > KINDS else ""
        say(f"{'by type' if whole else f'the first {len(some):,} by type'}: {told}{others}", stderr=True)
    now = datetime.now(UTC)
    show_table(console, COLUMNS, [row(each, now) for each in some[:FIRST]])
    if total.jobs > FIRST:
        say("…", stderr=True)


def sample(app: Treadle, change: Change, wanted: Wanted) -> list[Listed]:
    """Some of those that are meant, in the order in which they will be changed."""
    some: list[Listed] = []
    for status in bulk.lists(change.action, wanted):
        if len(some) < SAMPLE:
            page = app.database.read(find_jobs(wanted._replace(status=status), None, SAMPLE - len(some)))
            some += [each for each in page.jobs if each.priority != change.priority]
    return some


def ask(change: Change, total: Total) -> None:
    if not sys.stdin.isatty():
        raise click.ClickException(
            "nothing was changed: there is nobody to ask; --yes changes them without a question, --dry-run only looks"
        )
    if not click.confirm(f"{counted(total.jobs)} will be {change.done}. Go on?", err=True):
        raise click.ClickException("nothing was changed")


def carry_out(going: bulk.Change, change: Change, total: Total, wanted: Wanted) -> Counts:
    console = screen(stderr=True)
    bar = Progress(
        TextColumn(f"{change.done}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    tally = Counts()
    with bar if console.is_terminal else nullcontext():
        task = bar.add_task("", total=max(total.jobs, 1) if total.exact else None)
        try:
            for tally in going:
                bar.update(task, completed=tally.total)
        except KeyboardInterrupt:
            bar.stop()
            say(f"\nstopped: {said_of(tally, change)}, and maybe some more", stderr=True)
            say(f"to go on: {printable(again(change, wanted))}", stderr=True)
            sys.exit(130)
    return tally


def again(change: Change, wanted: Wanted) -> str:
    name = change.action.value.replace("_", "-")
    priority = "" if change.priority is None else f" {change.priority}"
    return f"treadle {name}{priority} {as_typed(wanted)}"


def said_of(tally: Counts, change: Change) -> str:
    """12 jobs retried; 1 had changed meanwhile."""
    parts = [f"{counted(tally.done)} {change.done}"]
    left: Sequence[tuple[int, str]] = (
        (tally.unfit, "had another status by then, or nothing to change"),
        (tally.busy, "held by somebody just then; try again"),
        (tally.missing, "gone meanwhile"),
    )
    return "; ".join(parts + [f"{number:,} {why}" for number, why in left if number])
