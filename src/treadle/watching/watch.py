"""Wakes those who wait for a job to end, or for something new of it: one thread and one connection for all of them.

The thread lives while somebody waits, and a little longer. Notifications are hints: it also looks, twice a second.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries import worker as work

log = logging.getLogger("treadle")

LOOK_SECONDS = 0.5
LINGER_SECONDS = 5.0
CLOSE_SECONDS = 3.0
_SPAN = timedelta(seconds=30)
# Something new of whatever job.
ANY = UUID(int=0)


class Waiting:
    """Futures, by what they wait for."""

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
                with contextlib.suppress(InvalidStateError):  # cancelled meanwhile, or woken by another of its jobs
                    future.set_result(None)


class Watch:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.ends = Waiting(self._lock)
        self.news = Waiting(self._lock)
        self._looks: dict[UUID, Hashable] = {}
        self._thread: threading.Thread | None = None

    def end(self, job_id: UUID) -> "Future[None]":
        """A future that is done when the job has ended, or is not there any more."""
        return self._wait("ends", job_id)

    def change(self, *job_ids: UUID) -> "Future[None]":
        """A future that is done when there may be something new of one of the jobs, or of ANY."""
        return self._wait("news", *job_ids)

    def forget(self, job_id: UUID, future: "Future[None]") -> None:
        """Nobody waits for this any more."""
        self.ends.forget(job_id, future)
        self.news.forget(job_id, future)

    def close(self) -> None:
        """End the thread, unless somebody still waits."""
        self._closed = True
        thread = self._thread
        if thread is not None and not self.ends.futures and not self.news.futures:
            # It may hang on a connection that has fallen silent. It ends with the program.
            thread.join(CLOSE_SECONDS)

    def _wait(self, kind: str, *job_ids: UUID) -> "Future[None]":
        future: Future[None] = Future()
        if not self._database.owned:  # a caller's connection is the caller's to use
            return future
        if self._process != os.getpid():  # forked: the thread stayed behind
            self._begin()
        waiting: Waiting = self.ends if kind == "ends" else self.news
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
            except Exception:  # whatever it is: those who wait have their own timeouts
                log.debug("watching jobs failed; it will be tried again", exc_info=True)
            with self._lock:
                if not self._awaited() and (self._closed or time.monotonic() - idle_since > LINGER_SECONDS):
                    self._thread = None
                    return
            time.sleep(0.1)

    def _listen(self, idle_since: float) -> float:
        """Until nobody has waited for a while; says since when."""
        with self._database.listening("ends", "news") as heard:
            began = time.monotonic()
            ends_until = news_until = began  # somebody is known to listen
            # Something may have come while nobody was known to wait, with its commit still under way: look again soon.
            looks = [began, began + 0.02, began + 0.1]
            while True:
                now = time.monotonic()
                with self._lock:
                    ending, changing = list(self.ends.futures), list(self.news.futures)
                if ending or changing:
                    idle_since = now
                elif self._closed or now - idle_since > LINGER_SECONDS:
                    return idle_since
                # Who is told of news is told of ends.
                if now >= ends_until:
                    self._database.run(work.listen_for_ends(_SPAN))
                    ends_until = now + _SPAN.total_seconds() / 3
                if changing and now >= news_until:
                    self._database.run(work.listen_for_changes(_SPAN))
                    news_until = now + _SPAN.total_seconds() / 3
                    looks = [now + 0.02, now + 0.1]
                if now >= looks[0]:
                    looks = looks[1:] or [now + LOOK_SECONDS]
                    self._look(ending, changing)
                # In short pieces, so that the end is noticed.
                for kind, ids in heard(min(0.1, max(0.0, looks[0] - time.monotonic()))):
                    with contextlib.suppress(ValueError):  # anybody may send anything
                        self._hear(kind, [UUID(each) for each in ids.split(",")])

    def _hear(self, kind: str, ids: list[UUID]) -> None:
        if kind == "ends":
            self.ends.wake(ids)
        self.news.wake([*ids, ANY])

    def _look(self, ending: list[UUID], changing: list[UUID]) -> None:
        if ending:
            self.ends.wake(self._database.run(work.find_ended(ending)))
        if changing:
            found = self._database.run(snapshot_queries.get_job_states(changing))
            before, self._looks = self._looks, {each: found.get(each) for each in changing}
            self.news.wake([ANY, *(each for each in changing if each not in before or before[each] != found.get(each))])

    def _awaited(self) -> bool:
        return bool(self.ends.futures or self.news.futures)
