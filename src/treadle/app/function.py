"""A job function: an ordinary function that can also be enqueued."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack
from uuid import UUID

from treadle.app.arguments import Arguments
from treadle.app.backend import Backend
from treadle.app.handle import Handle
from treadle.db.database import Database, Source
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import stored as stored_queries
from treadle.db.queries.jobs import EnqueueOptions
from treadle.db.query import Query
from treadle.words.backoff import Backoff
from treadle.words.errors import InvalidArgument, InvalidJob
from treadle.words.payload import Encoded
from treadle.words.stored import Noted

P = ParamSpec("P")  # the parameters of enqueue(): those of the function, without the job
R = TypeVar("R")  # the result of the job
Q = ParamSpec("Q")  # the parameters of the function itself
C = TypeVar("C")  # what a call returns: for an async function, a coroutine


class UsingOptions(EnqueueOptions, total=False):
    """The options of using()."""

    key: str | None
    """Jobs with the same key run one at a time, in the order in which they were enqueued."""
    unique: str | None
    """While an unfinished job of this type has the same value, no job is added and its handle is returned."""
    connection: Source | None
    """Your connection, of psycopg, asyncpg, SQLAlchemy or Django: the job becomes part of its transaction."""


class Defaults(TypedDict, total=False):
    """The options of a job function that using() can override."""

    priority: int
    queue: str
    max_attempts: int


@dataclass(frozen=True)
class Policy:
    """How the jobs of a function are run."""

    backoff: Backoff
    timeout: float | None = None
    deadline: float | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()
    process: bool = False
    memory_limit: int | None = None
    logs: bool = True
    prints: bool = False


class Enqueuer(Generic[P, R]):
    """A job function with options: what using() returns."""

    def __init__(self, function: "JobFunction[P, R, ..., Any]", options: UsingOptions) -> None:
        self._function = function
        self._options = options

    def using(self, **options: Unpack[UsingOptions]) -> "Enqueuer[P, R]":
        """Return the same function with other options: priority, queue, delay, run_at, max_attempts, key, unique and
        connection."""
        return Enqueuer(self._function, {**self._options, **options})

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call of the function and return a handle of the job. The arguments are checked first."""
        queries, database = self._one(args, kwargs)
        return self._function.handle(database.run_together(queries)[-1][0])

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        queries, database = self._one(args, kwargs)
        return self._function.handle((await database.arun_together(queries))[-1][0])

    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str | None] | None = None
    ) -> list[Handle[R]]:
        """Enqueue one job for each mapping of arguments, all or none, and return their handles."""
        queries, database = self._many(calls, keys)
        return [self._function.handle(job_id) for ids in database.run_together(queries) for job_id in ids]

    async def aenqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str | None] | None = None
    ) -> list[Handle[R]]:
        queries, database = self._many(calls, keys)
        return [self._function.handle(job_id) for ids in await database.arun_together(queries) for job_id in ids]

    def _one(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Query[list[UUID]]], Database]:
        database, key, unique, options = self._resolved()
        self._function.arguments.check_annotations()
        limit = self._function.backend.payload_limit
        with Noted() as used:
            data = self._function.arguments.bind(args, kwargs, limit)
        queries = [job_queries.enqueue(self._function.name, data, key, limit, unique, **options)]
        if used:
            queries = stored_queries.enqueue_using(queries, [(0, each) for each in used])
        return queries, database

    def _many(
        self, calls: Iterable[Mapping[str, Any]], keys: Iterable[str | None] | None
    ) -> tuple[list[Query[list[UUID]]], Database]:
        database, key, unique, options = self._resolved()
        if unique is not None:
            raise InvalidArgument(f"unique cannot be used with enqueue_many, got {unique!r}")
        self._function.arguments.check_annotations()
        if key is not None and keys is None:
            calls = list(calls)
            keys = [key] * len(calls)
        uses: list[tuple[int, UUID]] = []

        limit = self._function.backend.payload_limit

        def encoded(nth: int, call: Mapping[str, Any]) -> Encoded:
            with Noted() as used:
                data = self._function.arguments.encode(call, limit)
            if used:
                uses.extend((nth, each) for each in used)
            return data

        payloads = starmap(encoded, enumerate(calls))
        queries = job_queries.enqueue_many(self._function.name, payloads, keys, limit, **options)
        if uses:
            queries = stored_queries.enqueue_using(queries, uses)
        return queries, database

    def _resolved(self) -> tuple[Database, str | None, str | None, EnqueueOptions]:
        """The database to enqueue into, key, unique, and the other options."""
        given: UsingOptions = {**self._function.defaults, **self._options}
        key, unique, connection = given.pop("key", None), given.pop("unique", None), given.pop("connection", None)
        database = self._function.backend.database
        if connection is not None:
            database = Database(connection, database.schema)
        return database, key, unique, given


class JobFunction(Enqueuer[P, R], Generic[P, R, Q, C]):
    """A function decorated with `@app.job`. Calling it calls the function; enqueue() enqueues the call."""

    def __init__(
        self,
        backend: Backend,
        function: Callable[..., Any],
        name: str,
        aliases: tuple[str, ...],
        policy: Policy,
        defaults: Defaults,
    ) -> None:
        super().__init__(self, {})
        self.backend = backend
        self.name = name
        self.aliases = aliases
        self.policy = policy
        self.defaults = defaults
        self.function = function
        self.arguments = Arguments(function)
        self.is_async = inspect.iscoroutinefunction(function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidJob(f"{name} is a generator function: a job function must return its result, or None")
        if policy.process and not self.importable:
            raise InvalidJob(
                f"{name} cannot run in a process of its own: it must be defined at the top level of a module"
            )
        functools.update_wrapper(self, function, updated=())

    def __call__(self, /, *args: Q.args, **kwargs: Q.kwargs) -> C:
        result: C = self.function(*args, **kwargs)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> "JobFunction[P, R, Q, C]":
        if instance is None:
            return self
        raise InvalidJob(f"{self.name} is a method: a job must be a function, so that any process can call it")

    def handle(self, job_id: UUID) -> Handle[R]:
        """Return a handle of a job of this type."""
        return Handle(self.backend, job_id, self.arguments.result)

    def encode_result(self, result: Any) -> str | None:
        """Encode what the handler returned as JSON."""
        if result is None:
            return None
        return self.arguments.result_encoder.encode(result, self.backend.payload_limit, "result")

    @property
    def importable(self) -> bool:
        """Whether another process can import it by name."""
        return "<" not in self.function.__qualname__

    def __repr__(self) -> str:
        return f"<job {self.name}>"
