"""The application: its job functions, its database, and who wants to know what happens."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from treadle.app.function import Defaults, JobFunction, Policy
from treadle.app.handle import Handle
from treadle.app.listeners import Kind, Listeners
from treadle.attempt.attempt import running_job_id
from treadle.attempt.job import Job
from treadle.db.database import Database, Source
from treadle.db.queries.jobs import AnyJob, check_options, job_id
from treadle.queue import JobQueue
from treadle.store.source import Source as Storable
from treadle.store.store import GRACE, LIMIT, Store
from treadle.watching.streams import Stream, all_events
from treadle.watching.watch import Watch
from treadle.words.backoff import Backoff
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, InvalidJob, UnknownJobType
from treadle.words.naming import SCHEMA, text_within
from treadle.words.payload import PAYLOAD_LIMIT
from treadle.words.priority import Priority
from treadle.words.record import RecordedEvent
from treadle.words.size import Size, size
from treadle.words.status import FINISHED, Status
from treadle.words.stored import Stored

if TYPE_CHECKING:
    from typing import Unpack

    from treadle.worker import Worker, WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
Middleware: TypeAlias = Callable[[Job, Callable[[], Awaitable[Any]]], Awaitable[Any]]
Errors: TypeAlias = type[BaseException] | Iterable[type[BaseException]]

# How long ended jobs are kept.
KEEP: Mapping[str, Duration | None] = {"completed": "7d", "cancelled": "7d", "failed": "30d"}
# Between asking a handler to stop and killing it.
DEADLINE_GRACE = 10.0


class _Decorator(Protocol):
    """What `app.job(…)` gives. The job is taken off where it comes first: a type checker can see only that."""

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


class _Registration(NamedTuple):
    name: str | None
    aliases: tuple[str, ...]
    policy: Policy
    defaults: Defaults


class Treadle:
    """Nothing connects before something is enqueued, asked or worked on.

    `database` is a URL, or a connection or pool of yours (then no worker can be run); left out, it is
    TREADLE_DATABASE_URL, else DATABASE_URL, else an embedded server. `keep` says how long ended jobs are kept, by
    status; None is for ever. `store` is the URL of a folder or an object store for what is stored, left out it is the
    database; what no job uses is removed when it is older than `store_grace`.
    """

    def __init__(
        self,
        database: Source | None = None,
        *,
        schema: str = SCHEMA,
        payload_limit: int = PAYLOAD_LIMIT,
        pool_size: int = 10,
        keep: Mapping[str, Duration | None] | None = None,
        store: str | None = None,
        store_grace: Duration = GRACE,
        store_limit: Size = LIMIT,
    ) -> None:
        self.database = Database(database, schema, pool_size)
        self.schema = self.database.schema
        self.payload_limit = payload_limit
        self.queue = JobQueue(self.database, schema=schema, payload_limit=payload_limit)
        self.watch = Watch(self.database)
        self.listeners = Listeners()
        self.middlewares: list[Middleware] = []
        self.keep = _keep(keep or {})
        self.storage = Store(self.database, store, store_grace, store_limit, running_job_id)
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
    ) -> _Decorator: ...
    def job(self, function: Any = None, /, **asked: Any) -> Any:
        """Make a function a job. Its type is the function's name, or `name`; `aliases` are names it had before.

        `timeout` asks the handler to stop, `deadline` (ten seconds later if not given) kills it. `process=True` runs it
        in a child process, which can be killed alone, also when it uses more than `memory_limit`. Exceptions are
        retried after `backoff`, or only those of `retry_on`, and never those of `give_up_on`. What the handler logs is
        kept with the job unless `logs` is False; what it prints, too, if `prints` is True.
        """
        registration = _registration(**asked)
        if function is not None:
            return self._register(function, registration)
        return lambda function: self._register(function, registration)

    def function(self, job_type: str) -> JobFunction[..., Any, ..., Any]:
        """The job function of this type, or of this old name."""
        try:
            return self._functions[job_type]
        except KeyError:
            known = ", ".join(sorted(self._functions)) or "none"
            raise UnknownJobType(f"there is no job type {job_type!r}; known are: {known}") from None

    @property
    def job_types(self) -> list[str]:
        """All names that this application has a function for, old ones included."""
        return sorted(self._functions)

    def handle(self, job: AnyJob) -> Handle[Any]:
        """The handle of a job whose id is known."""
        return Handle(self, job_id(job))

    def events(
        self,
        *,
        types: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        after: str | None = None,
        follow: bool = True,
    ) -> Stream[RecordedEvent]:
        """What all jobs tell, of these types and of these names: for a bridge to elsewhere.

        From the oldest that is kept, or after an event's `cursor`; then live, unless `follow` is False. None is left
        out, and none comes twice, however late it is committed. `for` and `async for` both work.
        """
        return all_events(self, _texts(types, "types"), _texts(names, "names"), after, follow)

    # Large things, by reference

    def store(self, source: Storable, *, name: str | None = None) -> Stored:
        """Store bytes, a file by its Path, or an open binary file; the reference can be an argument or a result.

        It is kept for as long as a job exists that was enqueued with it, or stored it, or returned it.
        """
        return self.storage.write(source, name)

    async def astore(self, source: Storable, *, name: str | None = None) -> Stored:
        return await self.storage.awrite(source, name)

    def open(self, stored: Stored) -> BufferedReader:
        """What is stored as a binary file: read part by part, with its digest checked at the end."""
        return self.storage.open(stored)

    def read(self, stored: Stored) -> bytes:
        """All of it, in memory."""
        with self.storage.open(stored) as file:
            return file.read()

    async def aread(self, stored: Stored) -> bytes:
        return b"".join([part async for part in self.storage.aparts(stored)])

    def aparts(self, stored: Stored) -> AsyncIterator[bytes]:
        """`async for part in app.aparts(stored)`: 256 kB at a time."""
        return self.storage.aparts(stored)

    # Around the work

    def on(self, kind: type[Kind]) -> Callable[[Callable[[Kind], C]], Callable[[Kind], C]]:
        """Call the decorated function with every event of this kind (see treadle.events), in the worker's process."""

        def add(listener: Callable[[Kind], C]) -> Callable[[Kind], C]:
            self.listeners.add(kind, listener)
            return listener

        return add

    def middleware(self, middleware: Middleware) -> Middleware:
        """Put an async function around every handler: `async def timed(job, call_next): return await call_next()`.

        The first one that was added is the outermost.
        """
        self.middlewares.append(middleware)
        return middleware

    def worker(self, **options: "Unpack[WorkerOptions]") -> "Worker":
        """A worker inside this program: `async with app.worker(): …`."""
        # The one import that points up: a worker needs to know the application, and people start it from here.
        worker: Worker = importlib.import_module("treadle.worker").Worker(self, **options)
        return worker

    def run_worker(self, **options: "Unpack[WorkerOptions]") -> None:
        """Work until SIGTERM or Ctrl-C, or, with drain=True, until nothing is left to do."""
        importlib.import_module("treadle.worker").run_worker(self, **options)

    # Closing

    def close(self) -> None:
        """Close the pool, if it is ours."""
        self.watch.close()
        self.database.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.watch.close)
        await self.database.aclose()

    def _register(self, function: Callable[..., Any], asked: _Registration) -> JobFunction[..., Any, ..., Any]:
        if isinstance(function, JobFunction):
            raise InvalidJob(f"{function.name} is a job already")
        if not callable(function) or not hasattr(function, "__name__"):
            raise InvalidJob(f"a job is a function, got {function!r}")
        name = text_within(function.__name__ if asked.name is None else asked.name, 50, "job type")
        for alias in asked.aliases:
            text_within(alias, 50, "alias")
        made: JobFunction[..., Any, ..., Any] = JobFunction(
            self, function, name, asked.aliases, asked.policy, asked.defaults
        )
        for known in (name, *asked.aliases):
            if known in self._functions:
                raise InvalidJob(f"there are two job functions called {known!r}; give one of them another name=…")
        for known in (name, *asked.aliases):
            self._functions[known] = made
        return made


def _registration(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    priority: int = Priority.DISCOVERED,
    queue: str = "default",
    max_attempts: int = 3,
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    backoff: Backoff | None = None,
    retry_on: Errors | None = None,
    give_up_on: Errors = (),
    process: bool = False,
    memory_limit: Size | None = None,
    logs: bool = True,
    prints: bool = False,
) -> _Registration:
    if isinstance(aliases, str):
        raise InvalidArgument(f"aliases must be a list of texts, got {aliases!r}")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise InvalidArgument(f"backoff must be a Backoff(…), got {backoff!r}")
    check_options(priority=priority, queue=queue, max_attempts=max_attempts)
    if memory_limit is not None and not process:
        raise InvalidArgument("memory_limit needs process=True: only a process of its own can be killed for it")
    soft = None if timeout is None else duration(timeout, "timeout").total_seconds()
    hard = None if deadline is None else duration(deadline, "deadline").total_seconds()
    if soft is not None and hard is not None and hard < soft:
        raise InvalidArgument(f"deadline must not come before timeout, got {deadline!r} and {timeout!r}")
    if soft == 0 or hard == 0:
        raise InvalidArgument(f"timeout and deadline must be longer than nothing, got {timeout!r} and {deadline!r}")
    policy = Policy(
        backoff=backoff or Backoff(),
        timeout=soft,
        deadline=soft + DEADLINE_GRACE if hard is None and soft is not None else hard,
        retry_on=None if retry_on is None else _classes(retry_on, "retry_on"),
        give_up_on=_classes(give_up_on, "give_up_on"),
        process=process,
        memory_limit=None if memory_limit is None else size(memory_limit, "memory_limit"),
        logs=bool(logs),
        prints=bool(prints),
    )
    return _Registration(
        name, tuple(aliases), policy, {"priority": priority, "queue": queue, "max_attempts": max_attempts}
    )


def _texts(given: Sequence[str] | None, name: str) -> list[str] | None:
    if isinstance(given, str):
        raise InvalidArgument(f"{name} must be a list of texts, got {given!r}")
    return None if given is None else list(given)


def _classes(given: Errors, name: str) -> tuple[type[BaseException], ...]:
    several = isinstance(given, Iterable) and not isinstance(given, type | str)
    classes: tuple[Any, ...] = tuple(given) if several else (given,)  # type: ignore[arg-type]
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidArgument(f"{name} must be exception classes, got {each!r}")
    return classes


def _keep(asked: Mapping[str, Duration | None]) -> dict[Status, Duration | None]:
    unknown = set(asked) - {status.value for status in FINISHED}
    if unknown:
        raise InvalidArgument(f"keep is by completed, failed or cancelled, got {', '.join(sorted(unknown))}")
    for status, span in asked.items():
        if span is not None:
            duration(span, f"keep[{status!r}]")
    return {Status(status): span for status, span in {**KEEP, **asked}.items()}
