"""Handles of workflows and batches that are enqueued."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Generic, Self
from uuid import UUID

import typing_extensions  # for defaults of type variables

from treadle.db.database import DatabaseError
from treadle.db.queries import enqueueing
from treadle.db.queries import workflows as queries
from treadle.db.queries.workflows import Member, WorkflowCounts
from treadle.jobs.arguments import adapter_of
from treadle.jobs.backend import Backend
from treadle.jobs.function import Enqueuer
from treadle.jobs.handle import Handle
from treadle.words.errors import InvalidArgument, TreadleError

R = typing_extensions.TypeVar("R", covariant=True, default=Any)

_FAILURES = (TreadleError, DatabaseError, OSError)


class WorkflowHandle(Handle[R], Generic[R]):
    """An enqueued workflow. It is a job that ends when all of its jobs have ended: completed if all of them have
    completed, else failed."""

    def __init__(
        self,
        backend: Backend,
        job_id: UUID,
        steps: Mapping[str, Handle[Any]] | None = None,
        is_new: bool = True,
        returns: Any = Any,
    ) -> None:
        super().__init__(backend, job_id, adapter_of(returns), is_new, returns=returns)
        self.steps = dict(steps or {})
        """Handles of the steps that have a name."""

    def jobs(self) -> list[Member]:
        """The jobs, in the order in which they were enqueued, with their status."""
        return self._database.run(queries.find_members(self.id))

    async def ajobs(self) -> list[Member]:
        return await self._database.arun(queries.find_members(self.id))

    def counts(self) -> WorkflowCounts:
        """How many jobs there are, and how they have ended. This costs the same for a million jobs as for ten."""
        return self._database.run(queries.count_members(self.id))

    async def acounts(self) -> WorkflowCounts:
        return await self._database.arun(queries.count_members(self.id))

    def retry(self) -> int:  # type: ignore[override]  # of how many jobs, instead of None
        """Retry the jobs that failed or were cancelled; the rest goes on. Returns how many."""
        return self._database.run(queries.retry_workflow(self.id))

    async def aretry(self) -> int:  # type: ignore[override]
        return await self._database.arun(queries.retry_workflow(self.id))

    def signal(self, name: str, value: Any = None, /, **values: Any) -> bool:
        """Send a signal to the step that waits for it, or will: `handle.signal("approved", by="ann")`. The value, or
        the values by their names, are the result of the step. Only the first signal counts: returns False if the step
        has got one before, or has ended in another way."""
        return self._database.run(queries.send_signal(self.id, name, _value(value, values)))

    async def asignal(self, name: str, value: Any = None, /, **values: Any) -> bool:
        return await self._database.arun(queries.send_signal(self.id, name, _value(value, values)))

    def close(self) -> bool:
        """Close a batch: it ends when all of its jobs have ended. Returns False if it is not open."""
        return self._database.run(queries.close_workflow(self.id))

    async def aclose(self) -> bool:
        return await self._database.arun(queries.close_workflow(self.id))


class Batch(WorkflowHandle[None]):
    """A workflow that jobs are added to over time, until it is closed: see Treadle.batch().

    As a context manager, it is closed at the end of the block; if the block raises an error, it is cancelled.
    """

    def enqueue(self, function: Enqueuer[..., Any], /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Enqueue a call as part of the batch: the same as `function.using(workflow=batch).enqueue(…)`."""
        return self._added(function).enqueue(*args, **kwargs)

    async def aenqueue(self, function: Enqueuer[..., Any], /, *args: Any, **kwargs: Any) -> Handle[Any]:
        return await self._added(function).aenqueue(*args, **kwargs)

    def enqueue_many(self, function: Enqueuer[..., Any], calls: Iterable[Mapping[str, Any]]) -> int:
        """Enqueue one job for each mapping of arguments, 5,000 in a transaction, so there may be any number of them.
        Returns how many."""
        added = self._added(function)
        return sum(len(added.enqueue_many(part)) for part in _parts(calls))

    async def aenqueue_many(self, function: Enqueuer[..., Any], calls: Iterable[Mapping[str, Any]]) -> int:
        added = self._added(function)
        return sum([len(await added.aenqueue_many(part)) for part in _parts(calls)])

    def _added(self, function: Enqueuer[..., Any]) -> Enqueuer[..., Any]:
        if not isinstance(function, Enqueuer):
            raise InvalidArgument(f"a batch enqueues job functions and their arguments, got {function!r}")
        return function.using(workflow=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            try:
                self.cancel(_reason(error))
            except _FAILURES as failure:
                error.add_note(self._stays_open(failure))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            await self.aclose()
        else:
            try:
                await self.acancel(_reason(error))
            except _FAILURES as failure:
                error.add_note(self._stays_open(failure))

    def _stays_open(self, failure: Exception) -> str:
        """The error of the block is what counts: during an outage, or for a role that may not cancel, too."""
        return f"Batch {self.id} stays open, because it could not be cancelled ({failure}): treadle cancel {self.id}"


def _value(value: Any, values: dict[str, Any]) -> Any:
    if value is not None and values:
        raise InvalidArgument("give either a value or values by their names, not both")
    return values or value


def _parts(calls: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    rest = iter(calls)
    while part := list(islice(rest, enqueueing.CHUNK)):
        yield part


def _reason(error: BaseException) -> str:
    return f"the block that enqueued its jobs raised {type(error).__name__}"
