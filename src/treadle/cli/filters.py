"""The options that select jobs, for jobs, retry, cancel, delete, run-now and priority."""

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from treadle.cli.options import complete_job_types
from treadle.text.payload_condition import read_payload_condition
from treadle.words.errors import InvalidArgument
from treadle.words.listing import BLOCKED, LATER, JobFilter
from treadle.words.moment import moment
from treadle.words.payload_condition import PayloadCondition
from treadle.words.status import Status

Function = TypeVar("Function", bound=Callable[..., Any])


class Moment(click.ParamType[datetime]):
    """A time, which may be given as a duration: 2h is two hours ago. Without an offset it is in the local time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            name = param.name if param and param.name else "time"
            return value if isinstance(value, datetime) else moment(value, name, datetime.now(UTC), None)
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)


class Condition(click.ParamType[PayloadCondition]):
    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PayloadCondition:
        try:
            return value if isinstance(value, PayloadCondition) else read_payload_condition(value)
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)


_OPTIONS = [
    click.option(
        "--status",
        type=click.Choice([*(status.value for status in Status), BLOCKED, LATER]),
        help="Jobs with this status; blocked: pending, but others have to end first; later: not yet due.",
    ),
    click.option("--type", "job_type", metavar="TYPE", shell_complete=complete_job_types, help="Jobs of this type."),
    click.option("--queue", metavar="NAME", help="Jobs in this queue."),
    click.option("--worker", "worker_id", metavar="ID", help="Jobs whose last claim was by this worker."),
    click.option("--key", metavar="TEXT", help="Jobs with this key."),
    click.option("--search", metavar="TEXT", help="Jobs with this text in the payload, error or id."),
    click.option(
        "--since",
        type=Moment(),
        metavar="TIME",
        help="Jobs enqueued, or with a finished --status finished, since this time: 2h (ago) or 2026-11-12T14:00.",
    ),
    click.option("--until", type=Moment(), metavar="TIME", help="Jobs before this time."),
    click.option(
        "--where",
        type=Condition(),
        metavar="CONDITION",
        help="Jobs with a value in the payload: 'data.order = \"ORD-1999\"', 'data.paid = true and data.note exists'.",
    ),
]
_NAMES = {"job_type": "type", "worker_id": "worker"}


def filters(function: Function) -> Function:
    """Adds the options. `filter_from` reads their values."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def filter_from(options: dict[str, Any]) -> JobFilter:
    """Takes the filters out of the options."""
    return JobFilter(**{name: options.pop(name) for name in JobFilter._fields})


def as_options(job_filter: JobFilter) -> str:
    """--status failed --type mail."""
    given = {
        name: value.isoformat() if isinstance(value, datetime) else str(value)
        for name, value in job_filter._asdict().items()
        if value is not None
    }
    return shlex.join([word for name, value in given.items() for word in (f"--{_NAMES.get(name, name)}", value)])
