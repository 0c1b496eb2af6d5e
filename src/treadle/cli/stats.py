"""treadle stats."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import click
from rich.console import Console
from rich.text import Text

from treadle.cli.options import as_json, database_url, opened, schema
from treadle.cli.output import COLOURS, Column, heading, jsonable, print_json, screen, show_table, write
from treadle.cli.place_stats import show_place
from treadle.operations.overview import overview
from treadle.text.stuck import describe_stopped, describe_stuck
from treadle.words.formatting import age, countdown, estimated, printable, rate, span
from treadle.words.overview import Backlog, Overview, Span, Total, WorkerRow

MINUTES = (1, 15, 60)
LANES = [
    Column("TYPE", 8),
    Column("QUEUE", 6),
    Column("PRIORITY", right=True),
    Column("WAITING", right=True),
    Column("OLDEST", right=True),
    Column("DETAILS", 8),
]
WORKERS = [
    Column("WORKER", 12),
    Column("JOBS", right=True),
    Column("UPTIME", right=True),
    Column("LAST SEEN", right=True),
    Column("TYPES", 8),
]
# Lanes shown at most; --json prints all of them.
SHOWN = 20


class Last(NamedTuple):
    """The jobs that finished in the last minutes."""

    minutes: int
    completed: int
    failed: int
    cancelled: int
    errors: int
    waited: float | None
    waited_most: float | None
    ran: float | None
    ran_most: float | None


@click.command()
@click.argument("job_type", metavar="[TYPE]", required=False)
@click.option("--queue", metavar="NAME", help="Statistics of this queue.")
@as_json
@database_url
@schema
def stats(job_type: str | None, queue: str | None, as_json: bool, database_url: str | None, schema: str) -> None:
    """Show statistics of the queue, of a job type or of one queue.

    Prints the number of jobs by status, how many finished recently, the waiting jobs by type, queue and priority, and
    the workers. ≈ marks an estimate: large numbers are counted by workers, some seconds ago. A + after a number means
    that no worker has counted, and there are at least so many.

    With a TYPE or --queue: percentiles of waiting and run times over 1 h, 6 h, 24 h and 7 d.

    \b
    treadle stats
    treadle stats send_email
    treadle stats --queue mail
    treadle stats --json | jq .totals.failed.jobs
    """
    if job_type is not None and queue is not None:
        raise click.UsageError("give a type or --queue, not both")
    with opened(database_url, schema) as app:
        if job_type is not None or queue is not None:
            show_place(app.database, "type" if queue is None else "queue", job_type or queue or "", as_json)
            return
        current = overview(app.database)
    lasts = [last(current.spans, minutes) for minutes in MINUTES]
    if as_json:
        made = jsonable(current._asdict())
        del made["spans"], made["step"], made["running"]
        print_json(made | {"last": [each._asdict() for each in lasts]})
        return
    show_stats(screen(), current, lasts)


def last(spans: Sequence[Span], minutes: int) -> Last:
    """The last full minutes together with the current one."""
    some = spans[-minutes - 1 :]

    def mean(sums: Sequence[tuple[float | None, int]]) -> float | None:
        jobs = sum(number for value, number in sums if value is not None)
        return sum(value * number for value, number in sums if value is not None) / jobs if jobs else None

    return Last(
        minutes,
        sum(each.completed for each in some),
        sum(each.failed for each in some),
        sum(each.cancelled for each in some),
        sum(each.errors for each in some),
        mean([(each.waited, each.completed) for each in some]),
        max((each.waited_most for each in some if each.waited_most is not None), default=None),
        mean([(each.ran, each.completed) for each in some]),
        max((each.ran_most for each in some if each.ran_most is not None), default=None),
    )


def show_stats(console: Console, current: Overview, lasts: Sequence[Last]) -> None:
    if current.refusal is not None:
        write(console, Text(f"{current.refusal.sentence} Run: treadle doctor", style="bold red"))
    totals = Text("  ").join(
        Text.assemble((status.value, COLOURS[status]), " ", number(total)) for status, total in current.totals.items()
    )
    write(console, totals)
    heading(console, f"recently finished (now {rate(current.rate)})")
    table = [Column("")] + [Column(f"{minutes} min", right=True) for minutes in MINUTES]
    rows: list[list[str]] = [
        [name, *(f"{getattr(each, field):,}" for each in lasts)]
        for name, field in (
            ("completed", "completed"),
            ("failed", "failed"),
            ("cancelled", "cancelled"),
            ("failed attempts", "errors"),
        )
    ]
    rows += [
        [name, *(_seconds(getattr(each, field)) for each in lasts)]
        for name, field in (
            ("mean wait", "waited"),
            ("longest wait", "waited_most"),
            ("mean run", "ran"),
            ("longest run", "ran_most"),
        )
    ]
    show_table(console, table, rows)
    heading(console, "waiting jobs")
    if lanes := [each for each in current.lanes if each.depth]:
        show_table(console, LANES, [lane_row(each, current.at) for each in lanes[:SHOWN]])
        if len(lanes) > SHOWN:
            write(console, Text(f"and {len(lanes) - SHOWN:,} more", style="dim"))
    else:
        write(console, "No jobs are waiting.")
    heading(console, "workers")
    if current.workers:
        show_table(console, WORKERS, [worker_row(each, current.at) for each in current.workers])
    else:
        write(console, "No workers are running.")


def number(total: Total) -> str:
    return estimated(f"{total.jobs:,}", total.exact, total.counted_at)


def lane_row(lane: Backlog, now: datetime) -> list[str | Text]:
    oldest = "" if lane.due_since is None else age((now - lane.due_since).total_seconds())
    notes = []
    if lane.paused:
        notes.append("paused")
    if not lane.served:
        notes.append("no worker")
    if lane.due_next is not None:
        notes.append(f"due in {countdown((lane.due_next - now).total_seconds())}")
    return [
        printable(lane.job_type),
        printable(lane.queue),
        str(lane.priority),
        number(Total(lane.depth, lane.exact, lane.counted_at)),
        oldest,
        Text(", ".join(notes), style="yellow" if lane.paused or not lane.served else ""),
    ]


def worker_row(worker: WorkerRow, now: datetime) -> list[str | Text]:
    room = "" if worker.slots is None else f"/{worker.slots}"
    ahead = f" +{worker.prefetched}" if worker.prefetched else ""
    seen = age((now - worker.seen_at).total_seconds())
    return [
        printable(worker.worker_id),
        f"{worker.running}{room}{ahead}",
        age((now - worker.started_at).total_seconds()),
        Text(seen, style="" if worker.alive else "red"),
        Text(worker.state_text, style="red")
        if not worker.alive
        else Text(f"stuck: {describe_stuck(worker.stuck, now)}", style="red")
        if worker.stuck
        else Text("; ".join(describe_stopped(each, now) for each in worker.stopped_children), style="red")
        if worker.stopped_children
        else "asleep"
        if worker.state == "asleep"
        else ", ".join(map(printable, worker.job_types or ["manual claims"])),
    ]


def _seconds(value: float | None) -> str:
    return "" if value is None else span(value)
