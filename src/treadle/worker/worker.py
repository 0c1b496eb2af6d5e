"""A worker: claims, runs and finishes jobs until it is told to stop.

It has four connections: for claims, for outcomes, for upkeep, and to listen. Handlers use none of them. Its lease is
renewed by another process (keeper.py), so that a handler that blocks everything here does not make it look dead.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, Unpack
from uuid import UUID

from treadle.app import Treadle
from treadle.db.listener import Listener
from treadle.db.queries import worker as work
from treadle.db.reconnecting import DatabaseAway, Line, Silence
from treadle.words import events
from treadle.words.claim import Claim
from treadle.words.clock import now
from treadle.words.naming import worker_name
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.worker import maintenance as upkeep
from treadle.worker.claimer import Intake
from treadle.worker.completer import Completer
from treadle.worker.executor import Executor
from treadle.worker.job_slots import Board
from treadle.worker.keeper import KeeperProcess
from treadle.worker.log import forget_events, log_events
from treadle.worker.log_capture import Capture
from treadle.worker.options import FLUSH_SECONDS, STOP_SECONDS, Settings, WorkerOptions, settings
from treadle.worker.recorder import Recorder
from treadle.worker.running_jobs import Workbench
from treadle.worker.services import forever, unbroken, within

TICK_SECONDS = 0.5
REPORT_SECONDS = 0.25
WATCH_SECONDS = 1.0
ADOPT_SECONDS = 30.0
PROBE_SECONDS = 15.0
PRUNE_SECONDS = 60.0
COUNT_SECONDS = 5.0
DEAF_POLL = 0.5


class Worker:
    """`async with app.worker(): …` works beside what the block does. Options are those of WorkerOptions."""

    def __init__(self, app: Treadle, *, board: Board | None = None, **options: Unpack[WorkerOptions]) -> None:
        self.settings: Settings = settings(app.job_types, os.cpu_count() or 1, **options)
        self.worker_id = worker_name()
        self._app = app
        self.schema = app.schema
        self._listeners = app.listeners
        # A board of somebody else: that one also renews the lease.
        self._board = board or Board.make(self.settings.concurrency + self.settings.children)
        self._supervised = board is not None
        self._keeper: KeeperProcess | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._stopping = False
        self._hurried = False
        self._fenced = False
        self._silence = Silence()
        self._healthy_since = float("-inf")
        self._look_at_holdings = asyncio.Event()
        self._drained = asyncio.Event()
        self._capture = Capture()
        self.stuck = False

    # Beginning and end

    async def start(self) -> None:
        functions = {name: self._app.function(name) for name in self.settings.types}
        for function in functions.values():
            function.arguments.check_annotations()
        url = await asyncio.to_thread(lambda: self._app.database.url)
        log_events(self._listeners)
        chosen, schema, name = self.settings, self.schema, f"treadle {self.worker_id}"
        self._claims, self._outcomes, self._upkeep = (Line(url, schema, name) for _ in range(3))
        self._recorder = Recorder(self._outcomes, self.worker_id, self.away)
        self._completer = Completer(
            self._outcomes,
            self.worker_id,
            self._recorder,
            self._listeners,
            chosen.crash_limit,
            self.away,
            self._written,
        )
        self._executor = Executor(self._app.middlewares, chosen.concurrency, chosen.children, self._board)
        self.bench = Workbench(
            self.worker_id,
            functions,
            self._executor,
            self._completer,
            self._recorder,
            self._board,
            self._listeners,
        )
        self._listener = Listener(url, schema, "work", self._heard, name)
        self._intakes = list(self._make_intakes())
        self._capture.start(prints=any(each.policy.prints for each in functions.values()))
        began = now()
        await self._upkeep.persist(work.register(self._introduction()), self.away)
        self._board.renewed_at = began
        if not self._supervised:
            self._keeper = KeeperProcess(self.worker_id, url, schema, self._board, chosen)
            await self._keeper.start()
        self._tasks = [asyncio.create_task(each) for each in self._services()]
        self._claiming = [asyncio.create_task(unbroken(intake.run)) for intake in self._intakes]
        self._listeners.emit(events.WorkerStarted(self.worker_id, chosen.types, chosen.concurrency))

    async def stop(self, grace: float | None = None) -> None:
        """Claim no more, give back what was not begun, let the rest finish for the grace, then interrupt it."""
        self._stopping = True
        for intake in self._intakes:
            intake.stop()
        await asyncio.wait(self._claiming, timeout=FLUSH_SECONDS)
        self._release_ready()
        await self.bench.empty(self.settings.grace if grace is None else grace, lambda: self._hurried)
        self.bench.interrupt_all(Interrupt.SHUTDOWN)
        await self.bench.empty(STOP_SECONDS)
        await within(self._completer.flushed(), FLUSH_SECONDS)
        self.stuck = len(self.bench) > 0
        for task in (*self._tasks, *self._claiming):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._claiming, return_exceptions=True)
        self._executor.close()
        self._capture.stop()
        for line in (self._claims, self._outcomes, self._upkeep):
            await line.close()
        self._listeners.emit(events.WorkerStopped(self.worker_id))
        forget_events(self._listeners)
        if self._keeper is not None:
            # With a thread that does not stop, its job stays held until this program ends.
            await self._keeper.stop(wait=not self.stuck)
            if not self.stuck:
                self._board.close()

    def hurry(self) -> None:
        """End the grace."""
        self._hurried = True
        self.bench.nudge()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def keeper_pid(self) -> int | None:
        """The process that renews the lease."""
        return None if self._keeper is None else self._keeper.pid

    @property
    def hears(self) -> bool:
        """Whether notifications reach it; if not, it polls more often."""
        return self._listener.hearing

    async def drained(self) -> None:
        """Until nothing is left to do (with drain=True)."""
        await self._drained.wait()

    # For the intakes

    def may_start(self) -> bool:
        return not self._stopping and not self._fenced

    def claimed(self, claims: Sequence[Claim]) -> None:
        if self._listeners.wants(events.JobClaimed):
            for claim in claims:
                self._listeners.emit(events.about(claim, self.worker_id, events.JobClaimed))

    def start_job(self, claim: Claim, intake: Intake) -> bool:
        if self.bench.start(claim, intake.end):
            return True
        self.release([claim], delay=1.0)
        return False

    def release(self, claims: Sequence[Claim], delay: float | None = None) -> None:
        """Give them back without having begun."""
        for claim in claims:
            self._completer.add(claim, Outcome(Ending.RELEASED, delay=delay), time.monotonic())

    def _written(self) -> None:
        """All outcomes are: with drain, that may be the end."""
        if self.settings.drain and not self.busy():
            for intake in self._intakes:
                intake.bell.set()

    def unknown(self) -> None:
        """A claim was made and its answer is lost."""
        self._look_at_holdings.set()

    def look_every(self) -> float:
        poll = self.settings.poll
        if self.settings.listen and not self._listener.hearing:
            poll = min(poll, DEAF_POLL)
        return poll * len(self._intakes)

    def busy(self) -> bool:
        """Whether something is held here that is not written yet: its end may let another job go."""
        return bool(len(self.bench) or any(each.ready for each in self._intakes) or self._completer.unwritten())

    def nothing_left(self, intake: Intake, quiet: bool) -> None:
        """An intake found nothing; `quiet` says whether the worker was not busy before it looked."""
        if self.settings.drain and not self.busy():
            intake.idle = quiet
            if not quiet:
                intake.bell.set()
            elif all(each.idle for each in self._intakes):
                self._drained.set()

    # Services

    def _services(self) -> list[Any]:
        chosen = self.settings
        services = [
            unbroken(self._completer.run),
            unbroken(self._recorder.run),
            unbroken(self._mind_the_lease),
            unbroken(self._adopt_loop),
            forever(self._tick, TICK_SECONDS, self.away),
            forever(self._report, REPORT_SECONDS, self.away),
            forever(self._watch, WATCH_SECONDS, self.away),
            forever(self._recover, chosen.renew_every, self.away),
            forever(self._prune, PRUNE_SECONDS, self.away),
            forever(self._count, COUNT_SECONDS, self.away),
        ]
        if chosen.listen:
            services += [unbroken(self._listener.run), unbroken(self._probe_loop)]
        return services

    async def _tick(self) -> None:
        # Floors move only where jobs leave.
        if any(time.monotonic() - intake.claimed_at < 2 for intake in self._intakes):
            await upkeep.move_floors(self._upkeep)

    async def _recover(self) -> None:
        # After an outage everybody seems silent; wait until those who live have said so.
        if time.monotonic() - self._healthy_since > self.settings.lease.total_seconds():
            await upkeep.recover_lost(self._upkeep, self.settings.crash_limit, self._listeners)

    async def _prune(self) -> None:
        await upkeep.prune(self._upkeep, self._app.keep)
        await upkeep.sweep(self._upkeep, self._app.storage.grace)

    async def _count(self) -> None:
        await upkeep.count(self._upkeep)

    async def _report(self) -> None:
        await self.bench.report(self._outcomes)

    async def _watch(self) -> None:
        await self.bench.watch(self._upkeep)

    async def _mind_the_lease(self) -> None:
        """Stop everything before the lease can be given to others. (A process that cannot even do that is killed.)"""
        while True:
            await asyncio.sleep(self.settings.lease.total_seconds() / 50)
            silent = now() - self._board.renewed_at > self.settings.fence_after
            if silent and not self._fenced:
                self._listeners.emit(events.WorkerFenced(self.worker_id))
                self._fenced = True
                self.bench.interrupt_all(Interrupt.FENCED)
                self._release_ready()
            elif not silent:
                self._fenced = False

    async def _adopt_loop(self) -> None:
        while True:
            await within(self._look_at_holdings.wait(), ADOPT_SECONDS)
            self._look_at_holdings.clear()
            try:
                await self._adopt()
            except DatabaseAway:
                self._look_at_holdings.set()
                await asyncio.sleep(1)

    async def _adopt(self) -> None:
        """Take up what this worker holds without knowing: a claim was carried out, and its answer was lost.

        On the line of the claims, so that none is under way. Twice: what was claimed before the first look, and ended
        while its answer was under way, is not there any more at the second.
        """
        seen = {(claim.id, claim.lease) for claim in await self._strangers()}
        if seen and self.may_start():
            for claim in await self._strangers():
                for intake in self._intakes:
                    if (claim.id, claim.lease) in seen and claim.job_type in intake.types:
                        intake.take([claim])

    async def _strangers(self) -> list[Claim]:
        """What this worker holds by the database's books, and does not know."""
        known = self._known()
        held = await self._claims.run(work.held(self.worker_id))
        known |= self._known()
        return [claim for claim in held if claim.id not in known]

    async def _probe_loop(self) -> None:
        """Whether the listener hears."""
        while True:
            await self._listener.listening.wait()
            self._listener.hearing = False
            try:
                await self._upkeep.run(work.notify_workers(f"probe {self.worker_id}"))
            except DatabaseAway as error:
                self.away(error)
                await asyncio.sleep(1)
                continue
            await asyncio.sleep(2)
            if self._listener.hearing:
                await asyncio.sleep(PROBE_SECONDS)
            else:
                self._listener.reset()
                await asyncio.sleep(3)

    def _heard(self, message: str) -> None:
        if not message:
            for intake in self._intakes:
                intake.bell.set()
            return
        word, _, what = message.partition(" ")
        if word == "cancelled":
            # Anybody may send anything.
            with contextlib.suppress(ValueError):
                self.bench.interrupt(UUID(what), Interrupt.CANCELLED)
        elif word == "probe" and what == self.worker_id:
            self._listener.hearing = True

    # The rest

    def _make_intakes(self) -> Iterator[Intake]:
        chosen, apart = self.settings, self._apart()
        together = [name for name in chosen.types if name not in apart]
        for types, limit in ((together, chosen.concurrency), (apart, chosen.children)):
            if types:
                yield Intake(self, self._claims, types, limit)

    def _apart(self) -> list[str]:
        """The types that run in child processes."""
        return sorted(name for name in self.settings.types if self._app.function(name).policy.process)

    def _introduction(self) -> work.Worker:
        chosen = self.settings
        return work.Worker(
            self.worker_id,
            chosen.lease,
            list(chosen.types),
            chosen.queues,
            chosen.concurrency,
            socket.gethostname(),
            os.getpid(),
            version("treadle"),
            self._apart(),
            chosen.children,
        )

    def _release_ready(self) -> None:
        for intake in self._intakes:
            self.release(intake.give_up())

    def _known(self) -> set[UUID]:
        return self.bench.known().union(self._completer.unwritten(), *(intake.known() for intake in self._intakes))

    def away(self, error: DatabaseAway | None) -> None:
        """Statements fail, or succeed again."""
        if error is not None:
            self._healthy_since = time.monotonic()
            if self._silence.broken():
                self._listeners.emit(events.DatabaseLost(self.worker_id, str(error)))
        elif (seconds := self._silence.mended()) is not None:
            self._listeners.emit(events.DatabaseBack(self.worker_id, seconds))
