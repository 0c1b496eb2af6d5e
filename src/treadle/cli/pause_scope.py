"""What `treadle pause` and `treadle resume` apply to: a job type, a queue, or everything."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from treadle.cli.options import actor, as_json, complete_job_types, database_url, reason, schema
from treadle.words.formatting import printable

Function = TypeVar("Function", bound=Callable[..., Any])


def pause_options(everything: str) -> Callable[[Function], Function]:
    """The options of both commands. `everything` is the help of --all."""
    options = [
        click.option(
            "--type", "job_type", metavar="TYPE", shell_complete=complete_job_types, help="Jobs of this type."
        ),
        click.option("--queue", metavar="NAME", help="Jobs in this queue; with --type, only those of that type."),
        click.option("--all", "everything", is_flag=True, help=everything),
        reason,
        actor,
        as_json,
        database_url,
        schema,
    ]

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def check_scope(job_type: str | None, queue: str | None, everything: bool) -> None:
    if everything and (job_type is not None or queue is not None):
        raise click.UsageError("--all cannot be combined with --type or --queue")


def describe_scope(job_type: str | None, queue: str | None) -> str:
    """all jobs of type mail in queue slow."""
    parts = [f"of type {printable(job_type)}"] if job_type else []
    parts += [f"in queue {printable(queue)}"] if queue else []
    return " ".join(["all jobs", *parts])
