"""A handle of an enqueued job: its state, its result, and what can be done to it from outside."""

import asyncio
import importlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from treadle.attempt.round_trip import explained
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import worker as worker_queries
from treadle.jobs import edits
from treadle.jobs.backend import Backend
from treadle.jobs.outputs import Output
from treadle.watching.streams import Stream
from treadle.watching.updates import job_events
from treadle.why.explain import awhy, why
from treadle.why.reason import Reason
from treadle.words.changes import Action
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, JobCancelled, JobFailed, UndecodableJob
from treadle.words.event_loop import refuse_to_wait
from treadle.words.job import JobError, JobRow
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import Progress
from treadle.words.status import Status

if TYPE_CHECKING:
    from treadle.watching.viewer import Viewer

Result = TypeVar("Result", covariant=True)

POLL_SECONDS = 0.2


class Handle(Generic[Result]):
    """An enqueued job, as enqueue() and app.handle() return it.

    Every method that queries the database has an async twin with an `a` in front: `result()` and `aresult()`.
    """

    def __init__(
        self,
        backend: Backend,
        job_id: UUID,
        result: TypeAdapter[Any] | None = None,
        is_new: bool = False,
        is_changed: bool = False,
        returns: Any = Any,
        job_types: Sequence[str] = (),
    ) -> None:
        """`result` is the type of the result of its job, which is of one of these types; by default, what the job
        turns out to be."""
        self._backend = backend
        self._database = backend.database
        self._job_types = job_types
        self._watch = backend.watch
        self._result = result
        self._returns = returns
        self.id = job_id
        self.is_new = is_new
        """Whether the call that returned this handle has added the job. With `unique`, it may have existed before."""
        self.is_changed = is_changed
        """Whether that call has changed a job that existed before."""

    @property
    def output(self) -> Result:
        """The result, as an argument of another job, which waits for this one: `ship.enqueue(receipt=pay.output)`."""
        return cast(Result, Output(self.id, self._returns))

    def job(self) -> JobRow:
        """Return the job's row as it is now. Raises JobNotFound if it has been deleted."""
        return self._database.run(job_queries.get_job(self.id))

    async def ajob(self) -> JobRow:
        return await self._database.arun(job_queries.get_job(self.id))

    def status(self) -> Status:
        """Return the job's status."""
        return self.job().status

    async def astatus(self) -> Status:
        return (await self.ajob()).status

    def progress(self) -> Progress:
        """Return the progress that the handler last reported."""
        return _progress(self.job())

    async def aprogress(self) -> Progress:
        return _progress(await self.ajob())

    def errors(self) -> list[JobError]:
        """Return the errors of the failed attempts, oldest first."""
        return self._database.run(worker_queries.get_errors(self.id))

    async def aerrors(self) -> list[JobError]:
        return await self._database.arun(worker_queries.get_errors(self.id))

    def events(self, after: int | str | None = None, *, follow: bool = True) -> Stream[RecordedEvent]:
        """Iterate over the events of the job and its status changes, with `for` or `async for`.

        Starts at the beginning, or after the event with the number or cursor `after`. Then follows the job live until
        it has finished, unless `follow` is False.
        """
        return job_events(self._database, self._watch, self.id, after, follow)

    def logs(self, after: int = 0) -> list[LogLine]:
        """Return what the handler logged, oldest first. If that is too much, the lines in the middle are dropped."""
        return self._database.run(log_queries.get_logs(self.id, after))

    async def alogs(self, after: int = 0) -> list[LogLine]:
        return await self._database.arun(log_queries.get_logs(self.id, after))

    def why(self) -> Reason:
        """Explain why the job is not running: the decisive reason, and what to do about it."""
        return why(self._database, self.id)

    async def awhy(self) -> Reason:
        return await awhy(self._database, self.id)

    def watch(self) -> Status:
        """Show a live progress bar and the job's events until it has finished, and return its status.

        Without a terminal, prints lines instead. Ctrl-C stops watching; the job continues.
        """
        refuse_to_wait("await handle.awatch()")
        return self._viewer().run()[self.id]

    async def awatch(self) -> Status:
        return (await self._viewer().arun())[self.id]

    def retry(self) -> None:
        """Run the job again, which must be finished, with at least one more attempt."""
        self._database.run(job_queries.retry(self.id))

    async def aretry(self) -> None:
        await self._database.arun(job_queries.retry(self.id))

    def cancel(self, reason: str | None = None) -> bool:
        """Cancel the job. If it is running, its handler is stopped. Of a workflow, all jobs are cancelled.

        Returns False if it has finished already.
        """
        return self._database.run(job_queries.cancel(self.id, reason))

    async def acancel(self, reason: str | None = None) -> bool:
        return await self._database.arun(job_queries.cancel(self.id, reason))

    def run_now(self) -> bool:
        """Make the job due now, if it was enqueued for later or waits for its next attempt. Returns False otherwise."""
        return self._database.run(operation_queries.change_job(Action.RUN_NOW, self.id))

    async def arun_now(self) -> bool:
        return await self._database.arun(operation_queries.change_job(Action.RUN_NOW, self.id))

    def set_priority(self, priority: int) -> bool:
        """Change the priority. That of a running job applies to its next attempt. Returns False if it has finished, or
        has this priority."""
        return self._database.run(operation_queries.change_job(Action.PRIORITY, self.id, priority))

    async def aset_priority(self, priority: int) -> bool:
        return await self._database.arun(operation_queries.change_job(Action.PRIORITY, self.id, priority))

    def delete(self) -> bool:
        """Delete the job with its events and logs. Returns False if a worker has claimed it: cancel it first."""
        return self._database.run(operation_queries.change_job(Action.DELETE, self.id))

    async def adelete(self) -> bool:
        return await self._database.arun(operation_queries.change_job(Action.DELETE, self.id))

    def edit(self, /, **arguments: Any) -> bool:
        """Change these arguments, before the job runs, or before you retry it: `handle.edit(user=8)`.

        They are checked as by enqueue(). Returns False if a worker has claimed the job, or if it has completed: copy()
        it then; or if nothing would change.
        """
        edited: bool = self._database.run_together(edits.edit(self._backend, self._checked(self.job()), arguments))[-1]
        return edited

    async def aedit(self, /, **arguments: Any) -> bool:
        row = self._checked(await self.ajob())
        edited: bool = (await self._database.arun_together(edits.edit(self._backend, row, arguments)))[-1]
        return edited

    def copy(self, /, **arguments: Any) -> "Handle[Result]":
        """Enqueue a new job like this one, with its arguments except for these, and return its handle. It is not
        unique, no part of a workflow, and waits for no other job."""
        queries = edits.copy(self._backend, self._checked(self.job()), arguments)
        return self._copy(self._database.run_together(queries)[-1])

    async def acopy(self, /, **arguments: Any) -> "Handle[Result]":
        queries = edits.copy(self._backend, self._checked(await self.ajob()), arguments)
        return self._copy((await self._database.arun_together(queries))[-1])

    def result(self, timeout: Duration | None = None) -> Result:
        """Wait until the job has finished, and return what its handler returned.

        Raises JobFailed or JobCancelled if that is how it finished, and TimeoutError if it has not finished within
        `timeout`. A notification wakes the caller; on your own connection, the job is polled every 0.2 s. On an event
        loop, it does not wait: use `await handle.aresult()`.
        """
        end = _deadline(timeout)
        while True:
            woken = self._watch.finished(self.id)
            try:
                row = self._database.persist(job_queries.get_job(self.id))
                if row.status.finished:
                    return self._returned(row)
                refuse_to_wait("await handle.aresult(…)")
                woken.result(self._wait_seconds(end))
            except TimeoutError:
                if end is not None and time.monotonic() >= end:
                    raise self._timed_out(timeout) from None
            finally:
                self._watch.forget(self.id, woken)

    async def aresult(self, timeout: Duration | None = None) -> Result:
        end = _deadline(timeout)
        while True:
            woken = self._watch.finished(self.id)
            try:
                row = await self._database.apersist(job_queries.get_job(self.id))
                if row.status.finished:
                    return self._returned(row)
                async with asyncio.timeout(self._wait_seconds(end)):
                    await asyncio.wrap_future(woken)
            except TimeoutError:
                if end is not None and time.monotonic() >= end:
                    raise self._timed_out(timeout) from None
            finally:
                self._watch.forget(self.id, woken)

    def _copy(self, job_id: UUID) -> "Handle[Result]":
        return Handle(self._backend, job_id, self._result, True, False, self._returns, self._job_types)

    def _viewer(self) -> "Viewer":
        # Imported on first use: most programs draw nothing, and rich is slow to import.
        module = importlib.import_module("treadle.watching.viewer")
        viewer: Viewer = module.Viewer(self._database, self._watch, [self.id])
        return viewer

    def _returned(self, row: JobRow) -> Result:
        if row.status == Status.FAILED:
            raise JobFailed(self.id, row.last_error)
        if row.status == Status.CANCELLED:
            raise JobCancelled(self.id, row.last_error)
        known = self._backend.arguments_of(self._checked(row).job_type)
        adapter = self._result or (None if known is None else known.result)
        if adapter is None:
            return cast(Result, row.result)
        try:
            return cast(Result, adapter.validate_json(to_json(row.result)))
        except ValidationError as error:
            raise UndecodableJob(
                f"the result of job {self.id} is not what {row.job_type} returns: {explained(error)}"
            ) from None

    def _checked(self, row: JobRow) -> JobRow:
        """The row, if it is that of a job of this function."""
        if self._job_types and row.job_type not in self._job_types:
            raise InvalidArgument(
                f"job {self.id} is a job of type {row.job_type}, not {self._job_types[0]}: use app.handle(…)"
            )
        return row

    def _wait_seconds(self, end: float | None) -> float | None:
        """How long to wait before the next query: on a caller's connection there are no notifications."""
        left = None if end is None else max(0.0, end - time.monotonic())
        if self._database.owned:
            return left
        return POLL_SECONDS if left is None else min(left, POLL_SECONDS)

    def _timed_out(self, timeout: Duration | None) -> TimeoutError:
        return TimeoutError(f"job {self.id} has not finished within {duration(timeout or 0).total_seconds():g} seconds")

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"


def _deadline(timeout: Duration | None) -> float | None:
    return None if timeout is None else time.monotonic() + duration(timeout, "timeout").total_seconds()


def _progress(row: JobRow) -> Progress:
    return Progress(row.progress, row.current_stage, **(row.pace or {}))
