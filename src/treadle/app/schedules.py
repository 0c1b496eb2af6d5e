"""The schedules of an application: those that its code declares, and those that are added at run time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from treadle.app.function import JobFunction
from treadle.db.database import Database
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries.enqueueing import check_options
from treadle.db.query import Query
from treadle.why.explain import awhy_schedule, why_schedule
from treadle.why.reason import Reason
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, InvalidJob
from treadle.words.naming import text_within
from treadle.words.schedule import MISSED_LIMIT, Declaration, Missed, Overlap, ScheduleRow, choice, timetable
from treadle.words.stored import Noted

AnyFunction = JobFunction[..., Any, ..., Any]


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule."""

    every: Duration
    """Instead of an expression: at multiples of this interval."""
    timezone: str
    """The time zone of the expression, such as Europe/Oslo. UTC if not given."""
    clocks_forward: str
    """At a local time that does not exist because clocks are set forward: run_late (default) or skip."""
    clocks_back: str
    """At a local time that comes twice because clocks are set back: run_once (default) or run_twice."""
    missed: Missed
    """After no worker could enqueue for a minute or more: skip (nothing), latest (default), or all."""
    missed_limit: int
    """How many, with missed="all". 100 if not given."""
    overlap: Overlap
    """While the job of the time before has not finished: allow (default), skip, or wait."""
    jitter: Duration
    """The job is due up to this much later, at random."""
    start: datetime
    end: datetime
    priority: int
    queue: str
    max_attempts: int
    key: str


class Schedules:
    """`app.schedules()` lists the schedules; the methods change them. Those that code declares can be paused, resumed
    and run; to change or delete one, change the code."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._declared: dict[str, tuple[AnyFunction, Mapping[str, Any], str | None, ScheduleOptions]] = {}

    def __call__(self) -> list[ScheduleRow]:
        return self._database.read(schedule_queries.find_schedules())

    async def alist(self) -> list[ScheduleRow]:
        return await self._database.aread(schedule_queries.find_schedules())

    def add(
        self,
        name: str,
        expression: str | None,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Add a schedule at run time. The arguments are checked like those of a call."""
        self._database.run(_added(declare(name, expression, function, arguments or {}, options), actor, reason))

    async def aadd(
        self,
        name: str,
        expression: str | None,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        await self._database.arun(_added(declare(name, expression, function, arguments or {}, options), actor, reason))

    def change(
        self,
        name: str,
        expression: str,
        *,
        timezone: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Change the times of a schedule that was added at run time. It keeps its time zone if none is given."""
        self._database.run(_changed(name, expression, timezone, actor, reason))

    async def achange(
        self,
        name: str,
        expression: str,
        *,
        timezone: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        await self._database.arun(_changed(name, expression, timezone, actor, reason))

    def pause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """Enqueue no jobs until resumed. Returns False if it was paused already."""
        return self._database.run(schedule_queries.operate("pause", name, actor, reason))

    async def apause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        return await self._database.arun(schedule_queries.operate("pause", name, actor, reason))

    def resume(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """Continue with the next time. Returns False if it was not paused."""
        return self._database.run(schedule_queries.operate("resume", name, actor, reason))

    async def aresume(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        return await self._database.arun(schedule_queries.operate("resume", name, actor, reason))

    def run_now(self, name: str, *, actor: str | None = None, reason: str | None = None) -> None:
        """Enqueue a job now, in addition to those of its times."""
        self._database.run(schedule_queries.operate("run", name, actor, reason))

    async def arun_now(self, name: str, *, actor: str | None = None, reason: str | None = None) -> None:
        await self._database.arun(schedule_queries.operate("run", name, actor, reason))

    def delete(self, name: str, *, actor: str | None = None, reason: str | None = None) -> None:
        """Delete a schedule that was added at run time, or that no worker declares any longer."""
        self._database.run(schedule_queries.operate("delete", name, actor, reason))

    async def adelete(self, name: str, *, actor: str | None = None, reason: str | None = None) -> None:
        await self._database.arun(schedule_queries.operate("delete", name, actor, reason))

    def why(self, name: str) -> Reason:
        """Explain why a schedule does not run: the decisive reason, and what to do about it."""
        return why_schedule(self._database, name)

    async def awhy(self, name: str) -> Reason:
        return await awhy_schedule(self._database, name)

    # What code declares

    def declare(
        self,
        name: str,
        expression: str | None,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None,
        options: ScheduleOptions,
    ) -> None:
        """Remember a declaration. Its arguments are checked by declared(), when all that they name is defined."""
        if name in self._declared:
            raise InvalidJob(f"there are two schedules called {name!r}; give one of them another name")
        check_times(expression, options)
        self._declared[schedule_queries.schedule_name(name)] = (function, arguments or {}, expression, options)

    def declared(self) -> list[Declaration]:
        """What the code declares, checked."""
        return [
            declare(name, expression, function, arguments, options)
            for name, (function, arguments, expression, options) in self._declared.items()
        ]


def _added(declaration: Declaration, actor: str | None, reason: str | None) -> Query[bool]:
    columns = declaration._asdict()
    return schedule_queries.put(columns.pop("name"), columns, False, actor, reason)


def _changed(name: str, expression: str, timezone: str | None, actor: str | None, reason: str | None) -> Query[bool]:
    timetable(expression, timezone or "UTC", "run_late", "run_once")
    times = {"expression": expression} if timezone is None else {"expression": expression, "timezone": timezone}
    return schedule_queries.put(name, times, True, actor, reason)


def check_times(expression: str | None, options: ScheduleOptions) -> str:
    """The expression of a schedule. Raises InvalidArgument if its times are not clear."""
    every = options.get("every")
    if (expression is None) == (every is None):
        raise InvalidArgument(
            f'give either an expression such as "0 9 * * mon" or every="90s", got {expression!r} and every={every!r}'
        )
    if every is not None:
        seconds = f"{duration(every, 'every').total_seconds():.3f}".rstrip("0").rstrip(".")
        expression = f"every {seconds}s"
    timetable(
        expression or "",
        options.get("timezone", "UTC"),
        options.get("clocks_forward", "run_late"),
        options.get("clocks_back", "run_once"),
    )
    return expression or ""


def declare(
    name: str, expression: str | None, function: AnyFunction, arguments: Mapping[str, Any], options: ScheduleOptions
) -> Declaration:
    """Check a schedule."""
    if not isinstance(function, JobFunction):
        raise InvalidArgument(f"a schedule needs a job function, got {function!r}; decorate it with @app.job")
    limit = function.backend.payload_limit
    defaults: dict[str, Any] = {name: function.defaults[name] for name in ("priority", "queue", "max_attempts")}
    defaults.update((name, options.get(name)) for name in ("priority", "queue", "max_attempts") if name in options)
    check_options(**defaults)
    missed_limit = options.get("missed_limit", MISSED_LIMIT)
    if isinstance(missed_limit, bool) or not isinstance(missed_limit, int) or not 1 <= missed_limit <= 10_000:
        raise InvalidArgument(f"missed_limit must be an integer from 1 to 10,000, got {missed_limit!r}")
    start, end = options.get("start"), options.get("end")
    for moment, which in ((start, "start"), (end, "end")):
        if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
            raise InvalidArgument(f"{which} must be a datetime with a time zone, got {moment!r}")
    key = options.get("key")
    with Noted() as used:
        data = function.arguments.bind((), dict(arguments), limit)
    if used:
        raise InvalidArgument(
            f"schedule {name!r} has stored content as an argument, which is kept only while a job uses it; "
            "let the function find it by a name of your own"
        )
    return Declaration(
        name=schedule_queries.schedule_name(name),
        job_type=function.name,
        data=data.text,
        expression=check_times(expression, options),
        timezone=options.get("timezone", "UTC"),
        clocks_forward=options.get("clocks_forward", "run_late"),
        clocks_back=options.get("clocks_back", "run_once"),
        key=None if key is None else text_within(key, 200, "key"),
        missed=choice(options.get("missed", "latest"), Missed, "missed"),  # type: ignore[arg-type]
        missed_limit=missed_limit,
        overlap=choice(options.get("overlap", "allow"), Overlap, "overlap"),  # type: ignore[arg-type]
        jitter=duration(options.get("jitter", 0), "jitter"),
        starts_at=start,
        ends_at=end,
        **defaults,
    )
