"""treadle enqueue."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import click
from pydantic_core import from_json

from treadle.app.load import load_app
from treadle.app.treadle import Treadle
from treadle.cli.options import as_json, complete_job_types, database_url, opened, schema
from treadle.cli.output import print_json, say, screen
from treadle.cli.watch import watch_jobs
from treadle.jobs.function import UsingOptions
from treadle.words.errors import InvalidArgument, shown
from treadle.words.payload import Json
from treadle.words.unique import ON_CONFLICT, Debounce, Enqueued, Once, Throttle, Unique

NO_APP = (
    "no application is given to check the arguments against; name it with --app module:app or TREADLE_APP, or "
    "enqueue without checks with --raw"
)

# The options that decide whether a job is added, with those that may be given beside them.
FITTING: dict[str, tuple[str, ...]] = {
    "debounce": ("unique", "at_most"),
    "throttle": ("unique", "on_conflict"),
    "unique": ("while_pending", "unique_per", "on_conflict"),
}


@click.command()
@click.argument("job_type", metavar="TYPE", shell_complete=complete_job_types)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--app", metavar="MODULE:APP", help="Application of the job type. [default: TREADLE_APP]")
@click.option("--raw", is_flag=True, help="Enqueue without an application and without checks.")
@click.option("--data", metavar="JSON", help="Arguments as a JSON object; - reads it from standard input.")
@click.option("--priority", type=int, help="Priority; higher runs first. [default: that of the function]")
@click.option("--queue", metavar="NAME", help="Queue. [default: that of the function]")
@click.option("--delay", metavar="SPAN", help="Time to wait before the job is due, such as 90s, 10m or 1.5h.")
@click.option(
    "--run-at",
    metavar="TIME",
    help="Time at which the job is due, such as 2030-01-31T08:00; local unless it has a UTC offset.",
)
@click.option("--key", metavar="TEXT", help="Key; jobs with the same key run one at a time, in order.")
@click.option("--unique", metavar="TEXT", help="Add no job while an unfinished one has the same type and this text.")
@click.option("--while-pending", is_flag=True, help="With --unique: only until a worker claims the job.")
@click.option("--unique-per", metavar="SPAN", help="With --unique: for this long after the job was enqueued.")
@click.option(
    "--on-conflict",
    type=click.Choice(ON_CONFLICT),
    multiple=True,
    help="What happens to the existing job. Can be given more than once. [default: keep]",
)
@click.option("--debounce", metavar="SPAN", help="Run the job this long after the last such call.")
@click.option(
    "--at-most", metavar="SPAN", help="With --debounce: run it at the latest this long after the first such call."
)
@click.option("--throttle", metavar="TEXT", help='At most so many jobs per period, such as "1 per 5m".')
@click.option("--expires", metavar="SPAN", help="Cancel the job if it is not claimed this long after it is due.")
@click.option("--watch", is_flag=True, help="Watch the job until it finishes, as treadle watch does.")
@as_json
@database_url
@schema
def enqueue(
    job_type: str,
    arguments: tuple[str, ...],
    app: str | None,
    raw: bool,
    data: str | None,
    watch: bool,
    as_json: bool,
    database_url: str | None,
    schema: str,
    **chosen: Any,
) -> None:
    """Enqueue a job after checking its arguments against its function.

    VALUE is read as JSON where the function accepts a number, a boolean, null, a list or an object, and as text
    otherwise. Write NAME:=JSON to always read JSON, or - to read all arguments as an object from standard input. In a
    pipe, only the id of the job is printed.

    \b
    treadle enqueue welcome user_id=7 --app shop.jobs:app
    treadle enqueue import_rows path=rows.csv options:='{"skip": 1}' --priority 150 --watch
    echo '{"user_id": 7}' | treadle enqueue welcome - --raw
    """
    options = _options(chosen)
    if raw:
        with opened(database_url, schema) as found:
            given = read_arguments(arguments, data)
            made = found.queue.enqueue(job_type, given, **options)  # type: ignore[misc]
            known = None if "unique" in options else Enqueued(made)
            sys.exit(_report(found, job_type, made, known, as_json, watch))
    with named_app(app, database_url) as found:
        function = found.function(job_type)
        given = read_arguments(arguments, data, function.arguments.value_of)
        handle = function.using(**options).enqueue(**given)
        known = Enqueued(handle.id, handle.is_new, handle.is_changed)
        sys.exit(_report(found, job_type, handle.id, known, as_json, watch))


@contextmanager
def named_app(app: str | None, database_url: str | None) -> Iterator[Treadle]:
    """The application that --app names, closed at the end."""
    if not app:
        raise click.UsageError(NO_APP)
    if database_url:
        # For an application that does not name a database, as in treadle worker.
        os.environ["TREADLE_DATABASE_URL"] = database_url
    found = load_app(app)
    try:
        yield found
    finally:
        found.close()


def json_or_text(name: str, text: str) -> Json:
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def read_arguments(
    typed: Sequence[str], data: str | None, value_of: Callable[[str, str], Json] = json_or_text
) -> dict[str, Json]:
    """The arguments by name. A NAME=VALUE overrides the same name in the JSON object."""
    named = [each for each in typed if each != "-"]
    given = {} if data is None and len(named) == len(typed) else _object(data, from_input="-" in typed)
    for each in named:
        name, separator, text = each.partition("=")
        exact = name.endswith(":")
        name = name.removesuffix(":")
        if not separator or not name:
            raise click.UsageError(f"arguments must be name=value or name:=json, got {shown(each)}")
        if exact:
            given[name] = _json(text, f"{name}:=")
        else:
            given[name] = value_of(name, text)
    return given


def _object(data: str | None, *, from_input: bool) -> dict[str, Json]:
    if data is not None and from_input:
        raise click.UsageError("give the arguments either in --data or on standard input, not both")
    where = "standard input" if from_input or data == "-" else "--data"
    # As bytes, so that input in another encoding is reported like any other input that is not JSON.
    text = data if data is not None and data != "-" else sys.stdin.buffer.read()
    value = _json(text, where)
    if not isinstance(value, dict):
        raise click.UsageError(f'{where} must be a JSON object such as {{"user_id": 7}}, got {shown(value)}')
    return value


def _json(text: str | bytes, where: str) -> Json:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise click.UsageError(f"{where} must be valid JSON ({error}), got {shown(text)}") from None


def _options(chosen: dict[str, Any]) -> UsingOptions:
    """The options that were given. The function provides the defaults of the others."""
    given: Any = {name: value for name, value in chosen.items() if value is not None and value != ()}
    if "run_at" in given:
        given["run_at"] = _datetime(given["run_at"])
    if unique := _unique(given):
        given["unique"] = unique
    options: UsingOptions = given
    return options


def _unique(given: dict[str, Any]) -> Unique | None:
    """What the options of FITTING say, as one value; they are removed from the others."""
    names = dict.fromkeys(name for kind, fitting in FITTING.items() for name in (kind, *fitting))
    chosen = {name: value for name in names if (value := given.pop(name, None))}
    kind = next((kind for kind in FITTING if kind in chosen), "unique")
    for name in chosen:
        if kind not in chosen:
            raise click.UsageError(f"{_flag(name)} needs {'--debounce' if name == 'at_most' else '--unique'}")
        if name != kind and name not in FITTING[kind]:
            raise click.UsageError(f"{_flag(name)} cannot be used with {_flag(kind)}")
    if not chosen:
        return None
    key = chosen.pop("unique", None)
    match kind:
        case "debounce":
            return Debounce(chosen.pop("debounce"), key=key, **chosen)
        case "throttle":
            actions = chosen.get("on_conflict", ("keep",))
            return Throttle(
                *_rate(chosen["throttle"]), key=key, on_conflict=actions[0] if len(actions) == 1 else actions
            )
        case _:
            return Once(key=key, per=chosen.pop("unique_per", None), **chosen)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _rate(text: str) -> tuple[int, str]:
    match = re.fullmatch(r"\s*(\d+)\s+per\s+(.+?)\s*", text)
    if match is None:
        raise click.UsageError(f'--throttle must be a number per period, such as "1 per 5m", got {shown(text)}')
    return int(match[1]), match[2]


def _datetime(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"--run-at must be a time such as 2030-01-31T08:00 or 2030-01-31T08:00+01:00, got {shown(text)}"
        ) from None


def _report(app: Treadle, job_type: str, made: UUID, known: Enqueued | None, as_json: bool, watch: bool) -> int:
    """Print the id, and watch the job if asked to. Returns the exit code. `known` says whether the job is new, if that
    is known."""
    console = screen()
    if as_json:
        print_json({"id": made, "job_type": job_type, **(known._asdict() if known else {})})
    elif console.is_terminal:
        did = ""
        if known is not None:
            did = "Enqueued " if known.is_new else "Changed " if known.is_changed else "Already enqueued: "
        say(f"{did}{job_type} {made}")
    else:
        say(str(made))
    # In a pipe, standard output has the id alone.
    return watch_jobs(console if console.is_terminal else screen(stderr=True), app, [made]) if watch else 0
