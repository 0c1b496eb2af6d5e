"""treadle schedules."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from treadle.app.treadle import Treadle
from treadle.cli.enqueue import named_app, read_arguments
from treadle.cli.options import actor, as_json, database_url, opened, reason, schema
from treadle.cli.output import Column, print_json, say, screen, show_table
from treadle.cli.why import show_reason
from treadle.text.masking import masked
from treadle.words.errors import TreadleError
from treadle.words.formatting import age, printable
from treadle.words.schedule import ScheduleRow
from treadle.words.times import times_of
from treadle.words.timetable import Timetable

COLUMNS = [
    Column("NAME", 12),
    Column("TYPE", 10),
    Column("TIMES", 10),
    Column("LAST"),
    Column("NEXT"),
    Column("STATE", 8),
]
# How many of the next times --next shows.
NEXT_TIMES = 5


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    return as_json(database_url(schema(command)))


def _change_options(command: Callable[..., None]) -> Callable[..., None]:
    return click.argument("name")(reason(actor(_shared(command))))


@click.group(invoke_without_command=True)
@click.option("--next", "next_times", is_flag=True, help=f"Show the next {NEXT_TIMES} times of each.")
@_shared
@click.pass_context
def schedules(context: click.Context, next_times: bool, as_json: bool, database_url: str | None, schema: str) -> None:
    """List and change schedules.

    \b
    treadle schedules --next
    treadle schedules pause nightly --reason "the mail server is down"
    treadle schedules preview "0 9 * * mon" --timezone Europe/Oslo
    """
    if context.invoked_subcommand is None:
        with opened(database_url, schema) as app:
            _show(masked(app.schedules()), next_times, as_json)


@schedules.command()
@click.argument("expression")
@click.option("--timezone", default="UTC", metavar="NAME", help="Time zone of the expression. [default: UTC]")
@click.option("--count", default=NEXT_TIMES, type=click.IntRange(1, 1000), help="How many times. [default: 5]")
def preview(expression: str, timezone: str, count: int) -> None:
    """Say when an expression is due, in words and dates.

    \b
    treadle schedules preview "30 2 * * *" --timezone Europe/Oslo --count 10
    treadle schedules preview "every 90s"
    """
    table = Timetable(expression, timezone)
    say(table.description())
    for moment in table.next_times(count, datetime.now(UTC)):
        say(f"  {_local(moment, timezone)}")


@schedules.command()
@click.argument("name")
@click.argument("expression")
@click.argument("job_type", metavar="TYPE")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--app", metavar="MODULE:APP", help="Application of the job type. [default: TREADLE_APP]")
@click.option("--timezone", metavar="NAME", help="Time zone of the expression. [default: UTC]")
@click.option("--missed", metavar="CHOICE", help="After a downtime: skip, latest or all. [default: latest]")
@click.option("--overlap", metavar="CHOICE", help="While the last job runs: allow, skip or wait. [default: allow]")
@click.option("--jitter", metavar="SPAN", help="Up to this much later, at random, such as 30s.")
@click.option("--priority", type=int, help="Priority; higher runs first. [default: that of the function]")
@click.option("--queue", metavar="NAME", help="Queue. [default: that of the function]")
@actor
@reason
@database_url
@schema
def add(
    name: str,
    expression: str,
    job_type: str,
    arguments: tuple[str, ...],
    app: str | None,
    actor: str,
    reason: str | None,
    database_url: str | None,
    schema: str,
    **chosen: Any,
) -> None:
    """Add a schedule after checking its arguments against the function.

    \b
    treadle schedules add nightly "0 3 * * *" report kind=full --app shop.jobs:app --timezone Europe/Oslo
    """
    with named_app(app, database_url) as found:
        function = found.function(job_type)
        given = read_arguments(arguments, None, function.arguments.value_of)
        options: Any = {name: value for name, value in chosen.items() if value is not None}
        of_jobs: Any = {name: options.pop(name) for name in ("priority", "queue") if name in options}
        times = times_of(expression, **options)
        found.schedules.add(name, times, function, given, actor=actor, reason=reason, **of_jobs)
        _say_next(found, name, "Added")


@schedules.command()
@click.argument("name")
@click.argument("expression")
@click.option("--timezone", metavar="NAME", help="Time zone of the expression. [default: unchanged]")
@actor
@reason
@database_url
@schema
def change(
    name: str,
    expression: str,
    timezone: str | None,
    actor: str,
    reason: str | None,
    database_url: str | None,
    schema: str,
) -> None:
    """Change the times of a schedule that was added at run time."""
    with opened(database_url, schema) as app:
        times = times_of(expression, **({} if timezone is None else {"timezone": timezone}))
        app.schedules.change(name, times, actor=actor, reason=reason)
        _say_next(app, name, "Changed")


@schedules.command()
@_change_options
def pause(name: str, **by: Any) -> None:
    """Enqueue no jobs of a schedule until it is resumed."""
    _operate(name, "pause", by, "Paused", "It was paused already:")


@schedules.command()
@_change_options
def resume(name: str, **by: Any) -> None:
    """Continue with the next time of a schedule that was paused."""
    _operate(name, "resume", by, "Resumed", "It was not paused:")


@schedules.command()
@_change_options
def run(name: str, **by: Any) -> None:
    """Enqueue a job of a schedule now, besides those of its times."""
    _operate(
        name, "run_now", by, "Enqueued a job of", "No job was added, because its jobs are unique and there is one:"
    )


@schedules.command()
@_change_options
def delete(name: str, **by: Any) -> None:
    """Delete a schedule that was added at run time, or that no worker declares any longer."""
    _operate(name, "delete", by, "Deleted", "")


@schedules.command()
@click.argument("name")
@_shared
def why(name: str, as_json: bool, database_url: str | None, schema: str) -> None:
    """Explain why a schedule does not run, and what to do about it.

    \b
    treadle schedules why nightly
    """
    with opened(database_url, schema) as app:
        reason = masked(app.schedules.why(name))
    show_reason(reason, {"schedule": name} if as_json else None)


def _operate(name: str, method: str, by: dict[str, Any], done: str, unchanged: str) -> None:
    as_json = by.pop("as_json")
    with opened(by.pop("database_url"), by.pop("schema")) as app:
        changed = getattr(app.schedules, method)(name, **by) is not False
    if as_json:
        print_json({"name": name, "changed": changed})
    else:
        say(f"{done if changed else unchanged} {printable(name)}")


def _say_next(app: Treadle, name: str, done: str) -> None:
    (row,) = [each for each in app.schedules() if each.name == name]
    times = row.next_times(1, datetime.now(UTC))
    following = f"; next at {_local(times[0], row.timezone)}" if times else "; it has no further times"
    say(f"{done} {printable(name)}{following}")


def _show(rows: list[ScheduleRow], next_times: bool, as_json: bool) -> None:
    now = datetime.now(UTC)
    if as_json:
        for each in rows:
            print_json({**each._asdict(), "next_times": _next_times(each, now) if next_times else None})
        return
    if not rows:
        say("There are no schedules.", stderr=True)
        return
    table = [
        [
            printable(each.name),
            printable(each.job_type),
            printable(each.expression if each.timezone == "UTC" else f"{each.expression} {each.timezone}"),
            f"{age((now - each.last_at).total_seconds())} ago" if each.last_at else "-",
            _next(each),
            _state(each),
        ]
        for each in rows
    ]
    show_table(screen(), COLUMNS, table)
    for each in rows:
        if each.error:
            say(f"{printable(each.name)}: {printable(each.error)}")
        if next_times:
            say(f"{printable(each.name)}:")
            for moment in _next_times(each, now):
                say(f"  {_local(moment, each.timezone)}")


def _next(row: ScheduleRow) -> str:
    if row.paused_at or row.retired_at or row.next_at is None:
        return "-"
    return _local(row.next_at, row.timezone)


def _next_times(row: ScheduleRow, now: datetime) -> list[datetime]:
    try:
        return row.next_times(NEXT_TIMES, now)
    except TreadleError:  # added in SQL, which cannot check it; the list shows what is wrong with it
        return []


def _state(row: ScheduleRow) -> str:
    if row.paused_at:
        return "paused"
    if row.retired_at:
        return "retired"
    return "error" if row.error else "active"


def _local(moment: datetime, timezone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(timezone)):%a %Y-%m-%d %H:%M:%S %z}"
