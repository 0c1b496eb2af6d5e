"""Runs handlers in one of three ways, and turns the result into an outcome. It does not use the database.

    async functions           on the event loop
    sync functions            on threads
    process=True, suspects    in child processes, one at a time in each, which can be killed alone

A suspect is a job that was running when its process died. It may have killed the process, so it runs in a child.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor as Threads
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from pydantic_core import from_json

from treadle.attempt.attempt import running_attempt
from treadle.attempt.job import job_of
from treadle.jobs.workload import Workload
from treadle.words.interruption import Interruption
from treadle.words.outcome import Ending, Outcome
from treadle.worker.children import Children
from treadle.worker.forks import end_if_forked
from treadle.worker.job_slots import JobSlots, State
from treadle.worker.outcomes import ChildEnded, raised, returned, stopped
from treadle.worker.recycling import UNLIMITED, Limits
from treadle.worker.running import Running, deadline_of
from treadle.worker.tracing import restore, tracing, untraced

_SUCCESSES = (Ending.COMPLETED, Ending.REPLACED, Ending.WRITTEN)


class Executor:
    def __init__(
        self,
        workload: Workload,
        threads: int,
        children: int,
        slots: JobSlots,
        child_limits: Callable[[], Limits] = lambda: UNLIMITED,
    ) -> None:
        self._middlewares = workload.middlewares
        self._threads: Threads = _pool(threads)
        self._children = Children(children, workload, child_limits)
        self._slots = slots
        self._tracing = tracing()

    async def execute(self, running: Running) -> Outcome:
        function, attempt = running.function, running.attempt
        running_attempt.set(attempt)
        running.entered = True
        if attempt.interrupted_by is not None:
            return stopped(function, attempt)
        try:
            if running.in_child:
                return await self._in_child(running)
            self._begin(running)
            arguments = attempt.arguments = function.arguments.load(running.claim.data, attempt)
            if function.is_async and not self._middlewares:
                # The most frequent case has no wrapper: at tens of thousands of jobs per second it is measurable.
                result = await function.function(**arguments)
            else:
                job, handler = job_of(attempt), partial(function.function, **arguments)
                if function.is_async:
                    call = partial(self._middlewares.acall, job, handler)
                else:
                    call = partial(self._on_thread, running, partial(self._middlewares.call, job, handler))
                result = await self._around(running, call)
            return returned(function, attempt, result)
        except BaseException as error:  # also SystemExit: a handler must not end the worker
            return raised(function, attempt, error)
        finally:
            try:
                restore(self._tracing)
            except BaseException:  # a tracer that raises has ended by that
                restore(self._tracing)
            end_if_forked()

    def set_threads(self, threads: int) -> None:
        """Let so many sync functions run at once. Those that run continue on their threads."""
        former, self._threads = self._threads, _pool(threads)
        former.shutdown(wait=False)

    def close(self) -> None:
        self._children.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _around(self, running: Running, call: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        for middleware in reversed(self._middlewares.outer):
            call = partial(middleware, job_of(running.attempt), call)
        return call()

    async def _on_thread(self, running: Running, call: Callable[[], Any]) -> Any:
        interruption = running.interruption = Interruption()
        if running.attempt.interrupted_by is not None:  # while a middleware waited
            running.interrupt_thread(interruption)
        # Errors are returned, because a future does not accept a StopIteration, and its caller would wait forever.
        done, value = await asyncio.get_running_loop().run_in_executor(
            self._threads, copy_context().run, _called, interruption, call
        )
        if done:
            return value
        raise value

    def _begin(self, running: Running, process: int = 0) -> None:
        """The job begins, in a child process or here: from now on it can crash its process or miss its deadline."""
        claim = running.claim
        if running.slot:  # it has waited for its child process, or a middleware calls the handler again
            self._slots.remove(running.slot)
        running.slot = self._slots.add(claim.id, claim.lease, deadline_of(running.policy), process)
        running.begin()
        running.attempt.begun_once = running.function.policy.at_most_once

    async def _in_child(self, running: Running) -> Outcome:
        outcomes: list[Outcome] = []
        running.slot = self._slots.add(running.claim.id, running.claim.lease, 0.0, state=State.STARTING)

        async def call() -> Any:
            outcome = await self._children.run(running, partial(self._begin, running))
            outcomes.append(outcome)
            if outcome.ending not in _SUCCESSES:
                raise ChildEnded(outcome)
            return _value(outcome)

        if self._middlewares.outer:
            running.attempt.arguments = running.function.arguments.load(running.claim.data, running.attempt)
        result = await self._around(running, call)
        # The outcome of the child, unless a middleware has changed the result, or has caught its failure.
        last = outcomes[-1] if outcomes else None
        if last is not None and last.ending in _SUCCESSES and _value(last) == result:
            return last
        return returned(running.function, running.attempt, result)


def _value(outcome: Outcome) -> Any:
    return from_json(outcome.result) if outcome.result is not None and outcome.ending is Ending.COMPLETED else None


def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, threads), thread_name_prefix="treadle-job")


def _called(interruption: Interruption, call: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return interruption.call(partial(untraced, call))
    finally:
        end_if_forked()
