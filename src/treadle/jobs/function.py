"""A job function: an ordinary function that can also be enqueued."""

import asyncio
import functools
import inspect
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import starmap
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, Unpack, cast
from uuid import UUID

from treadle.db.database import Database, Source
from treadle.db.queries import enqueueing
from treadle.db.queries import stored as stored_queries
from treadle.db.queries.enqueueing import EnqueueOptions
from treadle.db.queries.jobs import AnyJob, job_id
from treadle.db.queries.workflows import step_options
from treadle.db.query import Query
from treadle.jobs.arguments import Arguments
from treadle.jobs.backend import Backend
from treadle.jobs.handle import Handle
from treadle.jobs.job_options import JobDefaults, job_options
from treadle.jobs.middleware import EnqueueCall
from treadle.jobs.outputs import after_of, outputs_of
from treadle.jobs.policy import Policy
from treadle.words.after import After, HasId, Waitable, combined, id_of, waits_for
from treadle.words.errors import InvalidArgument, InvalidJob, NotIncluded, QueueFull
from treadle.words.event_loop import refuse_to_wait
from treadle.words.graph import SIGNAL, WORKFLOW
from treadle.words.limits import LimitDeclaration, Per, TypeSettings, partition_of
from treadle.words.naming import text_within
from treadle.words.options import Options
from treadle.words.payload import Encoded
from treadle.words.retries import check_retry_of_job
from treadle.words.stored import Noted
from treadle.words.unique import Enqueued, Unique, check_unique
from treadle.words.work import Work

P = ParamSpec("P")  # the parameters of enqueue(): those of the function, without the job
R = TypeVar("R")  # the result of the job
S = TypeVar("S", covariant=True)  # the same, of a call
Q = ParamSpec("Q")  # the parameters of the function itself
C = TypeVar("C")  # what a call returns: for an async function, a coroutine


# The size of a jsonb value.
_MOST_BYTES = 2**28 - 1


class UsingOptions(EnqueueOptions, total=False):
    """The options of using()."""

    key: str | None
    """Jobs with the same key run one at a time, in the order in which they were enqueued."""
    after: Waitable | Iterable[Waitable] | None
    """The job waits until these have completed: handles or ids. If one does not complete, the job is cancelled, unless
    it is given as ok_to_fail(…)."""
    workflow: HasId | UUID | str | None
    """The job becomes part of this workflow or batch; or, if this is a job, of the one that it is part of."""
    connection: Source | None
    """Your connection, of psycopg, asyncpg, SQLAlchemy or Django: the job becomes part of its transaction."""


_USING = Options("using()", UsingOptions.__annotations__)


class Enqueuer(Generic[P, R]):
    """A job function with options: what using() returns."""

    def __init__(self, function: "JobFunction[P, R, ..., Any]", options: UsingOptions) -> None:
        self._function = function
        self._options = options

    def using(self, **options: Unpack[UsingOptions]) -> "Enqueuer[P, R]":
        """Return the same function with other options: priority, queue, delay, run_at, retry, timeout, expires, key,
        unique, after, workflow, weight, partition, headers and connection."""
        _USING.check(options)
        check_unique(options.get("unique"))
        if "retry" in options:
            check_retry_of_job(options["retry"])
        return Enqueuer(self._function, {**self._options, **options})

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call of the function and return a handle of the job. The arguments are checked first."""
        with self._call_of() as call:
            queries, database = self._one(args, kwargs, call.headers)
            enqueued = _noted(self._run(queries, database), call)
        return self._function.handle_of(enqueued[-1])

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        with self._call_of() as call:
            queries, database = self._one(args, kwargs, call.headers)
            enqueued = _noted(await self._arun(queries, database), call)
        return self._function.handle_of(enqueued[-1])

    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str | None] | None = None
    ) -> list[Handle[R]]:
        """Enqueue one job for each mapping of arguments, all or none, and return their handles."""
        with self._call_of() as call:
            queries, database = self._many(calls, keys, call.headers)
            enqueued = _noted(self._run(queries, database), call)
        return [self._function.handle_of(each) for each in enqueued]

    async def aenqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str | None] | None = None
    ) -> list[Handle[R]]:
        with self._call_of() as call:
            queries, database = self._many(calls, keys, call.headers)
            enqueued = _noted(await self._arun(queries, database), call)
        return [self._function.handle_of(each) for each in enqueued]

    def call(self, /, *args: Any, **kwargs: Any) -> "Call[R]":
        """The call as a value, for chain(), group() and Workflow.add(). In a chain, the first argument may be left out.
        The arguments are checked when the workflow is enqueued."""
        return Call(self._function, self, args, kwargs)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Prepared":
        """A call with these arguments, checked."""
        chosen = self._resolved()
        if chosen.unique is not None or "connection" in self._options:
            raise InvalidArgument(f"{self._function.name}: a step of a workflow cannot be unique or have a connection")
        if chosen.after:
            raise InvalidArgument(f"{self._function.name}: give after to Workflow.add()")
        if chosen.workflow is not None:
            raise InvalidArgument(f"{self._function.name}: a step is part of its own workflow: leave out workflow")
        data, later = self._function.arguments.separate(args, kwargs, self._function.backend.payload_limit)
        options = step_options(chosen.options)
        if chosen.key is not None:
            options["key"] = text_within(chosen.key, 200, "key")
        if self._function.parts:
            self._check_known(later)
            options["partitions"] = [self._partition(data, chosen.options)]
        return Prepared(data.text, later, options)

    def _call_of(self) -> AbstractContextManager[EnqueueCall]:
        """Entered around an enqueue: runs the middlewares."""
        headers = self._options.get("headers", self._function.defaults.get("headers"))
        return self._function.backend.middlewares.around_enqueue(self._function.name, headers)

    def _run(self, queries: list[Query[list[Enqueued]]], database: Database) -> list[list[Enqueued]]:
        """If max_pending is reached, it is tried again for as long as the function says."""
        if self._function.wait:
            refuse_to_wait(f"await {self._function.name}.aenqueue(…)")
        end = time.monotonic() + (self._function.wait or 0)
        while True:
            try:
                return database.run_together(queries)
            except QueueFull:
                if time.monotonic() >= end:
                    raise
            time.sleep(_pause(end))

    async def _arun(self, queries: list[Query[list[Enqueued]]], database: Database) -> list[list[Enqueued]]:
        end = time.monotonic() + (self._function.wait or 0)
        while True:
            try:
                return await database.arun_together(queries)
            except QueueFull:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(_pause(end))

    def _one(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], headers: Mapping[str, str]
    ) -> tuple[list[Query[list[Enqueued]]], Database]:
        chosen = self._resolved(headers)
        arguments, limit = self._function.arguments, self._function.backend.payload_limit
        after = chosen.after
        with Noted() as used:
            data, later = arguments.separate(args, kwargs, limit)
        if later:
            after = [*after, *(each for name, value in later.items() for each in after_of(name, value))]
            self._check_known(later, chosen.unique)
        defaults = None if chosen.unique is None else arguments.defaults
        options = chosen.options
        share = self._partition(data, options) if self._function.parts else None
        queries = [
            enqueueing.enqueue(
                self._function.name,
                data,
                chosen.key,
                limit,
                defaults,
                combined(after),
                chosen.workflow,
                share,
                **options,
            )
        ]
        if used:
            queries = stored_queries.enqueue_using(queries, [(0, each) for each in used])
        return queries, chosen.database

    def _many(
        self, calls: Iterable[Mapping[str, Any]], keys: Iterable[str | None] | None, headers: Mapping[str, str]
    ) -> tuple[list[Query[list[Enqueued]]], Database]:
        chosen = self._resolved(headers)
        if chosen.key is not None and keys is None:
            calls = list(calls)
            keys = [chosen.key] * len(calls)
        uses: list[tuple[int, UUID]] = []
        partitions: list[str] = []
        arguments, limit = self._function.arguments, self._function.backend.payload_limit

        def encoded(nth: int, call: Mapping[str, Any]) -> Encoded:
            if isinstance(call, Mapping) and any(map(outputs_of, call.values())):
                raise InvalidArgument("enqueue_many() cannot pass results of other jobs: call enqueue() for each")
            with Noted() as used:
                data = arguments.encode(call, limit)
            if used:
                uses.extend((nth, each) for each in used)
            if self._function.parts:
                partitions.append(self._partition(data, chosen.options))
            return data

        payloads = starmap(encoded, enumerate(calls))
        defaults = None if chosen.unique is None else arguments.defaults
        queries = enqueueing.enqueue_many(
            self._function.name,
            payloads,
            keys,
            limit,
            defaults,
            partitions,
            in_one=self._function.wait is not None,
            after=combined(chosen.after),
            workflow=chosen.workflow,
            **chosen.options,
        )
        if uses:
            queries = stored_queries.enqueue_using(queries, uses)
        return queries, chosen.database

    def _check_known(self, later: Mapping[str, Any], unique: Unique | None = None) -> None:
        """What the results of other jobs are is known only when they have ended."""
        if unique is not None and unique.key is None and not later.keys().isdisjoint(unique.arguments or later):
            raise InvalidArgument(
                f"{min(later)} is the result of another job, but unique needs its value now: "
                "name other arguments, or use Once(key=…)"
            )
        names = {name for name, per in self._function.parts.items() if isinstance(per, str)} & later.keys()
        if names:
            raise InvalidArgument(
                f"{min(names)} is the result of another job, but a limit of {self._function.name} needs its value now: "
                "give it with using(partition=…)"
            )

    def _partition(self, data: Encoded, options: EnqueueOptions) -> str:
        arguments = {**self._function.arguments.defaults, **json.loads(data.text)}
        return partition_of(self._function.parts, arguments, options.get("partition"))

    def _resolved(self, headers: Mapping[str, str] | None = None) -> "_Chosen":
        """The options of the function and of using(), with these headers, if there are any."""
        given: UsingOptions = {**self._function.defaults, **self._options}
        if headers:
            given["headers"] = headers
        key, connection = given.pop("key", None), given.pop("connection", None)
        after = waits_for(given.pop("after", None))
        workflow = given.pop("workflow", None)
        database = self._function.backend.database
        if connection is not None:
            database = Database(connection, database.schema)
        self._function.arguments.check_annotations()
        if (unique := check_unique(given.get("unique"))) is not None:
            self._function.arguments.check_names(unique.arguments, "unique")
        options = cast(EnqueueOptions, given)
        return _Chosen(database, key, unique, options, after, None if workflow is None else id_of(workflow, "workflow"))


def _noted(enqueued: list[list[Enqueued]], call: EnqueueCall) -> list[Enqueued]:
    """The jobs, which the middlewares see, too."""
    jobs = [each for several in enqueued for each in several]
    call.ids = [each.id for each in jobs]
    return jobs


def _pause(end: float) -> float:
    """Seconds until an enqueue is tried again, with jitter, and once more at the end."""
    return min(random.uniform(0.05, 0.15), max(0.0, end - time.monotonic()))  # noqa: S311 - jitter, not a secret


class Prepared(NamedTuple):
    data: str
    """The payload, without the arguments that are results of other jobs."""
    outputs: dict[str, Any]
    """Those."""
    options: dict[str, Any]


class Call(Work[S], Generic[S]):
    """A call of a job function that is not enqueued yet."""

    def __init__(
        self,
        function: "JobFunction[..., S, ..., Any]",
        enqueuer: Enqueuer[..., S],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self._enqueuer = enqueuer

    def prepared(self) -> Prepared:
        return self._enqueuer.prepared(self.args, self.kwargs)

    def with_first(self, value: Any) -> "Call[S]":
        """The same call with this as its first argument, unless that is given or it has none."""
        first = self.function.arguments.first
        if self.args or first is None or first in self.kwargs:
            return self
        return Call(self.function, self._enqueuer, (), {first: value, **self.kwargs})

    def __repr__(self) -> str:
        return f"<call of {self.function.name}>"


class _Chosen(NamedTuple):
    database: Database
    key: str | None
    unique: Unique | None
    options: EnqueueOptions
    after: list[After]
    workflow: UUID | None


class JobFunction(Enqueuer[P, R], Generic[P, R, Q, C]):
    """A function decorated with `@app.job`. Calling it calls the function; enqueue() enqueues the call."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        aliases: tuple[str, ...],
        policy: Policy,
        defaults: EnqueueOptions,
        limits: Sequence[LimitDeclaration] = (),
        settings: Sequence[TypeSettings] = (),
        parts: Mapping[str, Per] = MappingProxyType({}),
        wait: float | None = None,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`given` are the options of its decorator, which defaults leave alone."""
        super().__init__(self, {})
        self._given = given
        self.limits = limits
        self.settings = settings
        self.parts = parts
        self.wait = wait  # for fewer jobs to wait; None: it has no max_pending
        self._backend: Backend | None = None
        self.name = name
        self.aliases = aliases
        self.policy = policy
        self.defaults = defaults
        self.function = function
        self.arguments = Arguments(function)
        if reserved := {WORKFLOW, SIGNAL} & {name, *aliases}:
            raise InvalidJob(f"{min(reserved)!r} is the type of Treadle's own jobs; give the function another name=…")
        module, qualname = (getattr(function, each, None) for each in ("__module__", "__qualname__"))
        # A program that is run has another name for its module than one that is imported.
        self.path = f"{module}.{qualname}" if module and qualname and module != "__main__" else None
        self.is_async = inspect.iscoroutinefunction(function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidJob(f"{name} is a generator function: a job function must return its result, or None")
        if policy.process and not self.importable:
            raise InvalidJob(
                f"{name} cannot run in a process of its own: it must be defined at the top level of a module"
            )
        functools.update_wrapper(self, function, updated=())

    @property
    def backend(self) -> Backend:
        """What it needs from its application. Raises NotIncluded while it has none."""
        if self._backend is None:
            raise NotIncluded(
                f"{self.name} is in a JobGroup that no application includes: "
                "import the module that calls app.include(…) first"
            )
        return self._backend

    @backend.setter
    def backend(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def payload_limit(self) -> int:
        """Of its application. Before it has one, the limit of PostgreSQL."""
        return _MOST_BYTES if self._backend is None else self._backend.payload_limit

    def fill_in(self, options: JobDefaults) -> None:
        """Give it these options where its decorator says nothing."""
        if options.given:
            self._given = options.with_given(self._given)
            checked = job_options(**self._given)
            self.policy, self.defaults = checked.policy, checked.defaults

    def __call__(self, /, *args: Q.args, **kwargs: Q.kwargs) -> C:
        result: C = self.function(*args, **kwargs)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> "JobFunction[P, R, Q, C]":
        if instance is None:
            return self
        raise InvalidJob(f"{self.name} is a method: a job must be a function, so that any process can call it")

    def handle(self, job: AnyJob) -> Handle[R]:
        """Return a handle of a job of this function, by its id. Its result has the type that the function returns."""
        return self.handle_of(Enqueued(job_id(job), is_new=False))

    def handle_of(self, enqueued: Enqueued) -> Handle[R]:
        """Return a handle of a job that was just enqueued."""
        return Handle(
            self.backend,
            enqueued.id,
            self.arguments.result,
            enqueued.is_new,
            enqueued.is_changed,
            self.arguments.returns,
            (self.name, *self.aliases),
        )

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
