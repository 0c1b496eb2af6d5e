"""The jobs that run in this worker: starts, reports, watches and interrupts them, and passes their outcomes on."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any
from uuid import UUID

from treadle.attempt.attempt import running_attempt
from treadle.attempt.progress import ProgressReport
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, RowLocked
from treadle.jobs.function import JobFunction
from treadle.jobs.listeners import Listeners
from treadle.text.exceptions import clean_error
from treadle.text.log import log
from treadle.words import events
from treadle.words.job import Claim
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.worker.completer import Completer
from treadle.worker.executor import Executor
from treadle.worker.job_slots import JobSlots
from treadle.worker.outcomes import begun_before, overdue
from treadle.worker.recorder import Recorder
from treadle.worker.running import Running, environment_of
from treadle.worker.services import within

# How often running jobs are reported, and looked up.
REPORT_SECONDS = 0.25
WATCH_SECONDS = 1.0
# A job that finishes sooner is never reported as running, which saves a write.
SHOWN_AFTER = 0.2
# Jobs that run for longer are looked up regularly: they may have been cancelled.
WATCHED_AFTER = 1.0
# How long a handler that is first interrupted at its deadline may take to stop.
INTERRUPTED_SECONDS = 0.5
# A job whose beginning could not be stored is tried again after this time.
NOT_STARTED_SECONDS = 1.0


class RunningJobs:
    def __init__(
        self,
        worker_id: str,
        functions: dict[str, JobFunction[..., Any, ..., Any]],
        executor: Executor,
        completer: Completer,
        recorder: Recorder,
        slots: JobSlots,
        children: int,
        child_is_free: Callable[[], None],
        listeners: Listeners,
    ) -> None:
        self._worker_id = worker_id
        self._functions = functions
        self._environments = {name: environment_of(each, worker_id) for name, each in functions.items()}
        self._executor = executor
        self._completer = completer
        self._recorder = recorder
        self._slots = slots
        self._listeners = listeners
        self._context = copy_context()
        self._running: dict[UUID, Running] = {}
        self._children = children
        self._child_is_free = child_is_free
        self._in_children = 0  # how many of them run in child processes, or wait for one
        self._changed = asyncio.Event()
        self.overdue = asyncio.Event()
        """Set when a handler did not stop at its deadline: only the end of the process stops its thread."""

    def __len__(self) -> int:
        return len(self._running)

    def known(self) -> set[UUID]:
        return set(self._running)

    @property
    def free_children(self) -> int:
        """How many more jobs can begin in child processes."""
        return self._children - self._in_children

    def is_suspect(self, claim: Claim) -> bool:
        """A job that was running when its process died may have killed it: it runs in a child process if possible."""
        return claim.crashes > 0 and self._functions[claim.job_type].importable

    def start(self, claim: Claim, finished: Callable[[], None]) -> bool:
        """Returns False if an earlier attempt of the job still runs here, in a thread that does not stop."""
        function = self._functions[claim.job_type]
        in_child = function.policy.process or self.is_suspect(claim)
        running = Running(claim, function, self._environments[claim.job_type], self._recorder, in_child)
        policy = running.policy
        if self._running.setdefault(claim.id, running) is not running:
            return False
        self._in_children += in_child
        loop = asyncio.get_running_loop()
        if policy.timeout is not None and not in_child:
            running.timers.append(loop.call_later(policy.timeout, running.interrupt, Interrupt.TIMEOUT))
        if policy.deadline is not None and not in_child:
            running.timers.append(loop.call_later(policy.deadline, self._overdue, running))
        if self._listeners.wants(events.JobStarted):
            self._listeners.emit(events.about(claim, self._worker_id, events.JobStarted))
        # In a context of its own: the current one may be that of the job that has just finished.
        running.task = _begin(self._run(running, finished), loop, self._context.copy())
        return True

    def job_of(self, task: "asyncio.Task[object]") -> tuple[UUID, str] | None:
        """The job to which a task belongs, its id and type. May be called from any thread."""
        if sys.version_info >= (3, 12):
            attempt = task.get_context().get(running_attempt)  # also of a task that the handler has started
            return None if attempt is None else (attempt.claim.id, attempt.claim.job_type)
        found = next((each for each in list(self._running.values()) if each.task is task), None)
        return None if found is None else (found.claim.id, found.claim.job_type)

    def claims(self) -> list[Claim]:
        return [each.claim for each in self._running.values()]

    def interrupt(self, claim: Claim, reason: Interrupt) -> None:
        running = self._running.get(claim.id)
        if running is not None and running.claim == claim:
            running.interrupt(reason)

    def interrupt_all(self, reason: Interrupt) -> None:
        for running in list(self._running.values()):
            running.interrupt(reason)

    async def empty(self, seconds: float, cut_short: Callable[[], bool] = lambda: False) -> None:
        """Wait until no job runs except those given up at their deadline, for this long at most."""
        end = time.monotonic() + seconds
        while any(not each.ended for each in self._running.values()) and not cut_short() and time.monotonic() < end:
            self._changed.clear()
            await within(self._changed.wait(), end - time.monotonic())

    def nudge(self) -> None:
        """Let empty() check whether it is cut short."""
        self._changed.set()

    async def report(self, connection: ReconnectingConnection) -> None:
        """Report which jobs run and how far they are; interrupt those that this worker has lost."""
        moment = time.monotonic()
        reports: list[tuple[Running, worker_queries.Report]] = []
        for running in self._running.values():
            if running.ended:
                continue
            # A job that has not begun is not reported as running: if the whole machine is lost, that decides whether
            # the loss counts against the job.
            progress = running.attempt.take_progress()
            is_new = running.begun and not running.reported and moment - running.started > SHOWN_AFTER
            if progress is not None or is_new:
                reports.append((running, _report(running, progress, moment)))
        if reports:
            try:
                accepted = await self._send([report for _, report in reports], connection)
            except DatabaseUnavailable:
                for running, report in reports:
                    if report.progress is not None:
                        running.attempt.progress_not_written()
                raise
            for running, _ in reports:
                running.reported = True
            await self._interrupt_lost([each for each, _ in reports if each.claim.id not in accepted], connection)

    async def _send(self, reports: list[worker_queries.Report], connection: ReconnectingConnection) -> set[UUID]:
        try:
            return await connection.run(worker_queries.report(self._worker_id, reports))
        except RowLocked:
            # Report them one by one. A job whose row is locked counts as accepted; it is reported again later.
            if len(reports) == 1:
                return {reports[0].claim.id}
            return set().union(*[await self._send([each], connection) for each in reports])

    async def watch(self, connection: ReconnectingConnection) -> None:
        """Check which long-running jobs this worker has lost, and interrupt them."""
        moment = time.monotonic()
        watched = [each for each in self._running.values() if moment - each.started > WATCHED_AFTER]
        await self._interrupt_lost(watched, connection)

    async def _run(self, running: Running, finished: Callable[[], None]) -> None:
        try:
            outcome = await self._refused(running) if running.policy.at_most_once else None
            outcome = outcome or await self._executor.execute(running)
        except BaseException as error:  # must not happen; but a slot must never be lost
            log.exception("the outcome of job %s could not be determined", running.claim.id)
            outcome = Outcome(Ending.FAILED, error=clean_error(error))
        if running.timers:
            running.disarm()
        del self._running[running.claim.id]
        self._in_children -= running.in_child
        if not running.ended:
            if running.attempt.has_unwritten:
                self._record_last_progress(running)
            self._completer.add(running.claim, outcome, running.started, self._leave_slot(running))
        elif running.slot:
            self._slots.remove(running.slot)
        finished()
        if running.in_child:
            self._child_is_free()
        self._changed.set()

    async def _refused(self, running: Running) -> Outcome | None:
        """Before an attempt begins that must not be repeated, this is stored. The outcome, if it must not begin."""
        if running.attempt.interrupted_by is not None:
            return None
        started = await self._completer.start_once(running.claim)
        if started is None:
            return Outcome(Ending.RELEASED, delay=NOT_STARTED_SECONDS)
        return None if started else begun_before()

    def _leave_slot(self, running: Running) -> int:
        """A job that has begun keeps its slot until its outcome is stored."""
        if running.begun:
            self._slots.end(running.slot)
            return running.slot
        if running.slot:
            self._slots.remove(running.slot)
        return 0

    def _record_last_progress(self, running: Running) -> None:
        try:
            running.attempt.end_line()
            progress = running.attempt.take_progress()
            if progress is not None:
                self._recorder.add_final_report(_report(running, progress, time.monotonic()))
        except Exception:  # must not cost the job its outcome
            log.exception("the last progress of job %s could not be recorded", running.claim.id)

    async def _interrupt_lost(self, candidates: list[Running], connection: ReconnectingConnection) -> None:
        """Interrupt those that this worker has lost. A job that has completed itself may continue."""
        if not candidates:
            return
        lost = await connection.run(worker_queries.find_lost_claims([each.claim for each in candidates]))
        for running in candidates:
            completed = lost.get(running.claim.id)
            # It may have finished during the query.
            if completed is False and self._running.get(running.claim.id) is running and not running.ended:
                running.interrupt(Interrupt.LEASE_LOST)

    def _overdue(self, running: Running) -> None:
        """The handler did not stop at its deadline. Its outcome is decided, but its thread (or a coroutine that ignores
        its cancellation) runs on, and only the end of this process stops it."""
        if running.attempt.interrupted_by is None:  # a deadline without a timeout: interrupt first
            running.interrupt(Interrupt.TIMEOUT)
            running.timers.append(asyncio.get_running_loop().call_later(INTERRUPTED_SECONDS, self._overdue, running))
            return
        running.ended = True
        # The supervisor need not kill this process for it, so the other jobs have time to finish.
        if running.begun:
            self._slots.remove_deadline(running.slot)
        self._completer.add(running.claim, overdue(running.function, running.attempt), running.started)
        self.overdue.set()


def _begin(run: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context) -> asyncio.Task[None]:
    if sys.version_info >= (3, 12):
        # Takes the first step at once: a quick job finishes in it, and is never scheduled on the event loop.
        return asyncio.Task(run, loop=loop, context=context, eager_start=True)
    return asyncio.Task(run, loop=loop, context=context)


def _report(running: Running, progress: ProgressReport | None, moment: float) -> worker_queries.Report:
    return worker_queries.Report(running.claim, moment - running.started, *(progress or (None, None, None)))
