"""The worker processes of a queue, and a process that counts its unfinished jobs."""

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import psutil

from benchmarks.peers.program import Program, end_group, signal_group, start

READY = 60.0  # seconds
STOP = 6.0

Note = Callable[[Program], None]  # registers a program, so that it is killed if it hangs


class Workers:
    """Several worker processes, and the sum of what they report."""

    def __init__(self, stderr: IO[bytes], note: Note) -> None:
        self.processes: list[Program] = []
        self.ready = 0
        self.expected = 0
        self.counts: dict[tuple[int, int], int] = {}
        self.first = 0.0
        self.last = 0.0
        self.latencies: list[float] = []
        self.held: list[tuple[int, float]] = []
        self._stderr = stderr
        self._note = note
        self._lock = threading.Condition()
        self._readers: list[threading.Thread] = []

    @property
    def ran(self) -> int:
        return sum(self.counts.values())

    def start(self, command: list[str], place: dict[str, str], processes: int = 1) -> None:
        """Start a program that reports once from each of its worker processes when it is ready."""
        self.expected += processes
        process = start(command, place, stderr=self._stderr)
        self.processes.append(process)
        self._note(process)
        reader = threading.Thread(target=self._read, args=(len(self.processes), process), daemon=True)
        reader.start()
        self._readers.append(reader)

    def await_ready(self) -> None:
        self.wait(lambda: self.ready >= self.expected, READY, "the workers are ready")

    def await_ran(self, jobs: int, seconds: float) -> None:
        self.wait(lambda: self.ran >= jobs, seconds, f"{jobs:,} jobs ran")

    def wait(self, check: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        with self._lock:
            while not check():
                if all(process.poll() is not None for process in self.processes):
                    raise TimeoutError(f"the workers ended before {what} ({self.ran:,} ran)")
                if time.monotonic() > end:
                    raise TimeoutError(f"waited {seconds:.0f} s until {what} ({self.ran:,} ran)")
                self._lock.wait(0.2)

    def memory(self) -> float:
        """Return the megabytes of the largest process of the first worker, which is the one that runs the jobs."""
        first = psutil.Process(self.processes[0].pid)
        every = [first, *first.children(recursive=True)]
        return max(float(process.memory_info().rss) for process in every) / 2**20

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop all processes, and let them continue together."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            signal_group(process, number)

    def kill(self, nth: int) -> float:
        """Kill a worker and all processes that it started with SIGKILL, as if its machine were lost."""
        end_group(self.processes[nth])
        self.processes[nth].wait()
        return time.monotonic()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        end = time.monotonic() + STOP
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
            end_group(process)
            process.wait()
        for reader in self._readers:
            reader.join(5)
        for process in self.processes:
            if process.stdout:
                process.stdout.close()

    def _read(self, nth: int, process: Program) -> None:
        assert process.stdout
        for line in process.stdout:
            if line.startswith("{"):
                with self._lock:
                    self._update(nth, json.loads(line))
                    self._lock.notify_all()

    def _update(self, nth: int, report: dict[str, Any]) -> None:
        if "ready" in report:
            self.ready += 1
        if "held" in report:
            self.held.append((nth, report["at"]))
        if "ran" in report:
            self.latencies += report.get("latencies_ms", [])
            self.counts[nth, report.get("pid", 0)] = report["ran"]
            if report["at"]:
                self.first = min(self.first or report["at"], report["at"])
                self.last = max(self.last, report["at"])


class Watch:
    """Counts unfinished jobs in a process that is already running, or, without one, starts one for each count."""

    def __init__(self, command: list[str], place: dict[str, str], ask: Callable[[], int], note: Note) -> None:
        self._ask = ask
        self._process = start(command, place, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        note(self._process)
        self._running = self._process.stdout is not None and bool(self._process.stdout.readline())

    def look(self) -> tuple[int, float]:
        """Return the number of unfinished jobs, and the time at which it was counted."""
        if not self._running:
            began = time.monotonic()  # the earlier time favours the peer: its program has yet to start
            return self._ask(), began
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise TimeoutError("the process that counts unfinished jobs exited")
        report = json.loads(line)
        return int(report["left"]), float(report["at"])

    def stop(self) -> None:
        end_group(self._process)
        self._process.communicate()
