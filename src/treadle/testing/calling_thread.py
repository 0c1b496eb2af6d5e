"""A sync drain: the event loop runs on a thread of its own, and sync handlers on the thread that called drain().

So a sync handler in a test finds what it would find without a queue: thread-local state, the connection of an ORM that
is bound to its thread, a debugger; and no event loop runs on its thread, as on the threads of a worker.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class CallingThread(Executor):
    """What is submitted runs on the thread that serves."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.get_ident()

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        self._calls.put((future, partial(function, *args, **kwargs)))
        return future

    def serve(self) -> None:
        """Run what is submitted, until end()."""
        while (call := self._calls.get()) is not None:
            future, work = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def end(self) -> None:
        self._calls.put(None)

    def serve_until(self, done: "Future[Any]") -> bool:
        """Called on the thread itself: go on serving until this is done, because it needs this thread. Returns False on
        any other thread."""
        if threading.get_ident() != self._thread:
            return False
        done.add_done_callback(lambda _: self.end())
        self.serve()
        return True


class LoopThread:
    """An event loop on a thread of its own, from the first use on. Pools of connections that async handlers open on it
    serve all tests."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[CallingThread], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine on the loop, and on this thread what it gives to the CallingThread."""
        caller = CallingThread()
        context = copy_context()
        loop = self._running_loop()
        done: Future[T] = Future()
        raised: list[BaseException] = []

        async def guarded() -> Any:
            try:
                return await work(caller)
            except (SystemExit, KeyboardInterrupt) as error:
                raised.append(error)  # these would end the event loop, on its thread

        def begin() -> None:
            task = loop.create_task(guarded(), context=context)
            done.add_done_callback(lambda done: loop.call_soon_threadsafe(task.cancel) if done.cancelled() else None)
            task.add_done_callback(finish)

        def finish(task: "asyncio.Task[T]") -> None:
            if task.cancelled() or done.cancelled():
                done.cancel()
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())
            caller.end()

        loop.call_soon_threadsafe(begin)
        try:
            caller.serve()
        except BaseException:  # Ctrl-C, while this thread waits
            done.cancel()
            raise
        if raised:
            raise raised[0]
        return done.result()

    def is_here(self) -> bool:
        """Whether this is its thread."""
        return self._thread is threading.current_thread()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Stop, after this coroutine."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(last(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._loop = self._thread = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="treadle-test-loop", daemon=True)
            self._thread.start()
        return self._loop
