"""Claims, runs and finishes jobs in this process, one after the other, through the parts of a worker.

There is no worker: no processes, no lease, no notifications. The claims, the executor, the outcomes, the schedules and
the SQL functions are those of a worker, so a job that is drained goes through the same states.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from treadle.app.treadle import Treadle
from treadle.attempt.job import Job
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query, Result
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.jobs.function import JobFunction
from treadle.testing.calling_thread import CallingThread
from treadle.testing.clock import Clock
from treadle.testing.drained import Drained, Tally
from treadle.words import events
from treadle.words.control import ControlException
from treadle.words.errors import JobFailed, JobInterrupted
from treadle.words.job import Claim
from treadle.worker.completer import Completer
from treadle.worker.executor import Executor
from treadle.worker.job_slots import JobSlots
from treadle.worker.log_capture import Capture
from treadle.worker.maintenance import EXPIRE_STEPS, expire
from treadle.worker.recorder import Recorder
from treadle.worker.running_jobs import RunningJobs
from treadle.worker.scheduler import LIMIT as SCHEDULES
from treadle.worker.scheduler import Scheduler
from treadle.worker.steps import Steps

CRASH_LIMIT = 3
# A job that has just become due is claimed at the latest by this many seconds after its time.
SOON = 0.001

# What happens at commit happens at once in a transaction that is never committed. Only what the queue needs:
# constraints of the test's own tables may be deferred for good reasons.
_CHECKS: Query[None] = Query(
    "set constraints treadle.check_at_commit, treadle.confirm_blocked immediate", {}, lambda _: None
)

# What is no Exception, and fails an attempt nevertheless.
_FAILURES = (asyncio.CancelledError, JobInterrupted, SystemExit)

Run = Callable[[Query[Any]], Awaitable[Any]]


class BorrowedConnection(ReconnectingConnection):
    """Runs the queries of a worker's parts on whatever the test uses. The first error ends the drain: the parts of a
    worker would try again for ever."""

    def __init__(self, run: Run) -> None:
        self._run_query = run
        self.lock = asyncio.Lock()
        self.error: Exception | None = None

    async def run(self, query: Query[Result]) -> Result:
        async with self.lock:
            try:
                result: Result = await self._run_query(query)
            except Exception as error:
                self.error = self.error or error
                raise
            return result

    async def persist(
        self, query: Query[Result], failed: Callable[[DatabaseUnavailable], None] = lambda _: None
    ) -> Result:
        return await self.run(query)


class ServingRecorder(Recorder):
    """A handler that waits until its events are written waits on the thread that writes them."""

    def __init__(self, connection: ReconnectingConnection, worker_id: str, caller: CallingThread | None) -> None:
        super().__init__(connection, worker_id, lambda _: None)
        self._caller = caller

    def _wait_for(self, flushed: "Future[None]") -> None:
        if self._caller is not None:
            self._caller.serve_until(flushed)
        super()._wait_for(flushed)


class CallingExecutor(Executor):
    """Runs sync functions on the thread that called drain(); for adrain(), on another one, as a worker does."""

    def __init__(self, app: Treadle, slots: JobSlots, caller: CallingThread | None) -> None:
        super().__init__(app.workload, 1, 1, slots)
        self.errors: dict[UUID, BaseException] = {}
        self._middlewares = copy.copy(self._middlewares)
        self._middlewares.outer = [self._note_error, *self._middlewares.outer]
        self._threads = caller or self._threads

    async def _note_error(self, job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await call_next()
        except BaseException as error:
            self.errors[job.id] = error
            raise


class Drain:
    """One drain of an application's jobs."""

    def __init__(
        self,
        app: Treadle,
        run: Run,
        clock: Clock,
        caller: CallingThread | None,
        limit: int,
        raise_errors: bool,
        in_transaction: bool,
    ) -> None:
        self._app = app
        self._in_transaction = in_transaction
        self._clock = clock
        self._raise_errors = raise_errors
        self._worker_id = f"test-{uuid4().hex[:8]}"
        self._connection = BorrowedConnection(run)
        self._functions = {name: _in_this_process(app.function(name)) for name in app.job_types}
        self._tally = Tally(self._worker_id, limit)
        self._caller = caller

    async def run(self, until: float | None = None, follow: bool = False) -> Drained:
        """Run what is due. With `until`, move the clock ahead by so many seconds, and stop at each time at which
        something is due; with `follow`, for as long as a job has still to run."""
        async with AsyncExitStack() as stack:
            await self._assemble(stack)
            stack.enter_context(self._tally.counting(self._app.listeners))
            await self._run_due()
            while follow and (delay := await self._until_next_job()) is not None:
                await self._move(min(delay, await self._until_next_schedule() or delay))
                await self._run_due()
            while until is not None:
                delays = (await self._until_next_job(), await self._until_next_schedule(), until)
                delay = min(each for each in delays if each is not None)
                await self._move(delay)
                await self._run_due()
                until = until - delay if delay < until else None
        return self._tally.result()

    async def declare(self) -> None:
        """Declare limits and schedules, as a worker does when it starts."""
        await self._declare()
        await self._enqueue_schedules()

    async def _declare(self) -> None:
        if declared := self._app.declared_limits():
            await self._connection.run(limit_queries.declare(declared))
        self._scheduler = Scheduler(self._connection, self._app.schedules, lambda _: None)
        await self._scheduler.declare()

    async def _enqueue_schedules(self) -> None:
        while await self._scheduler.enqueue_due() <= 0:
            pass

    async def _assemble(self, stack: AsyncExitStack) -> None:
        for function in self._functions.values():
            function.arguments.check_annotations()
        slots = JobSlots.create(8)
        stack.callback(slots.close)
        recorder = ServingRecorder(self._connection, self._worker_id, self._caller)
        self._completer = Completer(
            self._connection,
            self._worker_id,
            recorder,
            self._app.listeners,
            CRASH_LIMIT,
            lambda _: None,
            lambda: None,
            slots.remove,
        )
        self._executor = CallingExecutor(self._app, slots, self._caller)
        stack.callback(self._executor.close)
        self._running = RunningJobs(
            self._worker_id,
            self._functions,
            self._executor,
            self._completer,
            recorder,
            slots,
            0,
            lambda: None,
            self._app.listeners,
        )
        capture = Capture()
        capture.start(prints=any(each.policy.prints for each in self._functions.values()))
        stack.callback(capture.stop)
        parts = [self._completer.run()]
        if not self._in_transaction:
            # Else records are written before the outcome: a handler may be using the one connection just now.
            parts.append(recorder.run())
        for part in parts:
            stack.push_async_callback(_cancel, asyncio.create_task(part))
        await self._declare()
        if self._in_transaction:
            await self._connection.run(_CHECKS)

    async def _run_due(self) -> None:
        """Until nothing is due: a job that ends may free others, or enqueue them."""
        await self._enqueue_schedules()
        await expire(self._connection, Steps(*EXPIRE_STEPS))
        while claims := await self._claim():
            for claim in claims:
                await self._run(claim)

    async def _claim(self) -> list[Claim]:
        """One at a time: the next may be one that this one enqueues, with a higher priority."""
        if not self._functions:
            return []
        claimed = await self._connection.run(worker_queries.claim(self._worker_id, list(self._functions), 1, None))
        return claimed.claims

    async def _run(self, claim: Claim) -> None:
        ended: list[events.JobEvent] = []
        done = asyncio.Event()
        self._tally.begin(claim.job_type)
        for kind in (events.JobFailed, events.JobRetried):
            self._app.listeners.add(kind, ended.append)
        try:
            self._running.start(claim, done.set)
            await done.wait()
            await self._completer.flushed()
        finally:
            for kind in (events.JobFailed, events.JobRetried):
                self._app.listeners.remove(kind, ended.append)
        if self._connection.error is not None:
            raise self._connection.error
        error = self._executor.errors.pop(claim.id, None)
        if error is not None and not isinstance(error, (Exception, *_FAILURES)):
            raise error  # Ctrl-C, or pytest.fail() in a handler
        if self._raise_errors and ended and not isinstance(error, ControlException):
            if error is None or isinstance(error, asyncio.CancelledError | JobInterrupted):
                # Its arguments were refused, or its result; or it has timed out.
                raise JobFailed(claim.id, getattr(ended[0], "error", None))
            raise error

    async def _until_next_job(self) -> float | None:
        """Seconds until a job is due or expires; None if no job has still to run."""
        if not self._functions:
            return None
        due = await self._connection.run(worker_queries.next_due(self._worker_id, list(self._functions), None, True))
        expiring = await expire(self._connection, Steps(*EXPIRE_STEPS))
        # Not those that are due by now and cannot be claimed, for example because their job type is paused.
        return min((each for each in (due.seconds, expiring) if each is not None and each > 0), default=None)

    async def _until_next_schedule(self) -> float | None:
        found = await self._connection.run(schedule_queries.find_due(SCHEDULES))
        return min((each.seconds for each in found if each.seconds is not None and each.seconds > 0), default=None)

    async def _move(self, seconds: float) -> None:
        await self._connection.run(self._clock.move(seconds + SOON))


def _in_this_process(function: JobFunction[..., Any, ..., Any]) -> JobFunction[..., Any, ..., Any]:
    """The function with process=False."""
    if not function.policy.process:
        return function
    here = copy.copy(function)
    here.policy = replace(function.policy, process=False)
    return here


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
