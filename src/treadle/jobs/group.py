"""Job functions that are declared without an application: `@jobs.job` first, `app.include(jobs)` later."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from treadle.attempt.job import Job
from treadle.jobs.function import JobFunction
from treadle.jobs.job_options import CheckedOptions, JobDefaults, JobOptions, check_defaults, job_options
from treadle.jobs.schedules import AnyFunction, DeclaredSchedule, ScheduleOptions, check_schedule
from treadle.words.errors import InvalidJob, UnknownJobType
from treadle.words.limits import declared_limits, fair_settings
from treadle.words.naming import text_within
from treadle.words.options import known_options
from treadle.words.times import Times

if TYPE_CHECKING:
    from typing import Unpack

P = ParamSpec("P")
R = TypeVar("R")


class _Decorator(Protocol):
    """What `app.job(…)` returns. A type checker can only leave out a Job parameter that comes first."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Job, P], Coroutine[Any, Any, R]]
    ) -> JobFunction[P, R, Concatenate[Job, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> JobFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R]) -> JobFunction[P, R, Concatenate[Job, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobFunction[P, R, P, R]: ...


class JobGroup:
    """Job functions and schedules that an application includes, so that their modules need no application:

        jobs = JobGroup()

        @jobs.job
        def welcome(user_id: int) -> None: ...

        app.include(jobs)   # in the module of the application

    `defaults` are for those of its functions that do not say otherwise: `JobGroup(defaults=JobDefaults(queue="web"))`;
    what they leave open, the defaults of the application say.

    Before that, a job function can be called, but not enqueued. A group belongs to one application: enqueue() has to
    know which database the job goes to.
    """

    @known_options("JobGroup()")
    def __init__(self, *, defaults: JobDefaults | None = None) -> None:
        self._defaults = check_defaults(defaults)
        self._functions: dict[str, AnyFunction] = {}
        self._schedules: dict[str, DeclaredSchedule] = {}
        self._app: JobGroup | None = None

    @overload
    def job(self, /, **options: "Unpack[JobOptions]") -> _Decorator: ...
    @overload
    def job(
        self, function: Callable[Concatenate[Job, P], Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, R, Concatenate[Job, P], Coroutine[Any, Any, R]]: ...
    @overload
    def job(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> JobFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def job(self, function: Callable[Concatenate[Job, P], R], /) -> JobFunction[P, R, Concatenate[Job, P], R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> JobFunction[P, R, P, R]: ...
    def job(self, function: Any = None, /, **given: Any) -> Any:
        """Decorate a function to make it a job function: `@app.job` or `@app.job(priority=10)`.

        The job type is the function's name, or `name`; `aliases` are former names, whose jobs it also runs. `priority`
        and `queue` are defaults that using() overrides.

        A failed attempt is retried twice, or as `retry` says: `retry=Retries(5, on=ConnectionError,
        backoff=Backoff(first="2s"))`.

        After `timeout` the handler is interrupted and the attempt fails; 10 s later it is killed. With two durations,
        `timeout=("25s", "30s")`, it is killed after the second. With `process=True` the handler runs in a child
        process, which can be killed alone, also when it exceeds `memory_limit`.

        What the handler logs is stored with the job unless `logs` is False, and what it prints if `prints` is True.

        With `schedule`, workers enqueue it at these times: `schedule=Cron("0 9 * * mon", timezone="Europe/Oslo")` or
        `schedule=Every("90s")`. It must then be callable without arguments; schedule() can pass some.

        A job that no worker has claimed within `expires` after it was due is cancelled. With `unique`, a call may
        return a job that exists: `unique=Once("user")`, `Debounce("30s", "user")` or `Throttle(1, "5m", "user")`.

        `limits` are for all workers together: how many of its jobs run at once, start per period and wait, such as
        `limits=[Limit(100), Limit(3, per="tenant"), Rate(10, "1s"), MaxPending(1000)]`. A job uses `weight` of each.
        With `fair_by`, the values of that argument take turns.

        With `delivery="at_most_once"`, an attempt is recorded before it begins, and not repeated if its process dies:
        the job fails. Without `retry`, it is not repeated after an error either.
        """
        given = self._defaults.with_given(given)
        options = job_options(**given)

        def register(function: Callable[..., Any]) -> AnyFunction:
            made = _made(function, options, given)
            if options.schedule is None:
                self._add(made)
                return made
            schedule = DeclaredSchedule(made.name, options.schedule, made, None, {})
            self._check_schedule(schedule)  # first, so that a function that is refused is not registered
            self._add(made)
            self._declare(schedule)
            return made

        return register(function) if function else register

    def schedule(
        self,
        name: str,
        schedule: Times,
        function: AnyFunction,
        arguments: Mapping[str, Any] | None = None,
        **options: "Unpack[ScheduleOptions]",
    ) -> None:
        """Declare a schedule: `app.schedule("nightly", Cron("0 3 * * *"), report, {"kind": "full"}, queue="reports")`.

        Workers of this code enqueue the function with these arguments at these times. The options are those of
        ScheduleOptions.
        """
        self._declare(DeclaredSchedule(name, schedule, function, arguments, options))

    def function(self, job_type: str) -> AnyFunction:
        """Return the job function with this name or alias. Raises UnknownJobType if there is none."""
        try:
            return self._functions[job_type]
        except KeyError:
            known = ", ".join(sorted(self._functions)) or "none"
            raise UnknownJobType(f"there is no job type {job_type!r}; known types: {known}") from None

    @property
    def job_types(self) -> list[str]:
        """The names and aliases of all job functions."""
        return sorted(self._functions)

    def _check_names(self, function: AnyFunction) -> None:
        for name in (function.name, *function.aliases):
            if name in self._functions:
                raise InvalidJob(f"there are two job functions called {name!r}; give one of them another name=…")

    def _add(self, function: AnyFunction) -> None:
        self._check_names(function)
        if self._app is not None:
            self._app._add(function)
        function.fill_in(self._defaults)
        self._functions.update(dict.fromkeys((function.name, *function.aliases), function))

    def _check_schedule(self, schedule: DeclaredSchedule) -> None:
        if self._app is not None:
            self._app._check_schedule(schedule)
        if schedule.name in self._schedules:
            raise InvalidJob(f"there are two schedules called {schedule.name!r}; give one of them another name")
        check_schedule(schedule)

    def _declare(self, schedule: DeclaredSchedule) -> None:
        self._check_schedule(schedule)
        if self._app is not None:
            self._app._declare(schedule)
        self._schedules[schedule.name] = schedule

    def _join(self, app: "JobGroup") -> None:
        """Give the application what is declared here, and from now on what is declared later."""
        if self._app is app:
            return
        if self._app is not None:
            raise InvalidJob(
                "this group is part of another application: its functions are enqueued there; "
                "make a JobGroup() for each application"
            )
        functions = list(dict.fromkeys(self._functions.values()))
        for function in functions:
            app._check_names(function)
        for schedule in self._schedules.values():
            app._check_schedule(schedule)
        for function in functions:
            app._add(function)
        for schedule in self._schedules.values():
            app._declare(schedule)
        self._app = app


def _made(function: Callable[..., Any], options: CheckedOptions, given: Mapping[str, Any]) -> AnyFunction:
    if isinstance(function, JobFunction):
        raise InvalidJob(f"{function.name} is already a job function")
    if not callable(function) or not hasattr(function, "__name__"):
        raise InvalidJob(f"a job must be a function, got {function!r}")
    name = text_within(function.__name__ if options.name is None else options.name, 50, "job type")
    for alias in options.aliases:
        text_within(alias, 50, "alias")
    return JobFunction(
        function,
        name,
        options.aliases,
        options.policy,
        options.defaults,
        declared_limits(options.limits, name),
        [] if options.fair_by is None else fair_settings(options.fair_by, name, options.aliases),
        options.parts,
        options.wait,
        given,
    )
