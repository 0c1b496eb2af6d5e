"""Wakes callers that wait for a job to finish or to change: one thread and one connection for all of them.

The thread runs while a caller waits, and LINGER_SECONDS longer. Notifications are hints: it also polls, every 0.5 s.
"""

import contextlib
import os
import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries import worker as worker_queries
from treadle.text.log import log

POLL_SECONDS = 0.5
LINGER_SECONDS = 5.0
CLOSE_SECONDS = 3.0
_SPAN = timedelta(seconds=30)
# Instead of a job's id: a change of any job.
ANY = UUID(int=0)


class Waiting:
    """Futures by the job that they wait for."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.futures: dict[UUID, list[Future[None]]] = {}

    def forget(self, job_id: UUID, future: "Future[None]") -> None:
        with self._lock:
            futures = self.futures.get(job_id, [])
            if future in futures:
                futures.remove(future)
            if not futures:
                self.futures.pop(job_id, None)

    def wake(self, ids: list[UUID]) -> None:
        for job_id in ids:
            with self._lock:
                futures = self.futures.pop(job_id, [])
            for future in futures:
                with contextlib.suppress(InvalidStateError):  # cancelled, or woken by another of its jobs
                    future.set_result(None)


class Watch:
    """Futures that are done when a job finishes or changes. They never fail: after a wake-up, query the job."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.until_finished = Waiting(self._lock)
        self.until_changed = Waiting(self._lock)
        self._states: dict[UUID, Hashable] = {}
        self._thread: threading.Thread | None = None

    def finished(self, job_id: UUID) -> "Future[None]":
        """A future that is done when the job has finished or no longer exists."""
        self._notice_fork()
        return self._wait(self.until_finished, job_id)

    def changed(self, *job_ids: UUID) -> "Future[None]":
        """A future that is done when one of the jobs, or ANY job, may have changed."""
        self._notice_fork()
        return self._wait(self.until_changed, *job_ids)

    def forget(self, job_id: UUID, future: "Future[None]") -> None:
        """Stop waiting: this future is no longer needed."""
        self.until_finished.forget(job_id, future)
        self.until_changed.forget(job_id, future)

    def close(self) -> None:
        """Stop the thread, unless a caller still waits."""
        self._closed = True
        thread = self._thread
        if thread is not None and not self._awaited():
            # It may hang on a dead connection; it is a daemon thread and ends with the program.
            thread.join(CLOSE_SECONDS)

    def _notice_fork(self) -> None:
        if self._process != os.getpid():  # the thread stayed in the parent process
            self._begin()

    def _wait(self, waiting: Waiting, *job_ids: UUID) -> "Future[None]":
        future: Future[None] = Future()
        if not self._database.owned:  # nothing can listen on a caller's connection
            return future
        with self._lock:
            self._closed = False
            for job_id in job_ids:
                waiting.futures.setdefault(job_id, []).append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="treadle-watch", daemon=True)
                self._thread.start()
        return future

    def _watch(self) -> None:
        idle_since = time.monotonic()
        while True:
            try:
                idle_since = self._listen(idle_since)
            except Exception:  # whatever it is, try again: callers have timeouts of their own
                log.debug("watching jobs failed; retrying", exc_info=True)
            with self._lock:
                if not self._awaited() and (self._closed or time.monotonic() - idle_since > LINGER_SECONDS):
                    self._thread = None
                    return
            time.sleep(0.1)

    def _listen(self, idle_since: float) -> float:
        """Listen until no caller has waited for LINGER_SECONDS. Returns the time when one last did."""
        with self._database.listening("ends", "news") as receive:
            began = time.monotonic()
            # The times until which the database sends notifications of finished and of changed jobs.
            finishes_until = changes_until = began
            # A transaction that is about to commit may not send one yet, so poll again soon.
            polls = [began, began + 0.02, began + 0.1]
            while True:
                now = time.monotonic()
                with self._lock:
                    finishing, changing = list(self.until_finished.futures), list(self.until_changed.futures)
                if finishing or changing:
                    idle_since = now
                elif self._closed or now - idle_since > LINGER_SECONDS:
                    return idle_since
                # Callers that wait for changes have to know when a job finishes, too.
                if now >= finishes_until:
                    self._database.run(worker_queries.request_finish_notifications(_SPAN))
                    finishes_until = now + _SPAN.total_seconds() / 3
                if changing and now >= changes_until:
                    self._database.run(worker_queries.request_change_notifications(_SPAN))
                    changes_until = now + _SPAN.total_seconds() / 3
                    polls = [now + 0.02, now + 0.1]
                if now >= polls[0]:
                    polls = polls[1:] or [now + POLL_SECONDS]
                    self._poll(finishing, changing)
                # In short waits, so that close() is noticed.
                for kind, ids in receive(min(0.1, max(0.0, polls[0] - time.monotonic()))):
                    with contextlib.suppress(ValueError):  # not ours: any session may notify on the channel
                        self._wake(kind, [UUID(each) for each in ids.split(",")])

    def _wake(self, kind: str, ids: list[UUID]) -> None:
        if kind == "ends":
            self.until_finished.wake(ids)
        self.until_changed.wake([*ids, ANY])

    def _poll(self, finishing: list[UUID], changing: list[UUID]) -> None:
        if finishing:
            self.until_finished.wake(self._database.run(worker_queries.find_finished(finishing)))
        if changing:
            found = self._database.run(snapshot_queries.get_job_states(changing))
            before, self._states = self._states, {each: found.get(each) for each in changing}
            changed = [each for each in changing if each not in before or before[each] != found.get(each)]
            self.until_changed.wake([ANY, *changed])

    def _awaited(self) -> bool:
        return bool(self.until_finished.futures or self.until_changed.futures)
