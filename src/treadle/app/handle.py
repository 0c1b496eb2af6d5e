"""An enqueued job, from outside."""

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from treadle.db.queries import jobs
from treadle.db.queries import logs as log_queries
from treadle.watching.streams import Stream, job_events
from treadle.why.explain import awhy, why
from treadle.why.reason import Reason
from treadle.words.duration import Duration, duration
from treadle.words.errors import JobCancelled, JobFailed, UndecodableJob
from treadle.words.job import JobError, JobRow
from treadle.words.progress import Progress
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.status import Status

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle
    from treadle.watching.viewer import Viewer

Result = TypeVar("Result", covariant=True)

POLL_SECONDS = 0.2


class Handle(Generic[Result]):
    """Every method has an async twin with an `a` in front."""

    def __init__(self, app: "Treadle", job_id: UUID, result: TypeAdapter[Any] | None = None) -> None:
        self._app = app
        self._result = result
        self.id = job_id

    def job(self) -> JobRow:
        """The job as it is now."""
        return self._app.queue.get(self.id)

    async def ajob(self) -> JobRow:
        return await self._app.queue.aget(self.id)

    def status(self) -> Status:
        return self.job().status

    async def astatus(self) -> Status:
        return (await self.ajob()).status

    def progress(self) -> Progress:
        return _progress(self.job())

    async def aprogress(self) -> Progress:
        return _progress(await self.ajob())

    def errors(self) -> list[JobError]:
        """Why each of its attempts failed that did, oldest first."""
        return self._app.queue.errors(self.id)

    async def aerrors(self) -> list[JobError]:
        return await self._app.queue.aerrors(self.id)

    def events(self, after: int | str | None = None, *, follow: bool = True) -> Stream[RecordedEvent]:
        """What it tells and what becomes of it: from the beginning, or after the event of this number or cursor, and
        then live until it has ended (unless `follow` is False). `for` and `async for` both work."""
        return job_events(self._app, self.id, after, follow)

    def logs(self, after: int = 0) -> list[LogLine]:
        """What its handler logged, oldest first: the first lines and the last, if there were many."""
        return self._app.database.run(log_queries.get_logs(self.id, after))

    async def alogs(self, after: int = 0) -> list[LogLine]:
        return await self._app.database.arun(log_queries.get_logs(self.id, after))

    def why(self) -> Reason:
        """Why it does not run: the one reason, in a sentence, with what to do."""
        return why(self._app.database, self.id)

    async def awhy(self) -> Reason:
        return await awhy(self._app.database, self.id)

    def watch(self) -> Status:
        """Show a live bar of it, and what it tells, until it has ended; without a terminal, lines. Says how it ended.

        Ctrl-C only stops watching.
        """
        return self._viewer().run()[self.id]

    async def awatch(self) -> Status:
        return (await self._viewer().arun())[self.id]

    def cancel(self, reason: str | None = None) -> None:
        """End it. A handler that runs is stopped."""
        self._app.queue.cancel(self.id, reason)

    async def acancel(self, reason: str | None = None) -> None:
        await self._app.queue.acancel(self.id, reason)

    def result(self, timeout: Duration | None = None) -> Result:
        """What the handler returned, once it has; woken, not polled.

        Raises JobFailed, JobCancelled, or TimeoutError if it has not ended by then.
        """
        end = _moment(timeout)
        while True:
            woken = self._app.watch.end(self.id)
            try:
                row = self._app.database.persist(jobs.get(self.id))
                if row.status.finished:
                    return self._returned(row)
                woken.result(self._patience(end))
            except TimeoutError:
                if end is not None and time.monotonic() >= end:
                    raise self._late(timeout) from None
            finally:
                self._app.watch.forget(self.id, woken)

    async def aresult(self, timeout: Duration | None = None) -> Result:
        end = _moment(timeout)
        while True:
            woken = self._app.watch.end(self.id)
            try:
                row = await self._app.database.apersist(jobs.get(self.id))
                if row.status.finished:
                    return self._returned(row)
                async with asyncio.timeout(self._patience(end)):
                    await asyncio.wrap_future(woken)
            except TimeoutError:
                if end is not None and time.monotonic() >= end:
                    raise self._late(timeout) from None
            finally:
                self._app.watch.forget(self.id, woken)

    def _viewer(self) -> "Viewer":
        # When it is asked for: most programs draw nothing, and rich takes its time to load.
        viewer: Viewer = importlib.import_module("treadle.watching.viewer").Viewer(self._app, [self.id])
        return viewer

    def _returned(self, row: JobRow) -> Result:
        if row.status == Status.FAILED:
            raise JobFailed(self.id, row.last_error)
        if row.status == Status.CANCELLED:
            raise JobCancelled(self.id, row.last_error)
        if self._result is None:
            return cast(Result, row.result)
        try:
            return cast(Result, self._result.validate_json(to_json(row.result)))
        except ValidationError as error:
            raise UndecodableJob(f"the result of job {self.id} is not what {row.job_type} returns: {error}") from None

    def _patience(self, end: float | None) -> float | None:
        """How long to wait before looking again: on a connection of the caller's nobody is woken."""
        left = None if end is None else max(0.0, end - time.monotonic())
        if self._app.database.owned:
            return left
        return POLL_SECONDS if left is None else min(left, POLL_SECONDS)

    def _late(self, timeout: Duration | None) -> TimeoutError:
        return TimeoutError(f"job {self.id} has not ended within {duration(timeout or 0).total_seconds():g} seconds")

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"


def _moment(timeout: Duration | None) -> float | None:
    return None if timeout is None else time.monotonic() + duration(timeout, "timeout").total_seconds()


def _progress(row: JobRow) -> Progress:
    return Progress(row.progress, row.current_stage, **(row.pace or {}))
