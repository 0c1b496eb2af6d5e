"""Which jobs are meant, by what they are: the options of jobs, retry, cancel, delete, priority and run-now."""

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from treadle.cli.options import known_types
from treadle.words.listing import HELD, LATER, Wanted
from treadle.words.status import Status

Function = TypeVar("Function", bound=Callable[..., Any])

STATUSES = [*(status.value for status in Status), HELD, LATER]

_OPTIONS = [
    click.option(
        "--status",
        type=click.Choice(STATUSES),
        help="Jobs of this status; held: pending, but behind another; later: pending, but not due yet.",
    ),
    click.option("--type", "job_type", metavar="TYPE", shell_complete=known_types, help="Jobs of this type."),
    click.option("--queue", metavar="NAME", help="Jobs in this queue."),
    click.option("--worker", "worker_id", metavar="ID", help="Jobs that this worker holds, or held last."),
    click.option("--key", metavar="TEXT", help="Jobs with this key."),
    click.option("--search", metavar="TEXT", help="Jobs with this text in the payload or the error."),
]
_NAMES = {"job_type": "type", "worker_id": "worker"}


def filters(function: Function) -> Function:
    """The options; they come as one `wanted`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def wanted_from(asked: dict[str, Any]) -> Wanted:
    """The filters among the options, which are taken out."""
    return Wanted(**{name: asked.pop(name) for name in Wanted._fields})


def as_typed(wanted: Wanted) -> str:
    """--status failed --type mail."""
    given = [
        (f"--{_NAMES.get(name, name)}", str(value)) for name, value in wanted._asdict().items() if value is not None
    ]
    return shlex.join([word for pair in given for word in pair])
