"""treadle limits."""

from collections.abc import Callable
from typing import Any

import click

from treadle.cli.options import actor, as_json, database_url, opened, reason, schema
from treadle.cli.output import Column, print_json, say, screen, show_table
from treadle.text.masking import masked
from treadle.words.formatting import count, printable
from treadle.words.limit_status import LimitStatus, scope_in_words

COLUMNS = [
    Column("NAME", 12),
    Column("KEY", 8),
    Column("LIMIT", 12),
    Column("IN USE", right=True),
    Column("WAITING", right=True),
    Column("NEXT"),
    Column("CHANGED BY", 8),
]
# Rows that are listed.
ROWS = 100

_key = click.option("--key", metavar="VALUE", help="Only for this value of the limit's argument.")
_period = click.option("--period", "--per-period", metavar="SPAN", help="For a limit per period, such as 1s or 1h.")
_burst = click.option("--burst", type=int, metavar="N", help="How many may start at once after a quiet time.")
_name = click.argument("name")
_amount = click.argument("amount", type=int)


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    return as_json(database_url(schema(command)))


def _change_options(command: Callable[..., None]) -> Callable[..., None]:
    return reason(actor(_shared(command)))


@click.group(invoke_without_command=True)
@click.option("--name", metavar="NAME", help="Only the limit of this name, with its keys.")
@_shared
@click.pass_context
def limits(context: click.Context, name: str | None, as_json: bool, database_url: str | None, schema: str) -> None:
    """List and change limits.

    \b
    treadle limits
    treadle limits set sync_account 5 --key acme
    treadle limits pause sync_account --key acme --reason "their API is down"
    treadle limits add api 10 --period 1s --type sync_account --per tenant
    """
    if context.invoked_subcommand is None:
        with opened(database_url, schema) as app:
            _show(masked(app.limits(name, ROWS)), as_json)


@limits.command("set")
@_name
@_amount
@_key
@_period
@_burst
@_change_options
def set_(name: str, amount: int, **given: Any) -> None:
    """Change a limit for all keys, or for one. It stays so until it is reset.

    \b
    treadle limits set sync_account 5 --key acme
    treadle limits set api 20 --period 1s --burst 40
    """
    _change(name, "set", given, "Set", amount)


@limits.command()
@_name
@_amount
@click.option("--type", "job_type", metavar="TYPE", help="For jobs of this type.")
@click.option("--queue", metavar="NAME", help="For jobs in this queue.")
@click.option("--per", metavar="ARGUMENT", help="Each value of this argument has the limit for itself.")
@_period
@_burst
@_change_options
def add(name: str, amount: int, **given: Any) -> None:
    """Add a limit for a job type or a queue, or add these to a limit.

    \b
    treadle limits add api 10 --period 1s --type sync_account --per tenant
    """
    if given["job_type"] is None and given["queue"] is None:
        raise click.UsageError("say which jobs the limit is for, with --type or --queue")
    _change(name, "set", given, "Added", amount)


@limits.command()
@_name
@_key
@_change_options
def pause(name: str, **given: Any) -> None:
    """Start no more jobs of a limit, or of one key, until it is set or reset."""
    _change(name, "pause", given, "Paused")


@limits.command()
@_name
@_key
@_change_options
def reset(name: str, **given: Any) -> None:
    """Undo what was set: the limit is as the code declares it. One that was added is removed."""
    _change(name, "reset", given, "Reset")


def _change(name: str, method: str, given: dict[str, Any], done: str, *amount: int) -> None:
    as_json = given.pop("as_json")
    with opened(given.pop("database_url"), given.pop("schema")) as app:
        options = {option: value for option, value in given.items() if value is not None}
        changed = getattr(app.limits, method)(name, *amount, **options) is not False
        rows = app.limits(name)
    key = given.get("key")
    listed = {each.key: each for each in rows}
    # There may be more keys than are listed. One that was reset is like all others.
    row = listed.get(key) or (listed.get(None) if method == "reset" else None)
    if as_json:
        print_json({"name": name, "key": key, "changed": changed, "limit": row and row.description})
    elif not changed:
        say(f"Nothing was set: {printable(name)}")
    elif not rows:
        say(f"Removed {printable(name)}: no code declares it")
    else:
        scope = printable(f"{name}{scope_in_words(rows[0].per, key)}")
        say(f"{done} {scope}" + (f": {row.description}" if row else ""))


def _show(rows: list[LimitStatus], as_json: bool) -> None:
    if as_json:
        for each in rows:
            print_json({**each._asdict(), "limit": each.description})
        return
    if not rows:
        say("There are no limits.", stderr=True)
        return
    table = [
        [
            printable(each.name),
            printable(each.key_in_words) or "-",
            each.description,
            _used(each),
            f"{count(each.waiting)}{'' if each.exact else '+'}" if each.starts else "-",
            each.next_in_words or "-",
            printable(each.changed_by or "-"),
        ]
        for each in rows
    ]
    show_table(screen(), COLUMNS, table)
    if len(rows) == ROWS:
        say(f"These are the first {ROWS}. Those of one limit: treadle limits --name NAME", stderr=True)


def _used(row: LimitStatus) -> str:
    if row.in_use is not None:
        return count(row.in_use)
    return "-" if row.available is None else f"{count(row.available)} left"
