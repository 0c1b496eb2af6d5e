"""Django's connections in handlers: as in a request, a job begins with connections that work, and ends with those that
CONN_MAX_AGE keeps.

Without this, a connection that breaks stays broken for all later jobs of its thread, and each thread keeps one for
ever."""

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext
from django.db import connections

from treadle.attempt.job import Job
from treadle.words.event_loop import calling_thread, on_event_loop


def manage_connections(job: Job) -> Iterator[None]:
    """Middleware that runs where the handler runs."""
    if on_event_loop():
        yield from _with_a_thread()
    else:
        yield from _on_this_thread()


def _on_this_thread() -> Iterator[None]:
    # Of a TestCase, on whose thread treadle.testing runs jobs. They are left alone.
    in_blocks = {each.alias for each in _open_connections() if each.in_atomic_block}
    for connection in _open_connections():
        if connection.alias not in in_blocks:
            # CONN_MAX_AGE may have kept one that was lost since the last job. Django would find out by a failed query.
            connection.errors_occurred = True
            connection.close_if_unusable_or_obsolete()
    try:
        yield
    finally:
        for connection in _open_connections():
            if connection.alias in in_blocks:
                continue
            if connection.in_atomic_block:  # the handler has left one open, by atomic().__enter__() for example
                connection.close()
                del connections[connection.alias]  # closed inside a block, it would refuse to connect again
            else:
                connection.close_if_unusable_or_obsolete()


def _open_connections() -> list[Any]:
    return list(connections.all(initialized_only=True))


def _with_a_thread() -> Iterator[None]:
    """Django's async ORM runs on a thread. With a context of its own, each job gets its own one, as each request does;
    else all jobs of the process would wait for each other's queries, and share a connection."""
    context = ThreadSensitiveContext()
    caller = calling_thread.get()
    if caller is not None:
        yield from _with_the_thread_of_the_test(context, caller)
        return
    token = SyncToAsync.thread_sensitive_context.set(context)
    try:
        yield
    finally:
        SyncToAsync.thread_sensitive_context.reset(token)
        thread = SyncToAsync.context_to_thread_executor.pop(context, None)
        if thread is not None:  # the handler has used the ORM
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)


def _with_the_thread_of_the_test(context: ThreadSensitiveContext, caller: Executor) -> Iterator[None]:
    """In a drain of treadle.testing, the ORM of async handlers runs on the thread that has called drain(), and in its
    transaction. An async test waits in that call, so what it has left for such calls would wait for ever."""
    SyncToAsync.context_to_thread_executor[context] = caller
    token = SyncToAsync.thread_sensitive_context.set(context)
    waiting = getattr(AsyncToSync.executors, "current", None)
    AsyncToSync.executors.current = None
    try:
        yield
    finally:
        AsyncToSync.executors.current = waiting
        SyncToAsync.thread_sensitive_context.reset(token)
