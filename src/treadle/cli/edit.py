"""treadle edit, and what it shares with treadle copy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click

from treadle.app.treadle import Treadle
from treadle.cli.enqueue import named_app, read_arguments
from treadle.cli.options import actor, as_json, database_url, job_ids, opened, reason, schema
from treadle.cli.output import print_json, say
from treadle.db.queries import jobs as job_queries
from treadle.jobs import edits
from treadle.jobs.edits import Author
from treadle.words.formatting import printable
from treadle.words.job import JobRow
from treadle.words.status import Status

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = [
    click.argument("job_id", metavar="ID"),
    click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]..."),
    click.option("--app", metavar="MODULE:APP", help="Application of the job. [default: TREADLE_APP]"),
    click.option("--raw", is_flag=True, help="Change it without an application and without checks."),
    click.option("--data", metavar="JSON", help="Arguments as a JSON object; - reads it from standard input."),
    reason,
    actor,
    as_json,
    database_url,
    schema,
]


def edit_options(function: Function) -> Function:
    """Adds the arguments and options that the two commands share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


class Edit(NamedTuple):
    """What to change of which job."""

    app: Treadle
    job: JobRow
    arguments: dict[str, Any]
    author: Author

    @property
    def name(self) -> str:
        return f"{printable(self.job.job_type)} {self.job.id}"


@contextmanager
def edit_from(options: dict[str, Any]) -> Iterator[Edit]:
    """From the values of the options."""
    given, url = (options["arguments"], options["data"]), options["database_url"]
    # Without arguments there is nothing to check.
    needs_app = any(given) and not options["raw"]
    with named_app(options["app"], url) if needs_app else opened(url, options["schema"]) as app:
        (target,) = job_ids(app, [options["job_id"]])
        job = app.database.run(job_queries.get_job(target))
        value_of = [app.function(job.job_type).arguments.value_of] if needs_app else []
        yield Edit(app, job, read_arguments(*given, *value_of), Author(options["actor"], options["reason"]))


@click.command()
@edit_options
@click.option("--retry", is_flag=True, help="Then run the job again, if it has failed or was cancelled.")
def edit(retry: bool, **options: Any) -> None:
    """Change arguments of a job before it runs, or is retried.

    The arguments are checked against the function of the job; those that are not named stay as they are. The job keeps
    its key and its place among unique jobs. A completed job is not edited; copy it with treadle copy.

    \b
    treadle edit 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35 user_id=8 --retry --app shop.jobs:app
    treadle edit 0c1d35 --data '{"user_id": 8}' --raw
    """
    with edit_from(options) as given:
        if not given.arguments and not retry:
            raise click.UsageError("give the arguments that change, such as user_id=8, or --retry")
        queries = edits.edit(given.app.backend, given.job, given.arguments, given.author, retry=retry)
        done = given.app.database.run_together(queries)[-1]
        now = given.app.database.run(job_queries.get_job(given.job.id, payloads=False)).status
    if options["as_json"]:
        print_json({"id": given.job.id, "edited": done, "was": given.job.status, "is": now})
    elif done:
        is_now = "" if now == given.job.status else f", now {now}"
        say(f"Edited {given.name} (was {given.job.status}{is_now}).")
    else:
        say(f"{given.name} {_refusal(given)}.", stderr=True)
    raise SystemExit(0 if done else 1)


def _refusal(given: Edit) -> str:
    match given.job.status:
        case Status.COMPLETED:
            return "is completed and cannot be edited; copy it with treadle copy"
        case Status.CLAIMED | Status.RUNNING as status:
            return f"is {status} and cannot be edited; cancel it first, and edit it then"
    return "has these arguments already, or is a workflow"
