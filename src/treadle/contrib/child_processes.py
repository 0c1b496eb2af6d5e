"""Telemetry in processes that may end without notice: child processes are killed, and workers end without atexit."""

import multiprocessing
import threading
from collections.abc import Callable


def in_child_process() -> bool:
    """Whether this is a child process of a worker, for jobs with process=True."""
    return multiprocessing.current_process().name == "treadle-child"


class Flusher:
    """Sends what is buffered, on a thread, and waits for a limited time: while its collector is away, an exporter tries
    for many seconds, and jobs must not wait for it each time."""

    def __init__(self, *flush: Callable[[], object]) -> None:
        self._flush = flush
        self._thread: threading.Thread | None = None

    def flush(self, seconds: float) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._run, name="treadle-flush", daemon=True)
        self._thread.start()
        self._thread.join(seconds)

    def _run(self) -> None:
        for each in self._flush:
            each()
