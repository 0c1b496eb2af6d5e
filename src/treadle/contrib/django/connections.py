"""Django's connections in handlers: as in a request, a job begins with connections that work, and ends with those that
CONN_MAX_AGE keeps.

Without this, a connection that breaks stays broken for all later jobs of its thread, and each thread keeps one for
ever."""

import asyncio
from collections.abc import Iterator
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections

from treadle.attempt.job import Job


def manage_connections(job: Job) -> Iterator[None]:
    """Middleware that runs where the handler runs."""
    if _on_event_loop():
        yield from _with_a_thread()
    else:
        yield from _on_this_thread()


def _on_this_thread() -> Iterator[None]:
    for connection in _outside_of_blocks():
        # One that CONN_MAX_AGE has kept may have been lost since the last job. Django would find out by a failed query.
        connection.errors_occurred = True
        connection.close_if_unusable_or_obsolete()
    try:
        yield
    finally:
        for connection in _outside_of_blocks():
            connection.close_if_unusable_or_obsolete()


def _outside_of_blocks() -> list[Any]:
    """The connections of this thread without those in an atomic() block. Only a test has such: treadle.testing runs
    jobs on the thread of a TestCase."""
    return [each for each in connections.all(initialized_only=True) if not each.in_atomic_block]


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
