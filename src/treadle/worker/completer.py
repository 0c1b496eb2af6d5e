"""Writes outcomes in batches: whatever came in while the last batch was being written is the next one.

It never gives an outcome up: while the database is away they wait. Each is fenced by its lease, so writing one twice
does no harm; one whose first write was carried out without an answer is found to be so.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

from treadle.app.listeners import Listeners
from treadle.db.queries import stored
from treadle.db.queries import worker as work
from treadle.db.reconnecting import DatabaseAway, Line, pause
from treadle.words import events
from treadle.words.claim import Claim
from treadle.words.outcome import Ending, Outcome
from treadle.words.status import Status
from treadle.worker.recorder import LOCKED_SECONDS, Recorder

log = logging.getLogger("treadle")

# A claim, its outcome, and when it was started (time.monotonic), or how long ago.
Ended: TypeAlias = tuple[Claim, Outcome, float]

BATCH = 2000
_NOT_SETTLED = (Ending.COMPLETED, Ending.DROPPED, Ending.WRITTEN)


class Completer:
    def __init__(
        self,
        line: Line,
        worker_id: str,
        recorder: Recorder,
        listeners: Listeners,
        crash_limit: int,
        away: Callable[[DatabaseAway | None], None],
        written: Callable[[], None],
    ) -> None:
        self._line = line
        self._worker_id = worker_id
        self._recorder = recorder
        self._listeners = listeners
        self._crash_limit = crash_limit
        self._away = away
        self._written = written
        self._waiting: list[Ended] = []
        self._writing: list[Ended] = []
        self._postponed: list[Ended] = []  # somebody holds their rows
        self._came = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, claim: Claim, outcome: Outcome, started: float) -> None:
        self._waiting.append((claim, outcome, started))
        self._came.set()
        self._empty.clear()

    def unwritten(self) -> set[UUID]:
        """The jobs whose end is known here but not yet in the database."""
        return {claim.id for claim, _, _ in (*self._waiting, *self._writing, *self._postponed)}

    async def flushed(self) -> None:
        """Until everything is written."""
        await self._empty.wait()

    async def run(self) -> None:
        if self._writing:  # it failed in the middle
            self._waiting[:0], self._writing = self._writing, []
            self._came.set()
        while True:
            await self._came.wait()
            self._writing, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            if not self._waiting:
                self._came.clear()
            await self._write(self._writing)
            self._writing = []
            if not self._waiting and not self._postponed:
                self._empty.set()
                self._written()

    def _postpone(self, batch: list[Ended]) -> None:
        self._postponed += batch
        asyncio.get_running_loop().call_later(LOCKED_SECONDS, self._take_up)

    def _take_up(self) -> None:
        self._waiting += self._postponed
        self._postponed.clear()
        self._came.set()

    async def _write(self, batch: list[Ended]) -> None:
        done = [each for each in batch if each[1].ending is Ending.COMPLETED]
        # The usual case by itself: this is done for every job.
        ended = [] if len(done) == len(batch) else [each for each in batch if each[1].ending not in _NOT_SETTLED]
        if done:
            await self._persist(done, self._complete)
        if ended:
            await self._persist(ended, self._settle)
        if len(done) + len(ended) < len(batch):
            for claim, outcome, started in batch:
                if outcome.ending is Ending.DROPPED:
                    self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))
                elif outcome.ending is Ending.WRITTEN:
                    seconds = time.monotonic() - started
                    self._listeners.emit(events.about(claim, self._worker_id, events.JobCompleted, seconds=seconds))

    async def _persist(
        self,
        batch: list[Ended],
        write: Callable[[list[Ended], bool], Any],
    ) -> None:
        failures = 0
        while True:
            try:
                # What the jobs told comes before their end.
                if self._recorder.has_something and (
                    locked := await self._recorder.flush({claim.id for claim, _, _ in batch})
                ):
                    self._postpone([each for each in batch if each[0].id in locked])
                    batch = [each for each in batch if each[0].id not in locked]
                    if not batch:
                        return
                await write(batch, failures > 0)
            except DatabaseAway as error:
                self._away(error)
                failures += 1
                await asyncio.sleep(pause(failures))
            except Exception as error:
                # Something in it cannot be written. Whichever it is must not keep the others waiting.
                if len(batch) == 1:
                    await self._last_resort(batch[0], error)
                    return
                for each in batch:
                    await self._persist([each], write)
                return
            else:
                self._away(None)
                return

    async def _complete(self, batch: list[Ended], again: bool) -> None:
        now = time.monotonic()
        aged = [(claim, outcome, now - started) for claim, outcome, started in batch]
        results = any(outcome.result is not None for _, outcome, _ in batch)
        # First what the results refer to: should this be cut short, the jobs need it a little too early, not too late.
        if results and (uses := [(claim.id, each) for claim, outcome, _ in batch for each in outcome.stored]):
            await self._line.run(stored.use(uses))
        refused = await self._line.run(work.complete(self._worker_id, aged, results))
        if refused:
            lost = [claim for claim, _, _ in batch if claim.id in refused]
            if again:
                # The write before may have been carried out although no answer came.
                found = await self._line.run(work.lost_leases(lost))
                refused -= {job_id for job_id, completed in found.items() if completed}
            for claim in lost:
                if claim.id in refused:
                    self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))
        if self._listeners.wants(events.JobCompleted):
            for claim, _, seconds in aged:
                if claim.id not in refused:
                    self._listeners.emit(events.about(claim, self._worker_id, events.JobCompleted, seconds=seconds))

    async def _settle(self, batch: list[Ended], again: bool) -> None:
        now = time.monotonic()
        aged = [(claim, outcome, now - started) for claim, outcome, started in batch]
        accepted = await self._line.run(work.settle(self._worker_id, aged, self._crash_limit))
        for claim, outcome, seconds in aged:
            status = accepted.get(claim.id)
            if status is not None:
                self._listeners.emit(self._settled(claim, outcome, seconds, status))
            elif not again:
                self._listeners.emit(events.about(claim, self._worker_id, events.LeaseWasLost))

    async def _last_resort(self, each: Ended, error: Exception) -> None:
        """Recording an outcome must never leave the job held for ever."""
        claim, outcome, started = each
        told = f"the outcome ({outcome.ending}) could not be stored: {type(error).__name__}"
        failed = (claim, Outcome(Ending.FAILED, error=told), time.monotonic() - started)
        try:
            await self._line.persist(work.settle(self._worker_id, [failed], self._crash_limit))
        except Exception:
            # Still held, and not known here any more: the worker takes it up again by and by.
            log.exception("the end of job %s could not be written", claim.id)
        else:
            self._listeners.emit(events.about(claim, self._worker_id, events.JobFailed, error=told))

    def _settled(self, claim: Claim, outcome: Outcome, seconds: float, status: Status) -> events.Event:
        error = outcome.error or ""
        if status is Status.CANCELLED:
            return events.about(claim, self._worker_id, events.JobCancelled, reason=error)
        if status is Status.FAILED:
            return events.about(claim, self._worker_id, events.JobFailed, error=error, seconds=seconds)
        if outcome.ending is Ending.RELEASED:
            return events.about(claim, self._worker_id, events.JobReleased, delay=outcome.delay)
        return events.about(
            claim, self._worker_id, events.JobRetried, error=error, delay=outcome.delay, seconds=seconds
        )
