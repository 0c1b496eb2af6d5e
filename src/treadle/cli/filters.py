"""The options that select jobs, for jobs, retry, cancel, delete, run-now and priority."""

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from treadle.cli.options import complete_job_types
from treadle.words.listing import HELD, LATER, JobFilter
from treadle.words.status import Status

Function = TypeVar("Function", bound=Callable[..., Any])

BLOCKED = "blocked"


class StatusChoice(click.Choice[str]):
    """Also takes `held`, the former name of `blocked`."""

    name = "status"

    def __init__(self) -> None:
        super().__init__([*(status.value for status in Status), BLOCKED, LATER])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(BLOCKED if value == HELD else value, param, ctx)


_OPTIONS = [
    click.option(
        "--status",
        type=StatusChoice(),
        help="Jobs with this status; blocked: pending, but others have to end first; later: not yet due.",
    ),
    click.option("--type", "job_type", metavar="TYPE", shell_complete=complete_job_types, help="Jobs of this type."),
    click.option("--queue", metavar="NAME", help="Jobs in this queue."),
    click.option("--worker", "worker_id", metavar="ID", help="Jobs whose last claim was by this worker."),
    click.option("--key", metavar="TEXT", help="Jobs with this key."),
    click.option("--search", metavar="TEXT", help="Jobs with this text in the payload or error."),
]
_NAMES = {"job_type": "type", "worker_id": "worker"}


def filters(function: Function) -> Function:
    """Adds the options. `filter_from` reads their values."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def filter_from(options: dict[str, Any]) -> JobFilter:
    """Takes the filters out of the options."""
    job_filter = JobFilter(**{name: options.pop(name) for name in JobFilter._fields})
    return job_filter._replace(status=HELD) if job_filter.status == BLOCKED else job_filter


def shown_status(status: str) -> str:
    return BLOCKED if status == HELD else status


def as_options(job_filter: JobFilter) -> str:
    """--status failed --type mail."""
    given = {name: str(value) for name, value in job_filter._asdict().items() if value is not None}
    if "status" in given:
        given["status"] = shown_status(given["status"])
    return shlex.join([word for name, value in given.items() for word in (f"--{_NAMES.get(name, name)}", value)])
