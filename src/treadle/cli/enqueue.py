"""treadle enqueue."""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import click
from pydantic_core import from_json

from treadle.app import Treadle
from treadle.app.function import UsingOptions
from treadle.app.load import load_app
from treadle.cli.options import as_json, database_url, known_types, opened, schema
from treadle.cli.output import print_json, say, screen
from treadle.cli.watch import watch_jobs
from treadle.words.errors import InvalidArgument, shown
from treadle.words.payload import Json

NO_APP = (
    "which application knows this job type? name it with --app module:app or TREADLE_APP, and the arguments are "
    "checked against its function; or enqueue unchecked with --raw"
)


@click.command()
@click.argument("job_type", metavar="TYPE", shell_complete=known_types)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--app", metavar="MODULE:APP", envvar="TREADLE_APP", help="The application. [default: TREADLE_APP]")
@click.option("--raw", is_flag=True, help="Without an application: nothing is checked.")
@click.option("--data", metavar="JSON", help="The arguments as an object; - reads it from standard input.")
@click.option("--priority", type=int, help="Higher runs first. [default: the function's]")
@click.option("--queue", metavar="NAME", help="The queue. [default: the function's]")
@click.option("--delay", metavar="SPAN", help="Not before this long from now, such as 90s, 10m or 1.5h.")
@click.option(
    "--run-at", metavar="TIME", help="Not before this time, such as 2030-01-31T08:00; local if it says no zone."
)
@click.option("--key", metavar="TEXT", help="Jobs with the same key run one at a time, in order.")
@click.option(
    "--unique", metavar="TEXT", help="While a job of this type with the same text has not ended, none is added."
)
@click.option("--watch", is_flag=True, help="Watch it until it has ended, as treadle watch does.")
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
    **asked: Any,
) -> None:
    """Enqueue a job, with its arguments checked as in a call of its function.

    NAME=VALUE is a number, true, false, null, a list or an object of JSON where the function takes that, else text;
    NAME:=JSON is JSON in any case; - reads an object from standard input. Prints the id, and nothing else in a pipe.

    \b
    treadle enqueue welcome user_id=7 --app shop.jobs:app
    treadle enqueue import_rows path=rows.csv options:='{"skip": 1}' --priority 150 --watch
    echo '{"user_id": 7}' | treadle enqueue welcome - --raw
    """
    options = _options(asked)
    if raw:
        with opened(database_url, schema) as found:
            given = read_arguments(arguments, data)
            made = found.queue.enqueue(job_type, given, **options)  # type: ignore[misc]
            sys.exit(_tell(found, job_type, made, options, as_json, watch))
    if not app:
        raise click.UsageError(NO_APP)
    if database_url:
        # For an application that names none, as for a worker.
        os.environ["TREADLE_DATABASE_URL"] = database_url
    found = load_app(app)
    try:
        function = found.function(job_type)
        given = read_arguments(arguments, data, function.arguments.value_of)
        made = function.using(**options).enqueue(**given).id
        sys.exit(_tell(found, job_type, made, options, as_json, watch))
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
    """What was typed, as arguments by name: the object first, then what stands beside it."""
    named = [each for each in typed if each != "-"]
    given = {} if data is None and len(named) == len(typed) else _object(data, from_input="-" in typed)
    for each in named:
        name, separator, text = each.partition("=")
        exact = name.endswith(":")
        name = name.removesuffix(":")
        if not separator or not name:
            raise click.UsageError(f"an argument is name=value or name:=json, got {shown(each)}")
        if exact:
            given[name] = _json(text, f"{name}:=")
        else:
            given[name] = value_of(name, text)
    return given


def _object(data: str | None, *, from_input: bool) -> dict[str, Json]:
    if data is not None and from_input:
        raise click.UsageError("the arguments come from --data or from standard input, not from both")
    where = "standard input" if from_input or data == "-" else "--data"
    # As bytes: what is no text at all is as wrong as what is no JSON, and is told in the same way.
    text = data if data is not None and data != "-" else sys.stdin.buffer.read()
    value = _json(text, where)
    if not isinstance(value, dict):
        raise click.UsageError(f'{where} must be a JSON object such as {{"user_id": 7}}, got {shown(value)}')
    return value


def _json(text: str | bytes, where: str) -> Json:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise click.UsageError(f"{where} is not JSON: {error}, got {shown(text)}") from None


def _options(asked: dict[str, Any]) -> UsingOptions:
    """What was asked for; the function knows the rest."""
    options: Any = {name: value for name, value in asked.items() if value is not None}
    if "run_at" in options:
        options["run_at"] = _moment(options["run_at"])
    chosen: UsingOptions = options
    return chosen


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"--run-at must be a time such as 2030-01-31T08:00 or 2030-01-31T08:00+01:00, got {shown(text)}"
        ) from None


def _tell(app: Treadle, job_type: str, made: UUID, options: UsingOptions, as_json: bool, watch: bool) -> int:
    """Says what was made. Returns the exit code."""
    console = screen()
    if as_json:
        print_json({"id": made, "job_type": job_type})
    elif console.is_terminal:
        # With unique, it may be one that was there before.
        say(f"{job_type} {made}" if "unique" in options else f"enqueued {job_type} {made}")
    else:
        say(str(made))
    # What follows must not be in the way of whoever reads the id.
    return watch_jobs(console if console.is_terminal else screen(stderr=True), app, [made]) if watch else 0
