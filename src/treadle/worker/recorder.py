"""Writes the events and log lines of running jobs: collected for 20 ms, then those of all jobs in one statement.

Nothing leaves an attempt's outbox before it is known to be written, and writing it twice is harmless. Before the
completer writes an outcome, it lets the recorder write the records of that job.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar
from uuid import UUID

from treadle.attempt.attempt import Attempt
from treadle.attempt.outbox import LOG_HEAD, LOG_TAIL, Outbox
from treadle.db.queries import events as event_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, RowLocked, reconnect_delay
from treadle.text.log import log
from treadle.words.clock import now
from treadle.words.errors import DatabaseUnreachable
from treadle.words.job import Claim
from treadle.words.record import OutgoingEvent, OutgoingLogLine
from treadle.worker.tasks import idle

Record = TypeVar("Record", OutgoingEvent, OutgoingLogLine)

# Short enough that listeners have an event within 0.1 s, long enough for batches.
GATHER_SECONDS = 0.02
# Events of one job in one statement.
EVENTS = 1000
# Characters in one statement: building it blocks the event loop, and writing it must not take more than seconds.
SIZE = 1024 * 1024
FLUSH_SECONDS = 10.0
# The delay before a row is retried that another transaction has locked.
LOCKED_SECONDS = 0.5


class Recorder:
    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        unavailable: Callable[[DatabaseUnavailable | None], None],
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._unavailable = unavailable
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._waking = False
        self._lock = asyncio.Lock()
        # Attempts with records. Not by job id: a task that an earlier attempt left behind may still publish events.
        self._attempts: dict[Attempt, None] = {}
        self._final_reports: list[worker_queries.Report] = []

    def notify(self, attempt: Attempt) -> None:
        """The attempt's outbox has new records. May be called from any thread."""
        self._attempts[attempt] = None
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake.set)

    def flush_now(self, attempt: Attempt) -> None:
        claim, progress = attempt.claim, attempt.take_progress()
        self.add_final_report(
            worker_queries.Report(claim, time.monotonic() - attempt.started, *(progress or (None, None, None)))
        )
        flushed = asyncio.run_coroutine_threadsafe(self._persist({claim.id}), self._loop)
        try:
            self._wait_for(flushed)
        except TimeoutError:
            flushed.cancel()
            raise DatabaseUnreachable(
                f"the events of job {claim.id} could not be written within {FLUSH_SECONDS:g} seconds: the database is "
                "unreachable, or another transaction has locked the job's row "
                "(inside job.transaction(), publish events with job.event, not with queue.event)"
            ) from None

    def _wait_for(self, flushed: "Future[None]") -> None:
        flushed.result(FLUSH_SECONDS)

    def add_final_report(self, report: worker_queries.Report) -> None:
        """Write the last progress of a job before its outcome."""
        self._final_reports.append(report)

    async def run(self) -> None:
        failures = 0
        while True:
            with idle():
                await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(GATHER_SECONDS)
            self._waking = False
            try:
                locked = await self.flush()
            except DatabaseUnavailable as error:
                self._unavailable(error)
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))
                self._wake.set()
            else:
                failures = 0
                if locked:
                    self._loop.call_later(LOCKED_SECONDS, self._wake.set)

    @property
    def has_something(self) -> bool:
        """Whether records are waiting, or being written."""
        return bool(self._attempts or self._final_reports or self._lock.locked())

    async def flush(self, only: set[UUID] | None = None) -> set[UUID]:
        """Write all records that were added before this call: those of all jobs, or only of some. Returns the jobs
        whose rows are locked by other transactions: they have to be retried."""
        locked: set[UUID] = set()
        if not self.has_something:
            return locked
        async with self._lock:
            await self._write_final_reports()
        attempts = [each for each in list(self._attempts) if only is None or each.claim.id in only]
        # Only up to the records that are there now, and with the lock released in between: a job that publishes without
        # end must not delay the other callers.
        ends = {each: each.outbox.last() for each in attempts}
        while attempts := [each for each in attempts if self._has_records(each) and each.outbox.is_behind(*ends[each])]:
            async with self._lock:
                locked |= await self._write_some(attempts)
            attempts = [each for each in attempts if each.claim.id not in locked]
        self._unavailable(None)
        return locked

    async def _write_some(self, attempts: list[Attempt]) -> set[UUID]:
        size = max(SIZE // len(attempts), 1)
        events = ((each, each.outbox.next_events(EVENTS, size)) for each in attempts)
        locked = await self._write(
            [each for each in events if each[1]],
            lambda batch: event_queries.record_events(self._worker_id, batch, now()),
            Outbox.events_written,
        )
        logs = ((each, each.outbox.next_log_lines(size)) for each in attempts if each.claim.id not in locked)
        return locked | await self._write(
            [each for each in logs if each[1]],
            lambda batch: log_queries.record_logs(self._worker_id, batch, now(), LOG_HEAD, LOG_TAIL),
            Outbox.log_lines_written,
        )

    async def _persist(self, only: set[UUID]) -> None:
        failures = 0
        while True:
            try:
                if not await self.flush(only):
                    return
            except DatabaseUnavailable as error:
                self._unavailable(error)
            failures += 1
            await asyncio.sleep(reconnect_delay(failures))

    async def _write_final_reports(self) -> None:
        reports = list(self._final_reports)
        if not reports:
            return
        try:
            await self._connection.run(worker_queries.report(self._worker_id, reports))
        except DatabaseUnavailable:
            raise
        except RowLocked:
            log.warning("the last progress of %s jobs could not be written: the row of one is locked", len(reports))
        except Exception:
            log.exception("the last progress of %s jobs could not be written", len(reports))
        del self._final_reports[: len(reports)]

    async def _write(
        self,
        batch: list[tuple[Attempt, list[Record]]],
        query: Callable[[list[tuple[Claim, list[Record]]]], Query[set[UUID]]],
        written: Callable[[Outbox, int], None],
    ) -> set[UUID]:
        """Returns the jobs whose rows are locked by other transactions."""
        if not batch:
            return set()
        try:
            accepted = await self._connection.run(query([(attempt.claim, records) for attempt, records in batch]))
        except DatabaseUnavailable:
            raise
        except Exception as error:
            # One job's records cannot be written. They must not delay those of others, nor the outcome of the job.
            if len(batch) > 1:
                locked = [await self._write([each], query, written) for each in batch]
                return set().union(*locked)
            attempt, records = batch[0]
            if isinstance(error, RowLocked):
                return {attempt.claim.id}
            log.exception("records of job %s could not be written and are dropped", attempt.claim.id)
            written(attempt.outbox, records[-1].sequence)
            return set()
        for attempt, records in batch:
            if attempt.claim.id in accepted:
                written(attempt.outbox, records[-1].sequence)
            else:
                attempt.outbox.discard()
        return set()

    def _has_records(self, attempt: Attempt) -> bool:
        """Whether its outbox has records; if not, the attempt is removed until it notifies again."""
        # Removed first: if records are added at this moment, notify() adds it again.
        self._attempts.pop(attempt, None)
        if attempt.outbox:
            self._attempts[attempt] = None
        return attempt in self._attempts
