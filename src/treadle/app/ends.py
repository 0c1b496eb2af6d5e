"""Wakes those who wait for a job to end: one thread and one connection for all of them.

The thread lives while somebody waits, and a little longer. Notifications are hints: it also looks, twice a second.
"""

import contextlib
import logging
import os
import threading
import time
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from uuid import UUID

from treadle.db import work
from treadle.db.database import Database

log = logging.getLogger("treadle")

LOOK_SECONDS = 0.5
LINGER_SECONDS = 5.0
_SPAN = timedelta(seconds=30)


class Ends:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: dict[UUID, list[Future[None]]] = {}
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._closed = False

    def wait(self, job_id: UUID) -> "Future[None]":
        """A future that is done when the job has ended, or is not there any more."""
        future: Future[None] = Future()
        if not self._database.owned:  # a caller's connection is the caller's to use
            return future
        if self._process != os.getpid():  # forked: the thread stayed behind
            self._process, self._lock, self._waiting, self._thread = os.getpid(), threading.Lock(), {}, None
        with self._lock:
            self._closed = False
            self._waiting.setdefault(job_id, []).append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="treadle-ends", daemon=True)
                self._thread.start()
        return future

    def close(self) -> None:
        """End the thread, unless somebody still waits."""
        self._closed = True
        thread = self._thread
        if thread is not None and not self._waiting:
            thread.join()

    def forget(self, job_id: UUID, future: "Future[None]") -> None:
        with self._lock:
            futures = self._waiting.get(job_id, [])
            if future in futures:
                futures.remove(future)
            if not futures:
                self._waiting.pop(job_id, None)

    def _watch(self) -> None:
        idle_since = time.monotonic()
        while True:
            try:
                idle_since = self._listen(idle_since)
            except Exception:  # whatever it is: those who wait have their own timeouts
                log.debug("waiting for jobs to end failed; it will be tried again", exc_info=True)
            with self._lock:
                if not self._waiting and (self._closed or time.monotonic() - idle_since > LINGER_SECONDS):
                    self._thread = None
                    return
            time.sleep(0.1)

    def _listen(self, idle_since: float) -> float:
        """Until nobody has waited for a while; says since when."""
        schema = self._database.schema
        with self._database.listening("ends") as heard:
            self._database.run(work.await_ends(schema, _SPAN))
            renewed = time.monotonic()
            # A job may have ended while nobody was known to wait, with its commit still under way: look again soon.
            looks = [renewed, renewed + 0.02, renewed + 0.1]
            while True:
                now = time.monotonic()
                with self._lock:
                    waiting = list(self._waiting)
                if waiting:
                    idle_since = now
                elif self._closed or now - idle_since > LINGER_SECONDS:
                    return idle_since
                if now - renewed > _SPAN.total_seconds() / 3:
                    self._database.run(work.await_ends(schema, _SPAN))
                    renewed = now
                if now >= looks[0]:
                    looks = looks[1:] or [now + LOOK_SECONDS]
                    if waiting:
                        self._wake(self._database.run(work.find_ended(schema, waiting)))
                # In short pieces, so that the end is noticed.
                for ids in heard(min(0.1, max(0.0, looks[0] - time.monotonic()))):
                    with contextlib.suppress(ValueError):  # anybody may send anything
                        self._wake([UUID(each) for each in ids.split(",")])

    def _wake(self, ids: list[UUID]) -> None:
        for job_id in ids:
            with self._lock:
                futures = self._waiting.pop(job_id, [])
            for future in futures:
                with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                    future.set_result(None)
