"""A worker: claims, runs and finishes jobs until it is stopped.

It has four connections: for claims, for outcomes, for maintenance, and for notifications. Handlers use none of them.
Its lease is renewed by another process (keeper.py), so that a handler that blocks this one does not make it look dead.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from treadle.db.queries import limits as limit_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, Outage, WriteRefused
from treadle.jobs.workload import Workload
from treadle.text.log import log
from treadle.text.masking import redacted
from treadle.words import events
from treadle.words.clock import now
from treadle.words.job import Claim
from treadle.words.naming import worker_name
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.worker import maintenance, unknown_types
from treadle.worker.cancellations import Cancellations
from treadle.worker.claimer import Claimer
from treadle.worker.claimers import Claimers
from treadle.worker.completer import Completer
from treadle.worker.concurrency import CHECK_SECONDS, Concurrency
from treadle.worker.connections import connections
from treadle.worker.draining import Draining
from treadle.worker.executor import Executor
from treadle.worker.forks import end_in_children
from treadle.worker.job_slots import JobSlots
from treadle.worker.job_source import JobSource
from treadle.worker.keeper import KeeperProcess
from treadle.worker.lease import LeaseWatch, register, registration
from treadle.worker.log import forget_events, log_events
from treadle.worker.log_capture import Capture
from treadle.worker.lost_replies import LostReplies
from treadle.worker.notifications import LEAVE_SECONDS, SEND_SECONDS, Notifications
from treadle.worker.options import FLUSH_SECONDS, STOP_SECONDS, Settings, WorkerOptions, settings
from treadle.worker.peers import group_name
from treadle.worker.recorder import Recorder
from treadle.worker.recycling import Limits, Recycling
from treadle.worker.running_jobs import REPORT_SECONDS, WATCH_SECONDS, RunningJobs
from treadle.worker.scheduler import DECLARE_SECONDS, Scheduler
from treadle.worker.server_clock import ServerClock
from treadle.worker.services import Service, within
from treadle.worker.sleeper import Parts, Sleeper
from treadle.worker.tasks import Part, Tasks, idle
from treadle.worker.unknown_types import UnknownTypes
from treadle.worker.watchdog import BEAT_SECONDS, Watchdog

LOST_REPLIES_SECONDS = 30.0
# How soon a probe that could not be sent is sent again.
PROBE_SECONDS = 1.0
# How often to poll while notifications do not arrive.
UNNOTIFIED_POLL_SECONDS = 0.5


class Worker:
    """`async with app.worker(): …` works on jobs while the block runs. The options are those of WorkerOptions.

    After `start`, the parts are attributes, for tests and diagnostics: connections, claimers, running, completer,
    lost_replies, notifications.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        slots: JobSlots | None = None,
        recycling: Recycling | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """`slots` are given by a supervisor, which then renews the lease as well, and replaces the process when
        `recycling` is due."""
        self.settings: Settings = settings(workload.functions.job_types, os.cpu_count() or 1, **options)
        self.worker_id = worker_name()
        self.schema = workload.database.schema
        self.slots = slots or JobSlots.create(self.settings.slots)
        self.outage = Outage()
        self.recycling = recycling or Recycling(None, None)
        self.stopping = self._leaving = False
        self.stuck = False
        """After `stop`: a thread of a handler still runs, and only the end of the process stops it."""
        self._workload = workload
        self._listeners = workload.listeners
        self._supervised = slots is not None
        self._keeper: KeeperProcess | None = None
        self._hurried = False
        self._capture = Capture()
        self._lease = LeaseWatch(self.slots, self.settings.fence_after, self._fence)
        self.claimers = Claimers()
        self._draining = Draining(self.claimers, self.busy)
        self.sleeper = Sleeper()
        self.awake = self.sleeper.awake
        self._tasks, self._claiming = Tasks(self._cannot_end), Tasks(self._cannot_end)
        functions = workload.functions
        self._process_types = sorted(name for name in self.settings.types if functions.function(name).policy.process)
        self._handlers = [functions.function(name).path for name in self.settings.types]

    # Start and stop

    async def start(self) -> None:
        functions = {name: self._workload.functions.function(name) for name in self.settings.types}
        for function in functions.values():
            function.arguments.check_annotations()
        end_in_children(asyncio.get_running_loop())
        url = await asyncio.to_thread(lambda: self._workload.database.url)
        log_events(self._listeners)
        self._assemble(url, functions)
        self._capture.start(prints=any(each.policy.prints for each in functions.values()))
        began = now()
        await register(self.connections.maintenance, self.registration(), self._workload.version, self.unavailable)
        self.slots.renewed_at = began
        self._watchdog = Watchdog(self.slots, self.running.job_of)
        with suppress(DatabaseUnavailable):
            await self.server_clock.check()
        if declared := self._workload.declared_limits():
            # Before the first claim.
            await self.connections.maintenance.persist(limit_queries.declare(declared), self.unavailable)
        await self.scheduler.start()
        if not self._supervised:
            self._keeper = KeeperProcess(self.worker_id, url, self.schema, self.slots, self.settings)
            await self._keeper.start()
        for part in self._parts():
            self._tasks.start(part)
        for claimer in self.claimers:
            self._claiming.start(claimer.run)
        self._listeners.emit(events.WorkerStarted(self.worker_id, self.settings.types, self.settings.concurrency))

    async def stop(self, grace: float | None = None) -> None:
        """Claim no more, give back jobs that were not started, let the others finish within the grace period, then
        interrupt them."""
        await self._leave()
        await self.running.empty(self.settings.grace if grace is None else grace, lambda: self._hurried)
        self.running.interrupt_all(Interrupt.SHUTDOWN)
        await self.running.empty(STOP_SECONDS)
        await within(self.completer.flushed(), FLUSH_SECONDS)
        self.stuck = len(self.running) > 0
        self._watchdog.stop()
        await self._tasks.cancel(STOP_SECONDS)
        await self._claiming.cancel(STOP_SECONDS)
        self._executor.close()
        self._capture.stop()
        for connection in self.connections:
            await connection.close()
        self._listeners.emit(events.WorkerStopped(self.worker_id))
        forget_events(self._listeners)
        if self._keeper is not None:
            # A job whose thread does not stop stays claimed until this program ends.
            await self._keeper.stop(wait=not self.stuck)
            if not self.stuck:
                self.slots.close()

    async def finish(self) -> None:
        """Claim no more, give back jobs that were not started, and let the others finish, however long they take."""
        await self._leave()
        await self.running.empty(math.inf)

    def hurry(self) -> None:
        """End the grace period."""
        self._hurried = True
        self.running.nudge()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.settings.drain and error is None:
                await self.drained()
        finally:
            await self.stop()

    @property
    def keeper_pid(self) -> int | None:
        """The process that renews the lease."""
        return None if self._keeper is None else self._keeper.pid

    @property
    def receives_notifications(self) -> bool:
        """Whether notifications arrive; while they do not, the worker polls more often."""
        return self.notifications.listener.works

    async def _leave(self) -> None:
        self.stopping = True
        self.sleeper.awake.set()
        self.claimers.stop()
        await self._claiming.wait(FLUSH_SECONDS)
        if self.settings.listen and not self._leaving:
            self._leaving = True
            with suppress(DatabaseUnavailable):
                await within(self.notifications.leave(), LEAVE_SECONDS)
        self.claimers.release_ready()

    async def drained(self) -> None:
        """With drain=True: wait until no job is left to run, and those that finished are counted."""
        stopped = False
        while not stopped:
            await self._draining.done.wait()
            with suppress(DatabaseUnavailable):  # the services, which do the same, run only after some seconds
                if await maintenance.recover_once(
                    self.connections.maintenance, self.server_clock, self.settings, self.outage, self._listeners
                ):
                    self._draining.look_again()
                    continue
            # Without other workers, nobody counts the last seconds later.
            alone = not len(self.notifications.peers)
            with suppress(DatabaseUnavailable):
                await maintenance.count_all(self.connections.maintenance, timedelta(0) if alone else None)
            stopped = self._draining.claim_no_more()

    def registration(self) -> worker_queries.Worker:
        return registration(self.worker_id, self.settings, self._process_types, self._handlers)

    # What the claimers need of it (claimer.Host), and other parts

    @property
    def free_children(self) -> int:
        return self.running.free_children

    def is_suspect(self, claim: Claim) -> bool:
        return self.running.is_suspect(claim)

    def may_start(self) -> bool:
        return not self.stopping and not self._lease.fenced

    def start_job(self, claim: Claim, finished: Callable[[], None]) -> bool:
        # Each child process counts its own jobs.
        if claim.job_type not in self._process_types and self.recycling.count_job():  # it is the last one
            self.stopping = True
            self.claimers.set_limit(0, 0)
        return self.running.start(claim, finished)

    def release(self, claims: Sequence[Claim], delay: float | None = None) -> None:
        for claim in claims:
            self.completer.add(claim, Outcome(Ending.RELEASED, delay=delay), time.monotonic())

    def poll(self) -> float:
        most = math.inf if self.receives_notifications or not self.settings.listen else UNNOTIFIED_POLL_SECONDS
        return min(self.settings.poll, most) * len(self.claimers)

    def busy(self) -> bool:
        # When a job finishes, it may unblock another.
        return bool(len(self.running) or any(each.claims() for each in self.claimers) or self.completer.unwritten())

    def full(self, claimed: int) -> None:
        self.notifications.pass_on(claimed)

    def found_nothing(self, claimer: Claimer, quiet: bool) -> None:
        self._draining.found_nothing(claimer, quiet)

    def unavailable(self, error: DatabaseUnavailable | None) -> None:
        """A statement failed; or, with None, succeeded."""
        if isinstance(error, WriteRefused):
            self.slots.was_refused(error.refusal)
        if error is not None:
            if self.outage.failed():
                self._listeners.emit(events.DatabaseLost(self.worker_id, redacted(str(error))))
        # While the server cannot write, other statements succeed.
        elif self.slots.refusal is None and (seconds := self.outage.succeeded()) is not None:
            self._listeners.emit(events.DatabaseBack(self.worker_id, seconds))

    def _concurrency_changed(self, number: int, former: int) -> None:
        self._listeners.emit(events.ConcurrencyChanged(self.worker_id, number, former))
        self._executor.set_threads(number)
        if not self.stopping:
            # With 0 it claims nothing, also none that would run in child processes.
            self.claimers.set_limit(number, self.settings.children if number else 0)

    def _fence(self) -> None:
        self._listeners.emit(events.WorkerFenced(self.worker_id))
        self.running.interrupt_all(Interrupt.FENCED)
        self.claimers.release_ready()

    def _cannot_end(self) -> None:
        """A part of the worker hangs for good."""
        log.error("worker %s gives its jobs back, because a part of it hangs: see above", self.worker_id)
        if self._supervised:
            self.running.overdue.set()  # the supervisor replaces this process
        else:
            self.slots.abandoned = True

    async def _listen(self) -> None:
        with idle():  # it waits for notifications; if they do not arrive, the probes notice
            await self.notifications.listener.run()

    # The parts

    def _assemble(self, url: str, functions: dict[str, Any]) -> None:
        chosen, schema, name = self.settings, self.schema, f"treadle {self.worker_id}"
        self.connections = connections(url, schema, name)
        claims, outcomes = self.connections.claims, self.connections.outcomes
        self.server_clock = ServerClock(self.connections.maintenance, self.worker_id, self._listeners)
        recorder = self._recorder = Recorder(outcomes, self.worker_id, self.unavailable)
        written = self._draining.outcomes_written if chosen.drain else lambda: None
        self.completer = Completer(
            outcomes,
            self.worker_id,
            recorder,
            self._listeners,
            chosen.crash_limit,
            self.unavailable,
            written,
            self.slots.remove,
        )
        limits = partial(Limits.drawn, *self.recycling.given)
        self._executor = Executor(self._workload, chosen.concurrency, chosen.children, self.slots, limits)
        self.running = RunningJobs(
            self.worker_id,
            functions,
            self._executor,
            self.completer,
            recorder,
            self.slots,
            chosen.children,
            self.claimers.refill,
            self._listeners,
        )
        self.concurrency = Concurrency(claims, self.worker_id, chosen.concurrency, self.poll, self._concurrency_changed)
        self.cancellations = Cancellations(claims, self.claimers, self.running)
        self.scheduler = Scheduler(claims, self._workload.schedules, self.unavailable, self.sleeper.awake)
        self.unknown_types = UnknownTypes(
            self.connections.maintenance, self.worker_id, self._workload.functions.job_types, self._listeners
        )
        self.lost_replies = LostReplies(
            claims, self.worker_id, self.claimers, self.running, self.completer, self.may_start
        )
        self.notifications = Notifications(
            self._workload.database.listen_url,
            schema,
            name,
            self.worker_id,
            group_name(chosen.types, self._process_types, chosen.queues),
            self.connections.maintenance,
            claims,
            wake=self.claimers.wake,
            check_soon=self.claimers.check_soon,
            cancel=self.cancellations.add,
            schedules_changed=self.scheduler.wake.set,
            concurrency_changed=self.concurrency.notified,
            sleeper=self.sleeper,
        )
        self.claimers[:] = self._make_claimers()
        self.sleeper.parts = Parts(
            self.registration(),
            self.slots,
            chosen.poll,
            claims,
            self.notifications.listener,
            self.notifications.announce_sleep,
            self.notifications.probe_now,
            self.claimers,
            self.scheduler,
            self.concurrency,
            lambda: self.may_start() and not self.busy() and not self.lost_replies.wake.is_set(),
            self.unavailable,
        )

    def _make_claimers(self) -> Iterator[Claimer]:
        """One for the jobs that run in this process, and one for those that run in child processes."""
        chosen = self.settings
        source = JobSource(
            self.connections.claims,
            self.worker_id,
            chosen.queues,
            self._listeners,
            drain=chosen.drain,
            unavailable=self.unavailable,
            reply_lost=self.lost_replies.wake.set,
            concurrency=self.concurrency.heard,
            answered=lambda: self.notifications.answered,
        )
        here = [each for each in chosen.types if each not in self._process_types]
        if here:
            yield Claimer(self, source, here, chosen.concurrency, prefetch=chosen.prefetch)
        if self._process_types:
            yield Claimer(
                self, source, self._process_types, chosen.children, prefetch=chosen.prefetch, in_children=True
            )

    def _parts(self) -> Iterator[Part]:
        """Everything that runs beside the claimers and the jobs."""
        yield self.completer.run
        yield self._recorder.run
        yield self.scheduler.run
        if self.settings.listen:
            yield self._listen
            if not self.settings.drain:
                yield self.sleeper.run
        for service in self._services():
            yield partial(service.run, self.unavailable, self.sleeper.awake)

    def _services(self) -> Iterator[Service]:
        chosen, opened = self.settings, self.connections
        yield Service(self._watchdog.beat, BEAT_SECONDS, asleep=True)
        yield Service(self._lease.check, chosen.lease.total_seconds() / 50)
        yield Service(self.lost_replies.check, LOST_REPLIES_SECONDS, self.lost_replies.wake)
        yield Service(self.cancellations.check, WATCH_SECONDS, self.cancellations.wake)
        yield Service(self.concurrency.check, CHECK_SECONDS, self.concurrency.wake)
        yield Service(self.scheduler.declare, DECLARE_SECONDS)
        if declared := self._workload.declared_limits():
            declare = partial(opened.maintenance.run, limit_queries.declare(declared))
            yield Service(declare, DECLARE_SECONDS)
        yield Service(self.unknown_types.check, unknown_types.CHECK_SECONDS)
        yield Service(partial(self.running.report, opened.outcomes), REPORT_SECONDS)
        yield Service(partial(self.running.watch, opened.maintenance), WATCH_SECONDS)
        if chosen.listen:
            yield Service(self.notifications.probe, PROBE_SECONDS, self.notifications.probe_now)
            yield Service(self.notifications.send, SEND_SECONDS, self.notifications.to_send, asleep=True)
        yield from maintenance.services(
            opened.maintenance,
            self.server_clock,
            chosen,
            self._workload.keep,
            self._workload.store_grace,
            self.outage,
            self._listeners,
            claimed_at=lambda: self.claimers.claimed_at,
        )
