"""Writes outcomes in batches: the outcomes that arrive while one batch is written are the next batch.

No outcome is given up: while the database is unavailable they wait. Each is fenced by its lease number, so writing one
twice does no harm. If a reply is lost, the completer checks what was committed. An outcome whose row another
transaction has locked is postponed until the row is free, and the others are written meanwhile.

Until its outcome is stored, a job keeps its job slot: if the process ends before that, the job may be the cause.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

from treadle.db.queries import stored as stored_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import (
    DatabaseUnavailable,
    ReconnectingConnection,
    RowLocked,
    StatementCancelled,
    reconnect_delay,
)
from treadle.jobs.listeners import Listeners
from treadle.text.log import log
from treadle.words import events
from treadle.words.job import Claim
from treadle.words.outcome import Ending, Outcome
from treadle.words.status import Status
from treadle.worker.job_slots import MOST_ENDED
from treadle.worker.recorder import LOCKED_SECONDS, Recorder
from treadle.worker.tasks import idle

# A claim, its outcome, and when the job was started (time.monotonic) or how many seconds ago.
FinishedJob: TypeAlias = tuple[Claim, Outcome, float]

BATCH = 2000
_NOT_SETTLED = (Ending.COMPLETED, Ending.REPLACED, Ending.DROPPED, Ending.WRITTEN)


class Completer:
    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        recorder: Recorder,
        listeners: Listeners,
        crash_limit: int,
        unavailable: Callable[[DatabaseUnavailable | None], None],
        written: Callable[[], None],
        free_slot: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._recorder = recorder
        self._listeners = listeners
        self._crash_limit = crash_limit
        self._unavailable = unavailable
        self._written = written
        self._free_slot = free_slot
        self._slots: dict[int, int] = {}
        """The job slots of those whose outcome is not stored, by the identity of their claims, which are kept below:
        the hash of a claim, or of its id, costs more than the rest of add()."""
        self._waiting: list[FinishedJob] = []
        self._writing: list[FinishedJob] = []
        self.postponed: list[FinishedJob] = []
        """Jobs whose rows are locked; they are retried soon."""
        self._were_locked: set[UUID] = set()
        self._added = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, claim: Claim, outcome: Outcome, started: float, slot: int = 0) -> None:
        """`slot`: its job slot, which is free when the outcome is stored. 0: it has none."""
        if slot and len(self._slots) < MOST_ENDED:
            self._slots[id(claim)] = slot
        elif slot:
            self._free_slot(slot)
        self._waiting.append((claim, outcome, started))
        self._added.set()
        self._empty.clear()

    async def start_once(self, claim: Claim) -> bool | None:
        """Record that an attempt begins that must not be repeated. None: that could not be stored, or is not known."""
        try:
            return await self._connection.run(worker_queries.start_once(self._worker_id, claim))
        except (DatabaseUnavailable, RowLocked) as error:
            log.warning("job %s does not begin yet, because that could not be stored: %s", claim.id, error)
            return None

    def unwritten(self) -> set[UUID]:
        """The jobs whose outcome is known here and not yet in the database."""
        return {claim.id for claim, _, _ in (*self._waiting, *self._writing, *self.postponed)}

    async def flushed(self) -> None:
        """Wait until everything is written."""
        await self._empty.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        if self._writing:  # an earlier run failed while it wrote these
            self._waiting[:0], self._writing = self._writing, []
            self._added.set()
        while True:
            with idle():
                await self._added.wait()
            self._writing, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            if not self._waiting:
                self._added.clear()
            await self.write(self._writing)
            self._writing = []
            if not self._waiting and not self.postponed:
                self._empty.set()
                self._written()

    def _stored(self, batch: list[FinishedJob]) -> None:
        for claim, _, _ in batch:
            if slot := self._slots.pop(id(claim), 0):
                self._free_slot(slot)

    def _postpone(self, batch: list[FinishedJob]) -> None:
        if not batch:
            return
        self.postponed += batch
        asyncio.get_running_loop().call_later(LOCKED_SECONDS, self._retry_postponed)

    def _retry_postponed(self) -> None:
        self._waiting += self.postponed
        self.postponed.clear()
        self._added.set()

    async def write(self, batch: list[FinishedJob]) -> None:
        done = [each for each in batch if each[1].ending is Ending.COMPLETED]
        # The usual case needs no second pass over the batch.
        others = [] if len(done) == len(batch) else [each for each in batch if each[1].ending not in _NOT_SETTLED]
        if done:
            await self._persist(done, self._complete)
        if others:
            await self._persist(others, self._settle)
        if len(done) + len(others) < len(batch):
            for each in batch:
                if each[1].ending is Ending.REPLACED:
                    await self._persist([each], self._replace)
            self._stored([each for each in batch if each[1].ending in (Ending.DROPPED, Ending.WRITTEN)])
            for claim, outcome, started in batch:
                if outcome.ending is Ending.DROPPED:
                    self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))
                elif outcome.ending is Ending.WRITTEN:
                    seconds = time.monotonic() - started
                    self._listeners.emit(events.about(claim, self._worker_id, events.JobCompleted, seconds=seconds))

    async def _persist(
        self,
        batch: list[FinishedJob],
        write: Callable[[list[FinishedJob], bool], Any],
        again: bool = False,
    ) -> None:
        """`again`: one that may have been written before."""
        failures = 0
        batch = await self._without_locked(batch)
        while batch:
            try:
                # Events and logs of a job are written before its outcome.
                if self._recorder.has_something and (
                    locked := await self._recorder.flush({claim.id for claim, _, _ in batch})
                ):
                    self._postpone([each for each in batch if each[0].id in locked])
                    batch = [each for each in batch if each[0].id not in locked]
                    continue
                await write(batch, again or failures > 0)
            except (RowLocked, StatementCancelled) as error:
                # Nothing was carried out.
                self._were_locked.update(claim.id for claim, _, _ in batch)
                unlocked = await self._without_locked(batch)
                if len(unlocked) < len(batch):
                    batch = unlocked
                    continue
                parts = _parts(batch, error)
                if len(parts) == 1:
                    self._postpone(batch)
                    return
                for part in parts:
                    await self._persist(part, write)
                return
            except DatabaseUnavailable as error:
                self._unavailable(error)
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))
            except Exception as error:
                # One of them cannot be written, and must not delay the others; or the error came after the write.
                if again:
                    await self._last_resort(batch[0], error)
                    self._stored(batch)
                    return
                for each in batch:
                    await self._persist([each], write, again=True)
                return
            else:
                self._unavailable(None)
                self._stored(batch)
                return

    async def _without_locked(self, batch: list[FinishedJob]) -> list[FinishedJob]:
        """Postpone those that were locked before and still are, and return the others."""
        suspected = self._were_locked.intersection([claim.id for claim, _, _ in batch]) if self._were_locked else ()
        if not suspected:
            return batch
        try:
            locked = await self._connection.run(worker_queries.find_locked(list(suspected)))
        except (DatabaseUnavailable, RowLocked):
            return batch
        self._were_locked -= suspected - locked
        self._postpone([each for each in batch if each[0].id in locked])
        return [each for each in batch if each[0].id not in locked]

    async def _complete(self, batch: list[FinishedJob], again: bool) -> None:
        now = time.monotonic()
        aged = [(claim, outcome, now - started) for claim, outcome, started in batch]
        results = any(outcome.result is not None for _, outcome, _ in batch)
        # Mark stored content as used first: if this is interrupted, it is marked too early, which is harmless.
        if results and (uses := [(claim.id, each) for claim, outcome, _ in batch for each in outcome.stored]):
            await self._connection.run(stored_queries.use(uses))
        refused = await self._connection.run(worker_queries.complete(self._worker_id, aged, results))
        if refused:
            lost = [claim for claim, _, _ in batch if claim.id in refused]
            if again:
                # The earlier write may have been committed although its reply was lost.
                found = await self._connection.run(worker_queries.find_lost_claims(lost))
                refused -= {job_id for job_id, completed in found.items() if completed}
            for claim in lost:
                if claim.id in refused:
                    self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))
        if self._listeners.wants(events.JobCompleted):
            for claim, _, seconds in aged:
                if claim.id not in refused:
                    self._listeners.emit(events.about(claim, self._worker_id, events.JobCompleted, seconds=seconds))

    async def _replace(self, batch: list[FinishedJob], again: bool) -> None:
        ((claim, outcome, started),) = batch
        seconds = time.monotonic() - started
        done = await self._connection.run(worker_queries.replace(self._worker_id, claim, outcome, seconds))
        if done.problem is not None:
            error = f"the result cannot be replaced: {done.problem}"
            await self._settle([(claim, Outcome(Ending.FAILED, error=error), started)], again)
        elif done.accepted:
            self._listeners.emit(events.about(claim, self._worker_id, events.JobReplaced, seconds=seconds))
        elif not again:
            self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))

    async def _settle(self, batch: list[FinishedJob], again: bool) -> None:
        now = time.monotonic()
        aged = [(claim, outcome, now - started) for claim, outcome, started in batch]
        accepted = await self._connection.run(worker_queries.settle(self._worker_id, aged, self._crash_limit))
        for claim, outcome, seconds in aged:
            status = accepted.get(claim.id)
            if status is not None:
                self._listeners.emit(self._settled(claim, outcome, seconds, status))
            elif not again:
                self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))

    async def _last_resort(self, each: FinishedJob, error: Exception) -> None:
        """An outcome that cannot be stored must not leave its job claimed forever."""
        claim, outcome, started = each
        reason = f"the outcome ({outcome.ending}) could not be stored: {type(error).__name__}"
        failed = (claim, Outcome(Ending.FAILED, error=reason), time.monotonic() - started)
        try:
            accepted = await self._connection.persist(
                worker_queries.settle(self._worker_id, [failed], self._crash_limit)
            )
        except Exception:
            # The job is still claimed by this worker and no longer known here: it will be found as a lost reply.
            log.exception("the outcome of job %s could not be written", claim.id)
        else:
            if claim.id in accepted:  # otherwise the outcome was stored, and what failed came after that
                self._listeners.emit(events.about(claim, self._worker_id, events.JobFailed, error=reason))

    def _settled(self, claim: Claim, outcome: Outcome, seconds: float, status: Status) -> events.Event:
        error = outcome.error or ""
        raised: dict[str, Any] = {"on_purpose": True}
        if not outcome.on_purpose:
            raised = {"traceback": outcome.traceback, "exception": outcome.exception}
        if status is Status.CANCELLED:
            return events.about(claim, self._worker_id, events.JobCancelled, reason=error)
        if status is Status.FAILED:
            return events.about(claim, self._worker_id, events.JobFailed, error=error, seconds=seconds, **raised)
        if outcome.ending in (Ending.RELEASED, Ending.LIMITED):
            return events.about(claim, self._worker_id, events.JobReleased, delay=outcome.delay)
        return events.about(
            claim, self._worker_id, events.JobRetried, error=error, delay=outcome.delay, seconds=seconds, **raised
        )


def _parts(batch: list[FinishedJob], error: RowLocked | StatementCancelled) -> list[list[FinishedJob]]:
    """How to divide a batch that could not be written although none of its rows is locked, so that as few as possible
    are postponed."""
    if isinstance(error, StatementCancelled):
        # Too many at once for a short statement_timeout.
        half = (len(batch) + 1) // 2
        parts = [batch[:half], batch[half:]]
    else:
        # The whole table is locked, such as by CREATE INDEX; or the next job of a key, which is unblocked.
        parts = [[each for each in batch if each[0].key is None]]
        parts += [[each] for each in batch if each[0].key is not None]
    return [part for part in parts if part]
