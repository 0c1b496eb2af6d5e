"""Compares enqueued jobs with what a test expects, and describes the difference."""

import inspect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from treadle.app.treadle import Treadle
from treadle.jobs.function import JobFunction
from treadle.words.duration import duration
from treadle.words.errors import InvalidArgument, TreadleError, UnknownJobType, shown
from treadle.words.job import JobRow

OPTIONS = ("priority", "queue", "key", "delay", "run_at", "max_attempts", "unique_key", "headers", "status")
# A delay is compared with the time between created_at and run_at, which differ by some microseconds more or less.
TOLERANCE = timedelta(seconds=1)
SHOWN = 5


class Difference(NamedTuple):
    name: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.name}: expected {shown(self.expected)}, got {shown(self.got)}"


_MISSING = object()


class Wanted:
    """The jobs that a test looks for."""

    def __init__(
        self,
        app: Treadle,
        function: "JobFunction[..., Any, ..., Any] | str",
        args: Sequence[Any],
        wanted: Mapping[str, Any],
    ) -> None:
        self._function = app.function(function) if isinstance(function, str) else function
        if not isinstance(self._function, JobFunction):
            raise InvalidArgument(f"expected a job function or the name of one, got {function!r}")
        try:
            app.function(self._function.name)
        except UnknownJobType as error:
            raise InvalidArgument(
                f"{self._function!r} belongs to another application than this test's: {error}"
            ) from None
        parameters = _parameters(self._function)
        if len(args) > len(parameters):
            raise InvalidArgument(f"{self._function.name} takes {len(parameters)} arguments, got {len(args)}")
        self.arguments = dict(zip(parameters, args, strict=False))
        self.options: dict[str, Any] = {}
        for name, value in wanted.items():
            if name in self.arguments:
                raise InvalidArgument(f"{name} is given twice")
            if name in parameters or (name not in OPTIONS and _is_open_ended(self._function)):
                self.arguments[name] = value
            elif name in OPTIONS:
                self.options[name] = value
            else:
                raise InvalidArgument(
                    f"{self._function.name} has no argument {name!r}; it takes {', '.join(parameters) or 'none'}, and "
                    f"the options are {', '.join(OPTIONS)}"
                )
        self._defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
        self._names = (self._function.name, *self._function.aliases)

    def __str__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.arguments.items()]
        options = [f"{name} {value}" for name, value in self.options.items()]
        return ", ".join([f"{self._function.name}({', '.join(given)})", *options])

    def is_of_type(self, job: JobRow) -> bool:
        return job.job_type in self._names

    def differences(self, job: JobRow) -> list[Difference] | None:
        """In what this job differs; None if it is of another type."""
        if not self.is_of_type(job):
            return None
        found = []
        arguments = self._arguments_of(job)
        for name, expected in self.arguments.items():
            got = arguments.get(name, _MISSING)
            if got is _MISSING:
                found.append(Difference(name, expected, "no such argument"))
            elif not _equal(expected, got):
                found.append(Difference(name, expected, got))
        for name, expected in self.options.items():
            if name == "delay":
                got = job.run_at - job.created_at
                if abs(got - duration(expected, "delay")) > TOLERANCE:
                    found.append(Difference(name, duration(expected, "delay"), got))
            elif name == "headers":
                got = {} if job.headers is None else job.headers
                if {header: got.get(header) for header in expected} != expected:
                    found.append(Difference(name, expected, got))
            elif not _equal(expected, got := getattr(job, name)):
                found.append(Difference(name, expected, got))
        return found

    def shown(self, job: JobRow) -> str:
        given = ", ".join(f"{name}={shown(value)}" for name, value in self._arguments_of(job).items())
        options = [str(job.status), f"priority {job.priority}"]
        options += [f"queue {job.queue}"] if job.queue != "default" else []
        options += [f"key {job.key}"] if job.key is not None else []
        options += [f"delay {job.run_at - job.created_at}"] if job.run_at - job.created_at > TOLERANCE else []
        return f"{job.job_type}({given}), {', '.join(options)}"

    def _arguments_of(self, job: JobRow) -> dict[str, Any]:
        data: Any = job.data
        try:
            return {**self._defaults, **self._function.arguments.decode(json.dumps(data))}
        except TreadleError:  # it does not fit the function, and would fail
            return dict(data) if isinstance(data, dict) else {}


def difference(wanted: Wanted, jobs: Sequence[JobRow]) -> str:
    """Why none of these jobs is the one that was wanted."""
    same = [job for job in jobs if wanted.is_of_type(job)]
    lines = [f"no job was enqueued that is {wanted}"]
    if not same:
        others = Counter(job.job_type for job in jobs)
        counted = ", ".join(f"{count} of {name}" for name, count in others.most_common(SHOWN))
        lines.append(f"there are no jobs of this type; others: {counted}" if others else "no job was enqueued at all")
        return "\n".join(lines)
    lines.append(f"{len(same)} of this type:")
    for job in sorted(same, key=lambda job: len(wanted.differences(job) or []))[:SHOWN]:
        lines.append(f"  {wanted.shown(job)}")
        lines.extend(f"    {each}" for each in wanted.differences(job) or [])
    if len(same) > SHOWN:
        lines.append(f"  and {len(same) - SHOWN} more")
    return "\n".join(lines)


def _equal(expected: Any, got: Any) -> bool:
    return bool(expected == got)


def _parameters(function: JobFunction[..., Any, ..., Any]) -> dict[str, inspect.Parameter]:
    return {
        name: each
        for name, each in inspect.signature(function.function).parameters.items()
        if name != function.arguments.job_parameter and each.kind is not each.VAR_KEYWORD
    }


def _is_open_ended(function: JobFunction[..., Any, ..., Any]) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(function.function).parameters.values())
