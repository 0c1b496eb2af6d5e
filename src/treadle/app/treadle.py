"""The application: its job functions, its database, its listeners and middleware."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from io import BufferedReader
from typing import TYPE_CHECKING, Any, TypeVar

from treadle.app.discover import discover
from treadle.app.limits import Limits
from treadle.app.workers import Workers
from treadle.attempt.attempt import running_job_id
from treadle.db.database import Database, Source
from treadle.db.queries.jobs import AnyJob, job_id
from treadle.jobs.arguments import Arguments
from treadle.jobs.backend import Backend
from treadle.jobs.declared_limits import DeclaredLimits
from treadle.jobs.function import Call
from treadle.jobs.group import JobGroup
from treadle.jobs.handle import Handle
from treadle.jobs.job_options import JobDefaults
from treadle.jobs.keep import checked_keep
from treadle.jobs.listeners import Kind, Listeners
from treadle.jobs.middleware import EnqueueMiddleware, Middleware
from treadle.jobs.schedules import AnyFunction, DeclaredSchedule, Schedules
from treadle.jobs.workflows import Batch, WorkflowHandle
from treadle.jobs.workflows.batches import aopen_batch, open_batch
from treadle.jobs.workload import Workload
from treadle.queue import JobQueue
from treadle.settings import value_of
from treadle.store.source import Source as Storable
from treadle.store.storage import Storage
from treadle.text.log_redaction import redact_own_log
from treadle.text.masking import Redaction, use_redaction
from treadle.watching.streams import Stream, all_events
from treadle.watching.watch import Watch
from treadle.words.connections import Connections, check_connections
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument
from treadle.words.event_loop import refuse_to_wait
from treadle.words.fairness import Fairness, check_fairness
from treadle.words.limits import AnyLimit
from treadle.words.naming import text_within
from treadle.words.options import known_options
from treadle.words.payload import PAYLOAD_LIMIT
from treadle.words.record import RecordedEvent
from treadle.words.store import Store, check_store
from treadle.words.stored import Stored

if TYPE_CHECKING:
    from typing import Unpack

    from treadle.worker.options import WorkerOptions
    from treadle.worker.worker import Worker

C = TypeVar("C")


class Treadle(JobGroup):
    """An application: job functions and the database that their jobs are in.

    `database` is a URL, or your connection or pool, which cannot run workers. By default it is taken from
    TREADLE_DATABASE_URL or DATABASE_URL, or an embedded server is started. Nothing connects before the first use. By
    default `schema` is taken from TREADLE_SCHEMA, or is treadle. (docs/settings.md has all settings.) `connections` are
    the number and the time limits of the connections that Treadle opens: `Connections(pool_size=20)`.

    `connection` is a connection of your own that enqueue(), handles and the like use, so that jobs are part of its
    transactions: Django's, which is another one on each thread. Workers, and what a handler saves, use `database`.

    `keep` says how long finished jobs are kept, by status; None keeps them forever. `store` is the URL of a folder or
    an object store for stored content, which is in the database by default, or `Store(…)`.

    Secrets are masked in errors, tracebacks and log lines before they are stored or written. `redaction` adds keys or a
    function to what is recognised; with False, they are masked only where they are shown. It applies to the process.

    `fairness` says which jobs of different types and priorities are claimed first: `Fairness(aging="1h")`.

    `defaults` are options of the job functions that do not say otherwise, also those of groups:
    `JobDefaults(timeout="10m", retry=Retries(1))`.

    `version` names the version of your code, such as a tag or a commit: the groups of errors say in which versions they
    occur. By default it is taken from TREADLE_APP_VERSION.
    """

    @known_options("Treadle()")
    def __init__(
        self,
        database: Source | None = None,
        *,
        schema: str | None = None,
        connections: Connections | None = None,
        connection: Source | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        keep: Mapping[str, Duration | None] | None = None,
        store: str | Store | None = None,
        redaction: Redaction | bool = True,
        fairness: Fairness | None = None,
        defaults: JobDefaults | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(defaults=defaults)
        use_redaction(redaction)
        redact_own_log()
        self.database = Database(database, schema, check_connections(connections))
        self.schema = self.database.schema
        self.payload_limit = payload_limit
        calls = self.database if connection is None else Database(connection, schema)
        self.queue = JobQueue(calls, payload_limit=payload_limit)
        self.watch = Watch(self.database)
        self.backend = Backend(calls, self.watch, payload_limit, pools=self.database, arguments_of=self._arguments_of)
        self.listeners = Listeners()
        self.storage = Storage(calls, check_store(store))
        self.schedules = Schedules(calls)
        self.limits = Limits(calls)
        self.workers = Workers(calls)
        self.declared_limits = DeclaredLimits(check_fairness(fairness).settings())
        self.workload = Workload(
            self,
            self.database,
            self.listeners,
            self.backend.middlewares,
            self.schedules,
            self.declared_limits,
            checked_keep(keep or {}),
            self.storage.grace,
            _version(version),
            self.aclose,
        )
        """What workers run."""

    # Jobs

    def include(self, *groups: JobGroup) -> None:
        """Include the job functions and schedules of these groups, also those that they get later."""
        for group in groups:
            if not isinstance(group, JobGroup) or isinstance(group, Treadle):
                raise InvalidArgument(f"expected a JobGroup(), got {group!r}")
            group._join(self)

    def discover(self, *packages: str, module: str = "jobs") -> list[str]:
        """Import all modules called `jobs` in these packages, such as shop.jobs and shop.orders.jobs, and include the
        groups that they define. Returns the names of the modules."""
        found = discover(packages, module)
        for each in found:
            self.include(*(value for value in vars(each).values() if type(value) is JobGroup))
        return [each.__name__ for each in found]

    def limit_queue(self, queue: str, *limits: AnyLimit) -> None:
        """Limit the jobs of a queue, whatever their type: `app.limit_queue("mail", Limit(5), Rate(100, "1m"))`."""
        self.declared_limits.limit_queue(text_within(queue, 50, "queue"), limits)

    def handle(self, job: AnyJob) -> Handle[Any]:
        """Return a handle of the job with this id. Its result has the type that the function of the job returns, if the
        application has it; `ship.handle(id)` says so to type checkers, too."""
        return Handle(self.backend, job_id(job))

    def workflow(self, job: AnyJob) -> WorkflowHandle[Any]:
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
        """Run the decorated function around every handler. The one that is added first is the outermost.

        A generator function, `def timed(job): …; yield; …`, runs where the handler does: on its thread, on the event
        loop, or in its child process. An async function, `async def timed(job, call_next): return await call_next()`,
        runs on the worker's event loop, can change the result, and can call the handler again.
        """
        self.backend.middlewares.add(middleware)
        return middleware

    def enqueue_middleware(self, middleware: EnqueueMiddleware) -> EnqueueMiddleware:
        """Run the decorated generator function around every enqueue: `def traced(call): call.headers["trace"] = "7";
        yield`."""
        self.backend.middlewares.add_enqueue(middleware)
        return middleware

    def worker(self, **options: "Unpack[WorkerOptions]") -> "Worker":
        """Return a worker that runs inside this program: `async with app.worker(): …`."""
        from treadle.worker.worker import Worker  # programs that only enqueue do not load it

        return Worker(self.workload, **options)

    def run_worker(self, **options: "Unpack[WorkerOptions]") -> None:
        """Run a worker until SIGTERM or Ctrl-C, or, with `drain=True`, until no job is left to run."""
        from treadle.worker.run import run_worker

        refuse_to_wait("async with app.worker(…)")
        run_worker(self.workload, **options)

    # Closing

    def close(self) -> None:
        """Close the connections that the application opened."""
        self.watch.close()
        self.database.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.watch.close)
        await self.database.aclose()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            queue = "" if name.startswith("_") or not hasattr(JobQueue, name) else f"; use app.queue.{name}()"
            raise AttributeError(f"Treadle() has no attribute {name!r}{queue}", name=name, obj=self)

    def _arguments_of(self, job_type: str) -> Arguments | None:
        function = self._functions.get(job_type)
        return None if function is None else function.arguments

    def _add(self, function: AnyFunction) -> None:
        self._check_names(function)
        self.declared_limits.add(function.limits, (function.name, *function.aliases))
        self.declared_limits.add_settings(function.settings)
        super()._add(function)
        function.backend = self.backend

    def _declare(self, schedule: DeclaredSchedule) -> None:
        super()._declare(schedule)
        self.schedules.declare(schedule)


def _version(given: str | None) -> str | None:
    found = value_of("app_version") if given is None else given
    return None if found is None else text_within(found, 100, "version")


def _texts(given: Sequence[str] | None, name: str) -> list[str] | None:
    if isinstance(given, str):
        raise InvalidArgument(f"{name} must be a list of strings, got {given!r}")
    return None if given is None else list(given)
