"""The schedules of an application: those that its code declares, and those that are added at run time."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from treadle.db.database import Database
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries.enqueueing import check_options
from treadle.db.query import Query
from treadle.jobs.function import JobFunction
from treadle.why.explain import awhy_schedule, why_schedule
from treadle.why.reason import Reason
from treadle.words.errors import InvalidArgument, InvalidJob
from treadle.words.naming import text_within
from treadle.words.options import Options
from treadle.words.retries import Retries, check_retry_of_job
from treadle.words.schedule import Declaration, ScheduleRow
from treadle.words.stored import Noted
from treadle.words.times import Times, check_times

AnyFunction = JobFunction[..., Any, ..., Any]


class ScheduleOptions(TypedDict, total=False):
    """The options of the jobs of a schedule; by default, those of the function."""

    priority: int
    queue: str
    retry: Retries
    """How often a job is retried."""
    key: str
    """Jobs with the same key run one at a time, in the order in which they were enqueued."""


_OPTIONS = Options("schedule()", ("schedule", "actor", "reason", *ScheduleOptions.__annotations__))


class Schedules:
    """`app.schedules()` lists the schedules; the methods change them. Those that code declares can be paused, resumed
    and run; to change or delete one, change the code."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._declared: dict[str, tuple[AnyFunction, Mapping[str, Any], Times, ScheduleOptions]] = {}

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
        self._database.run(_added(declare(name, schedule, function, arguments or {}, options), actor, reason))

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
        await self._database.arun(_added(declare(name, schedule, function, arguments or {}, options), actor, reason))

    def change(self, name: str, schedule: Times, *, actor: str | None = None, reason: str | None = None) -> None:
        """Change the times of a schedule that was added at run time, such as to `Cron("0 4 * * *")`. It keeps what is
        not given, such as its time zone."""
        self._database.run(_changed(name, schedule, actor, reason))

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
        schedule: Times,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None,
        options: ScheduleOptions,
    ) -> None:
        """Remember a declaration. Its arguments are checked by declared(), when all that they name is defined."""
        if name in self._declared:
            raise InvalidJob(f"there are two schedules called {name!r}; give one of them another name")
        self._declared[schedule_queries.schedule_name(name)] = (function, arguments or {}, schedule, options)

    def declared(self) -> list[Declaration]:
        """What the code declares, checked."""
        return [
            declare(name, schedule, function, arguments, options)
            for name, (function, arguments, schedule, options) in self._declared.items()
        ]


def _added(declaration: Declaration, actor: str | None, reason: str | None) -> Query[bool]:
    columns = declaration._asdict()
    return schedule_queries.put(columns.pop("name"), columns, False, actor, reason)


def _changed(name: str, schedule: Times, actor: str | None, reason: str | None) -> Query[bool]:
    return schedule_queries.put(name, check_times(schedule).columns(), True, actor, reason)


def check_schedule(schedule: Times, options: ScheduleOptions) -> None:
    """Raise InvalidArgument if its times or its options are wrong."""
    _OPTIONS.check(options)
    check_times(schedule)
    if "retry" in options:
        check_retry_of_job(options["retry"])


def declare(
    name: str, schedule: Times, function: AnyFunction, arguments: Mapping[str, Any], options: ScheduleOptions
) -> Declaration:
    """Check a schedule."""
    check_schedule(schedule, options)
    if not isinstance(function, JobFunction):
        raise InvalidArgument(f"a schedule needs a job function, got {function!r}; decorate it with @app.job")
    limit = function.backend.payload_limit
    defaults: dict[str, Any] = {name: function.defaults[name] for name in ("priority", "queue", "retry")}
    defaults.update((name, options.get(name)) for name in ("priority", "queue", "retry") if name in options)
    check_options(**defaults)
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
        key=None if key is None else text_within(key, 200, "key"),
        max_attempts=defaults.pop("retry").max_attempts,
        **defaults,
        **schedule.columns(),
    )
