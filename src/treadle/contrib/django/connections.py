"""Django's connections in handlers: as in a request, a job begins with connections that work, and ends with those that
CONN_MAX_AGE keeps.

Without this, a connection that breaks stays broken for all later jobs of its thread, and each thread keeps one for
ever."""

import asyncio
from collections.abc import Iterator

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections, connections

from treadle.attempt.job import Job


def manage_connections(job: Job) -> Iterator[None]:
    """Middleware that runs where the handler runs."""
    if _on_event_loop():
        yield from _with_a_thread()
    else:
        yield from _on_this_thread()


def _on_this_thread() -> Iterator[None]:
    outside = {alias for alias in connections if not _is_in_atomic_block(alias)}
    for connection in connections.all(initialized_only=True):
        # One that CONN_MAX_AGE has kept may have been lost since the last job. Django would find out by a failed query.
        connection.errors_occurred = True
        connection.close_if_unusable_or_obsolete()
    try:
        yield
    finally:
        for alias in outside:
            if _is_in_atomic_block(alias):  # the handler has left an atomic() open, by __enter__() for example
                connections[alias].close()
                del connections[alias]  # closed inside a block, it would refuse to connect again
        close_old_connections()


def _is_in_atomic_block(alias: str) -> bool:
    known = {each.alias: each for each in connections.all(initialized_only=True)}
    return alias in known and bool(known[alias].in_atomic_block)


def _with_a_thread() -> Iterator[None]:
    """Django's async ORM runs on a thread. With a context of its own, each job gets its own one, as each request does;
    else all jobs of the process would wait for each other's queries, and share a connection."""
    context = ThreadSensitiveContext()
    token = SyncToAsync.thread_sensitive_context.set(context)
    try:
        yield
    finally:
        SyncToAsync.thread_sensitive_context.reset(token)
        thread = SyncToAsync.context_to_thread_executor.pop(context, None)
        if thread is not None:  # the handler has used the ORM
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
