"""The application: its job functions, its database, its listeners and middleware."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from treadle.app.backend import Backend
from treadle.app.declared_limits import DeclaredLimits
from treadle.app.function import Call, JobFunction
from treadle.app.handle import Handle
from treadle.app.job_options import Errors, JobOptions, job_options
from treadle.app.keep import checked_keep
from treadle.app.limits import Limits
from treadle.app.listeners import Kind, Listeners
from treadle.app.schedules import ScheduleOptions, Schedules
from treadle.app.workers import Workers
from treadle.app.workflows import Batch, WorkflowHandle
from treadle.app.workflows.batches import aopen_batch, open_batch
from treadle.attempt.attempt import running_job_id
from treadle.attempt.job import Job
from treadle.db.database import Database, Source
from treadle.db.queries.jobs import AnyJob, job_id
from treadle.queue import JobQueue
from treadle.store.source import Source as Storable
from treadle.store.store import GRACE, LIMIT, Store
from treadle.watching.streams import Stream, all_events
from treadle.watching.watch import Watch
from treadle.words.backoff import Backoff
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument, InvalidJob, UnknownJobType
from treadle.words.limits import FAIR_TYPES, AnyLimit, Limit, MaxPending, Per, Rate, declared_aging, declared_limits
from treadle.words.log_redaction import redact_own_log
from treadle.words.masking import Redaction, use_redaction
from treadle.words.naming import text_within
from treadle.words.payload import PAYLOAD_LIMIT
from treadle.words.record import RecordedEvent
from treadle.words.size import Size
from treadle.words.stored import Stored
from treadle.words.unique import OnConflict, Unique, While

if TYPE_CHECKING:
    from typing import Unpack

    from treadle.worker import Worker, WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
Middleware: TypeAlias = Callable[[Job, Callable[[], Awaitable[Any]]], Awaitable[Any]]


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


class Treadle:
    """An application: job functions and the database that their jobs are in.

    `database` is a URL, or your connection or pool, which cannot run workers. By default it is taken from
    TREADLE_DATABASE_URL or DATABASE_URL, or an embedded server is started. Nothing connects before the first use. By
    default `schema` is taken from TREADLE_SCHEMA, or is treadle. (docs/settings.md has all settings.)

    `listen_url` is a second URL of the same database, for receiving notifications where `database` leads to a pooler in
    transaction mode, which delivers none. By default it is taken from TREADLE_LISTEN_URL.

    `keep` says how long finished jobs are kept, by status; None keeps them forever. `store` is the URL of a folder or
    an object store for stored content, which is in the database by default. Stored content that no job uses is deleted
    once it is older than `store_grace`.

    Secrets are masked in errors, tracebacks and log lines before they are stored or written. `redaction` adds keys or a
    function to what is recognised; with False, they are masked only where they are shown. It applies to the process.

    With `fair_types`, the job types of one priority take turns; otherwise the oldest job comes first. With
    `aging`, such as "1h", jobs that have waited for longer get a tenth of the claims, whatever their priority: without
    it, jobs of a higher priority can hold them up for ever.
    """

    def __init__(
        self,
        database: Source | None = None,
        *,
        schema: str | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        pool_size: int = 10,
        listen_url: str | None = None,
        keep: Mapping[str, Duration | None] | None = None,
        store: str | None = None,
        store_grace: Duration = GRACE,
        store_limit: Size = LIMIT,
        redaction: Redaction | bool = True,
        fair_types: bool = False,
        aging: Duration | None = None,
    ) -> None:
        use_redaction(redaction)
        redact_own_log()
        self.database = Database(database, schema, pool_size, listen_url)
        self.schema = self.database.schema
        self.payload_limit = payload_limit
        self.queue = JobQueue(self.database, payload_limit=payload_limit)
        self.watch = Watch(self.database)
        self.backend = Backend(self.database, self.watch, payload_limit)
        self.listeners = Listeners()
        self.middlewares: list[Middleware] = []
        self.keep = checked_keep(keep or {})
        self.storage = Store(self.database, store, store_grace, store_limit)
        self.schedules = Schedules(self.database)
        self.limits = Limits(self.database)
        self.workers = Workers(self.database)
        self.declared_limits = DeclaredLimits()
        if fair_types:
            self.declared_limits.add([FAIR_TYPES], [""])
        if aging is not None:
            self.declared_limits.add([declared_aging(aging)], [""])
        self._functions: dict[str, JobFunction[..., Any, ..., Any]] = {}

    # Jobs

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
    @overload
    def job(
        self,
        /,
        *,
        name: str | None = ...,
        aliases: Sequence[str] = ...,
        priority: int = ...,
        queue: str = ...,
        max_attempts: int = ...,
        timeout: Duration | None = ...,
        deadline: Duration | None = ...,
        backoff: Backoff = ...,
        retry_on: Errors | None = ...,
        give_up_on: Errors = ...,
        process: bool = ...,
        memory_limit: Size | None = ...,
        logs: bool = ...,
        prints: bool = ...,
        schedule: str | None = ...,
        every: Duration | None = ...,
        timezone: str = ...,
        expires: Duration | None = ...,
        unique: Unique = ...,
        while_: While = ...,
        unique_for: Duration = ...,
        on_conflict: OnConflict | Sequence[OnConflict] = ...,
        debounce: Duration = ...,
        debounce_limit: Duration = ...,
        throttle: str = ...,
        limit: Limit | Sequence[Limit] = ...,
        rate: Rate | Sequence[Rate] = ...,
        max_pending: int | MaxPending | Sequence[MaxPending] = ...,
        fair_by: Per = ...,
        weight: int = ...,
    ) -> _Decorator: ...
    def job(
        self,
        function: Any = None,
        /,
        *,
        schedule: str | None = None,
        every: Duration | None = None,
        timezone: str | None = None,
        **given: Any,
    ) -> Any:
        """Decorate a function to make it a job function: `@app.job` or `@app.job(priority=10)`.

        The job type is the function's name, or `name`; `aliases` are former names, whose jobs it also runs. `priority`,
        `queue` and `max_attempts` are defaults that using() overrides.

        After `timeout` the handler is interrupted and the attempt fails; after `deadline`, by default 10 s later, it is
        killed. With `process=True` the handler runs in a child process, which can be killed alone, also when it exceeds
        `memory_limit`.

        A failed attempt is retried after `backoff`, which is exponential, with 50 % jitter. With `retry_on`, only these
        exceptions are retried; those of `give_up_on` never are. What the handler logs is stored with the job unless
        `logs` is False, and what it prints if `prints` is True.

        With `schedule`, a cron expression in `timezone`, or `every`, a duration, workers enqueue it at these times. It
        must then be callable without arguments; schedule() has more options.

        `expires` and the options for unique jobs (`unique`, `while_`, `unique_for`, `on_conflict`, `debounce`,
        `debounce_limit` and `throttle`) are those of using(), for every call.

        `limit` is how many of its jobs may run at once, `rate` how many may start per period, on all workers together:
        `limit=[Limit(100), Limit(3, per="tenant")], rate=Rate(10, "1s", per="tenant")`. A job uses `weight` of each.
        With `fair_by`, the values of that argument take turns. `max_pending` is how many may wait: then enqueue()
        raises QueueFull, or what `MaxPending(…)` says.
        """
        options = job_options(**given)
        if schedule is None and every is None:
            if timezone is not None:
                raise InvalidArgument(f"timezone needs a schedule, got {timezone!r} alone")
            return self._register(function, options) if function else lambda function: self._register(function, options)
        times: ScheduleOptions = {"timezone": timezone or "UTC"}
        if every is not None:
            times["every"] = every

        def register(function: Callable[..., Any]) -> JobFunction[..., Any, ..., Any]:
            made = self._register(function, options)
            self.schedules.declare(made.name, schedule, made, None, times)
            return made

        return register(function) if function else register

    def schedule(
        self,
        name: str,
        expression: str | None,
        function: JobFunction[..., Any, ..., Any],
        arguments: Mapping[str, Any] | None = None,
        **options: "Unpack[ScheduleOptions]",
    ) -> None:
        """Declare a schedule: `app.schedule("nightly", "0 3 * * *", report, {"kind": "full"}, timezone="Europe/Oslo")`.

        Workers of this code enqueue the function with these arguments at the times of the expression: cron with five or
        six fields, `@hourly` and the like; or None, with `every="90s"`. The options are those of ScheduleOptions.
        """
        self.schedules.declare(name, expression, function, arguments, options)

    def limit_queue(self, queue: str, *limits: AnyLimit) -> None:
        """Limit the jobs of a queue, whatever their type: `app.limit_queue("mail", Limit(5), Rate(100, "1m"))`."""
        self.declared_limits.limit_queue(text_within(queue, 50, "queue"), limits)

    def function(self, job_type: str) -> JobFunction[..., Any, ..., Any]:
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

    def handle(self, job: AnyJob) -> Handle[Any]:
        """Return a handle of the job with this id."""
        return Handle(self.backend, job_id(job))

    def workflow(self, job: AnyJob) -> WorkflowHandle:
        """Return a handle of the workflow with this id."""
        return WorkflowHandle(self.backend, job_id(job), is_new=False)

    def batch(self, name: str, *, deadline: Duration | None = None, **callbacks: Call[Any] | None) -> Batch:
        """Open a batch: a workflow that jobs are added to over time, from anywhere, until it is closed.

            with app.batch("import 7", on_success=report.call(7)) as batch:
                batch.enqueue_many(load, ({"row": row} for row in rows))

        When it is closed and all of its jobs have ended, `on_complete` is enqueued; if all have completed,
        `on_success`, else `on_failure`. If it has not ended within `deadline`, it is cancelled.
        """
        return open_batch(self.backend, name, deadline, callbacks)

    async def abatch(self, name: str, *, deadline: Duration | None = None, **callbacks: Call[Any] | None) -> Batch:
        return await aopen_batch(self.backend, name, deadline, callbacks)

    def events(
        self,
        *,
        types: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        after: str | None = None,
        follow: bool = True,
    ) -> Stream[RecordedEvent]:
        """Iterate over the events of all jobs, with `for` or `async for`: to forward them to another system.

        `types` and `names` select job types and event names. Starts at the oldest stored event, or after the event with
        the cursor `after`, and then follows live unless `follow` is False. Every event comes exactly once, however late
        its transaction commits.
        """
        return all_events(self.database, self.watch, _texts(types, "types"), _texts(names, "names"), after, follow)

    # Stored content

    def store(self, source: Storable, *, name: str | None = None) -> Stored:
        """Store bytes, the file at a Path, or an open binary file, and return a reference to it.

        The reference can be an argument or the result of a job. The content is kept as long as a job exists that was
        enqueued with the reference, stored it or returned it.
        """
        return self.storage.write(source, name, running_job_id())

    async def astore(self, source: Storable, *, name: str | None = None) -> Stored:
        return await self.storage.awrite(source, name, running_job_id())

    def open(self, stored: Stored) -> BufferedReader:
        """Open stored content as a binary file. It is read in parts, and its digest is checked at the end."""
        return self.storage.open(stored)

    def read(self, stored: Stored) -> bytes:
        """Read stored content into memory."""
        with self.storage.open(stored) as file:
            return file.read()

    async def aread(self, stored: Stored) -> bytes:
        return b"".join([part async for part in self.storage.aparts(stored)])

    def aparts(self, stored: Stored) -> AsyncIterator[bytes]:
        """Iterate over stored content in parts of 256 kB: `async for part in app.aparts(stored)`."""
        return self.storage.aparts(stored)

    # Workers

    def on(self, kind: type[Kind]) -> Callable[[Callable[[Kind], C]], Callable[[Kind], C]]:
        """Call the decorated function for every event of this class (see treadle.events), in the worker process."""

        def add(listener: Callable[[Kind], C]) -> Callable[[Kind], C]:
            self.listeners.add(kind, listener)
            return listener

        return add

    def middleware(self, middleware: Middleware) -> Middleware:
        """Wrap every handler in an async function: `async def timed(job, call_next): return await call_next()`.

        The middleware that is added first is the outermost.
        """
        self.middlewares.append(middleware)
        return middleware

    def worker(self, **options: "Unpack[WorkerOptions]") -> "Worker":
        """Return a worker that runs inside this program: `async with app.worker(): …`."""
        # The one import that points up: the worker imports the application, and is started from here.
        worker: Worker = importlib.import_module("treadle.worker").Worker(self, **options)
        return worker

    def run_worker(self, **options: "Unpack[WorkerOptions]") -> None:
        """Run a worker until SIGTERM or Ctrl-C, or, with `drain=True`, until no job is left to run."""
        importlib.import_module("treadle.worker").run_worker(self, **options)

    # Closing

    def close(self) -> None:
        """Close the connections that the application opened."""
        self.watch.close()
        self.database.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.watch.close)
        await self.database.aclose()

    def _register(self, function: Callable[..., Any], options: JobOptions) -> JobFunction[..., Any, ..., Any]:
        if isinstance(function, JobFunction):
            raise InvalidJob(f"{function.name} is already a job function")
        if not callable(function) or not hasattr(function, "__name__"):
            raise InvalidJob(f"a job must be a function, got {function!r}")
        name = text_within(function.__name__ if options.name is None else options.name, 50, "job type")
        for alias in options.aliases:
            text_within(alias, 50, "alias")
        made: JobFunction[..., Any, ..., Any] = JobFunction(
            self.backend,
            function,
            name,
            options.aliases,
            options.policy,
            options.defaults,
            declared_limits(options.limits, options.fair_by, name),
            options.parts,
            options.wait,
        )
        for known in (name, *options.aliases):
            if known in self._functions:
                raise InvalidJob(f"there are two job functions called {known!r}; give one of them another name=…")
        self.declared_limits.add(made.limits, (name, *options.aliases))
        for known in (name, *options.aliases):
            self._functions[known] = made
        return made


def _texts(given: Sequence[str] | None, name: str) -> list[str] | None:
    if isinstance(given, str):
        raise InvalidArgument(f"{name} must be a list of strings, got {given!r}")
    return None if given is None else list(given)
