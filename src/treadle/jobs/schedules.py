"""The schedules of an application: those that its code declares, and those that are added at run time."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from treadle.db.database import Database
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries.enqueueing import EnqueueOptions, check_options, scheduled
from treadle.db.query import Query
from treadle.jobs.function import JobFunction
from treadle.why.explain import awhy_schedule, why_schedule
from treadle.why.reason import Reason
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument, InvalidJob
from treadle.words.naming import text_within
from treadle.words.options import Options, known_options
from treadle.words.retries import Retries
from treadle.words.schedule import Declaration, ScheduleRow
from treadle.words.stored import Noted
from treadle.words.times import Times, check_times
from treadle.words.unique import Unique

AnyFunction = JobFunction[..., Any, ..., Any]


class ScheduleOptions(TypedDict, total=False):
    """The options of the jobs of a schedule; by default, those of the function."""

    priority: int
    queue: str
    retry: Retries
    """How often a job is retried."""
    key: str
    """Jobs with the same key run one at a time, in the order in which they were enqueued."""
    expires: Duration | None
    """A job that no worker has claimed this long after it was due is cancelled."""
    unique: Unique | None
    """While there is such a job, the schedule adds none: Once(), Debounce("30s") or Throttle(1, "5m")."""
    weight: int | None
    """How much of each of its limits a job uses."""
    headers: Mapping[str, str] | None
    """Named strings that are stored with each job, for middleware."""


class DeclaredSchedule(NamedTuple):
    """A schedule as the code has it."""

    name: str
    schedule: Times
    function: AnyFunction
    arguments: Mapping[str, Any] | None
    options: ScheduleOptions


_OPTIONS = Options("schedule()", ("schedule", "actor", "reason", *ScheduleOptions.__annotations__))


class Schedules:
    """`app.schedules()` lists the schedules; the methods change them. Those that code declares can be paused, resumed
    and run; to change or delete one, change the code."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._declared: list[DeclaredSchedule] = []

    def __call__(self) -> list[ScheduleRow]:
        return self._database.read(schedule_queries.find_schedules())

    async def alist(self) -> list[ScheduleRow]:
        return await self._database.aread(schedule_queries.find_schedules())

    def add(
        self,
        name: str,
        schedule: Times,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Add a schedule at run time. The arguments are checked like those of a call."""
        added = DeclaredSchedule(name, schedule, function, arguments, options)
        self._database.run(_added(declaration_of(added), actor, reason))

    async def aadd(
        self,
        name: str,
        schedule: Times,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        added = DeclaredSchedule(name, schedule, function, arguments, options)
        await self._database.arun(_added(declaration_of(added), actor, reason))

    @known_options("schedules.change()")
    def change(self, name: str, schedule: Times, *, actor: str | None = None, reason: str | None = None) -> None:
        """Change the times of a schedule that was added at run time, such as to `Cron("0 4 * * *")`. It keeps what is
        not given, such as its time zone."""
        self._database.run(_changed(name, schedule, actor, reason))

    @known_options("schedules.change()")
    async def achange(self, name: str, schedule: Times, *, actor: str | None = None, reason: str | None = None) -> None:
        await self._database.arun(_changed(name, schedule, actor, reason))

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

    def run_now(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """Enqueue a job now, in addition to those of its times. Returns False if none was added because its jobs are
        unique, and there is one."""
        return self._database.run(schedule_queries.operate("run", name, actor, reason))

    async def arun_now(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        return await self._database.arun(schedule_queries.operate("run", name, actor, reason))

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

    def declare(self, schedule: DeclaredSchedule) -> None:
        self._declared.append(schedule)

    def declared(self) -> list[Declaration]:
        """What the code declares, checked."""
        return [declaration_of(each) for each in self._declared]


def _added(declaration: Declaration, actor: str | None, reason: str | None) -> Query[bool]:
    columns = declaration._asdict()
    return schedule_queries.put(columns.pop("name"), columns, False, actor, reason)


def _changed(name: str, schedule: Times, actor: str | None, reason: str | None) -> Query[bool]:
    return schedule_queries.put(name, check_times(schedule).columns(), True, actor, reason)


def check_schedule(given: DeclaredSchedule) -> None:
    """Raise an error if it is wrong, as far as that can be known yet: annotations may name what is defined later."""
    options = _check(given)
    with suppress(InvalidJob):
        _data_of(given, options)


def declaration_of(given: DeclaredSchedule) -> Declaration:
    """What is stored of a schedule, which is checked."""
    options = _check(given)
    function = given.function
    data = _data_of(given, options)
    defaults = function.arguments.defaults if options.get("unique") is not None else {}
    key = given.options.get("key")
    return Declaration(
        name=schedule_queries.schedule_name(given.name),
        job_type=function.name,
        data=data,
        priority=options["priority"],
        queue=options["queue"],
        max_attempts=options["retry"].max_attempts,
        key=None if key is None else text_within(key, 200, "key"),
        options=scheduled(data, defaults, options) or None,
        **given.schedule.columns(),
    )


def _check(given: DeclaredSchedule) -> EnqueueOptions:
    """Raise an error if something other than the arguments is wrong; else return the options of its jobs."""
    schedule_queries.schedule_name(given.name)
    _OPTIONS.check(given.options)
    check_times(given.schedule)
    if not isinstance(given.function, JobFunction):
        raise InvalidArgument(f"a schedule needs a job function, got {given.function!r}; decorate it with @app.job")
    if given.arguments is not None and not isinstance(given.arguments, Mapping):
        raise InvalidArgument(
            f'the arguments of a schedule must be a mapping, such as {{"kind": "full"}}, got {given.arguments!r}'
        )
    if given.options.get("key") is not None:
        text_within(given.options["key"], 200, "key")
    options = cast(EnqueueOptions, {**given.function.defaults, **given.options})
    options.pop("key", None)  # type: ignore[typeddict-item]
    check_options(**options)
    scheduled("{}", {}, options)
    return options


def _data_of(given: DeclaredSchedule, options: EnqueueOptions) -> str:
    """The arguments, encoded."""
    function = given.function
    if (unique := options.get("unique")) is not None:
        function.arguments.check_names(unique.arguments, "unique")
    with Noted() as used:
        data = function.arguments.bind((), dict(given.arguments or {}), function.payload_limit)
    if used:
        raise InvalidArgument(
            f"schedule {given.name!r} has stored content as an argument, which is kept only while a job uses it; "
            "let the function find it by a name of your own"
        )
    return data.text
