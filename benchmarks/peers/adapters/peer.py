"""What the Python adapters share: the commands, counting and printing. It uses only the standard library.

An adapter is a module with a function for each command that it supports, sync or async, and
`main(sys.modules[__name__])` as its last line. The return value of a function is printed as one line of JSON:

    about() -> dict                       the name, version and settings of the queue
    setup()                               creates its tables
    bulk(jobs, name) -> dict              enqueues many jobs at once; timed(jobs, began) returns the answer
    single(seconds, clients, name)        enqueues one job per call: use repeat() or repeat_on_threads()
    produce(rate, seconds, name)          enqueues stamp or large at a steady rate: use pace() or pace_on_threads()
    work(kind, concurrency)               runs until SIGTERM; handlers call ran.one(), ran.stamp(at), ran.large(data)
                                          and ran.held(n)
    left() -> int                         counts unfinished jobs
    finished(jobs)                        inserts finished jobs
    hold(jobs)                            enqueues jobs that run until they are killed

The job types are noop, noop0 to noop9 (the name "ten" stands for all of them, and type_of() chooses one), wait5, stamp,
large and hold. The kind of a worker is the name of the jobs that it will get, or "mixed" for stamp and large.

The command `watch` calls `left` for each line on standard input, so that the count at the end of a drain does not
include the start of a Python process.

All times are CLOCK_MONOTONIC, which all processes on the machine share.
"""

import asyncio
import base64
import contextlib
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

REPORT = 0.05  # seconds between two reports about jobs that ran
WARM = 1.0  # seconds of enqueues that are not counted: on new connections they take longer
# Concurrent calls, because consecutive calls would not reach a high rate.
PRODUCERS = int(os.environ.get("BENCH_PRODUCERS", "16"))
TEN = [f"noop{nth}" for nth in range(10)]
IN_A_ROW = 200  # jobs of one type, when there are ten
LARGE = 200_000  # characters


def say(**fields: Any) -> None:
    # A single write per line, because several threads and forked children may share the pipe.
    rest = (json.dumps(fields) + "\n").encode()
    while rest:
        rest = rest[os.write(1, rest) :]


def type_of(name: str, n: int) -> str:
    """Return the type of the nth job."""
    return TEN[n // IN_A_ROW % len(TEN)] if name == "ten" else name


def batches(name: str, jobs: int, size: int) -> Iterator[tuple[str, range]]:
    """Yield a type and the numbers of its jobs, for calls that enqueue several jobs of one type."""
    if name == "ten":
        size = IN_A_ROW
    for first in range(0, jobs, size):
        yield type_of(name, first), range(first, min(jobs, first + size))


def is_noop(kind: str) -> bool:
    return kind in {"noop", "ten"}


def payload_of(name: str, at: float) -> dict[str, Any]:
    """Return the arguments of a job that produce() enqueues. A large one does not compress."""
    return {"at": at} if name == "stamp" else {"data": _large}


_large = base64.b64encode(os.urandom(LARGE * 3 // 4)).decode()


class Ran:
    """Counts the jobs that this process ran and reports them from a thread."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.pid = 0
        self.total = 0
        self.at = 0.0
        self._reported = 0
        self._latencies: list[float] = []
        self._lock = threading.Lock()

    def one(self, waited: float | None = None) -> None:
        if self.pid != os.getpid():
            self._first()
        with self._lock:
            self.total += 1
            self.at = time.monotonic()
            if waited is not None:
                self._latencies.append(round(waited * 1000, 2))

    def stamp(self, at: float) -> None:
        self.one(time.monotonic() - at if at else None)

    def large(self, data: str) -> None:
        """A job that only keeps the worker busy, and is neither counted nor timed."""
        if len(data) != LARGE:
            raise ValueError(f"{len(data)} characters instead of {LARGE}")

    def held(self, n: int) -> None:
        say(held=n, at=time.monotonic(), pid=os.getpid())

    def end(self) -> None:
        self._report()

    def _first(self) -> None:
        """Start counting at the first job of this process, which may be a fork of a process that already ran jobs."""
        self._begin()
        self.pid = os.getpid()
        say(ran=0, at=time.monotonic(), pid=self.pid)
        threading.Thread(target=self._report_regularly, daemon=True).start()

    def _report(self) -> None:
        # Latencies are reported as they occur, because some workers exit without a final report.
        with self._lock:
            self._reported, at = self.total, self.at
            latencies, self._latencies = self._latencies, []
        say(ran=self._reported, at=at, pid=os.getpid(), latencies_ms=latencies)

    def _report_regularly(self) -> None:
        while True:
            time.sleep(REPORT)
            if self.total != self._reported:
                self._report()


ran = Ran()


def ready() -> None:
    say(ready=True)


@contextlib.contextmanager
def stopping() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM sets, for workers that are stopped by a call."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    yield event


def timed(jobs: int, began: float) -> dict[str, float]:
    return {"jobs": jobs, "seconds": time.monotonic() - began, "began": began}


async def repeat(seconds: float, clients: int, call: Callable[[int], Awaitable[Any]]) -> dict[str, float]:
    """Call repeatedly, on one task per client. Calls in the first second, on new connections, are not counted."""
    began, made, done = time.monotonic() + WARM, 0, 0

    async def client() -> None:
        nonlocal made, done
        while (now := time.monotonic()) < began + seconds:
            await call(made)
            made += 1
            done += now >= began

    await asyncio.gather(*(client() for _ in range(clients)))
    return timed(done, began) | {"made": made}


async def pace(rate: float, seconds: float, call: Callable[[float], Awaitable[Any]]) -> dict[str, float]:
    """Call at a steady rate, passing the time of the call; in the first second 0, because on new connections calls take
    longer. Late calls are made immediately; none is skipped."""
    began, turns = time.monotonic(), iter(range(round(rate * (WARM + seconds))))

    async def client() -> int:
        done = 0
        for turn in turns:
            await asyncio.sleep(began + turn / rate - time.monotonic())
            await call(_stamp(began))
            done += 1
        return done

    return timed(sum(await asyncio.gather(*(client() for _ in range(PRODUCERS)))), began)


def _stamp(began: float) -> float:
    now = time.monotonic()
    return now if now - began > WARM else 0.0


def repeat_on_threads(seconds: float, clients: int, call: Callable[[int], Any]) -> dict[str, float]:
    """Like repeat(), for a blocking call."""
    began = time.monotonic() + WARM
    counted: list[int] = []

    def client() -> int:
        made = done = 0
        while (now := time.monotonic()) < began + seconds:
            call(made)
            made += 1
            done += now >= began
        counted.append(done)
        return made

    made = _on_threads(client, clients)
    return timed(sum(counted), began) | {"made": made}


def pace_on_threads(rate: float, seconds: float, call: Callable[[float], Any]) -> dict[str, float]:
    began, turns, turn_lock = time.monotonic(), iter(range(round(rate * (WARM + seconds)))), threading.Lock()

    def client() -> int:
        done = 0
        while True:
            with turn_lock:
                turn = next(turns, None)
            if turn is None:
                return done
            time.sleep(max(0.0, began + turn / rate - time.monotonic()))
            call(_stamp(began))
            done += 1

    return timed(_on_threads(client, PRODUCERS), began)


def _on_threads(client: Callable[[], int], clients: int) -> int:
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(client())) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) != clients:
        raise RuntimeError(f"{clients - len(counts)} of {clients} clients failed; their errors are above")
    return sum(counts)


async def _watch(adapter: Any) -> None:
    loop = asyncio.get_running_loop()
    say(ready=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        at = time.monotonic()  # counting in a large table takes a while, and the result is valid for its start
        left = adapter.left()
        say(left=await left if inspect.isawaitable(left) else left, at=at)


def main(adapter: Any) -> None:
    command, *words = sys.argv[1:] or ["about"]
    arguments: list[Any] = [float(word) if word.replace(".", "", 1).isdigit() else word for word in words]
    if command in {"bulk", "finished", "hold"}:
        arguments[0] = int(arguments[0])
    if command in {"single", "work"}:
        arguments[1] = int(arguments[1])
    if (command == "bulk" and len(arguments) < 2) or (command == "single" and len(arguments) < 3):
        arguments.append("noop")
    if command == "produce" and len(arguments) < 3:
        arguments.append("stamp")
    answer: Any = _watch(adapter) if command == "watch" else getattr(adapter, command)(*arguments)
    if inspect.iscoroutine(answer):
        # An adapter names another event loop if the documentation of its queue recommends one.
        with asyncio.Runner(loop_factory=getattr(adapter, "loop_factory", None)) as runner:
            answer = runner.run(answer)
    if command == "work":
        ran.end()
    elif command == "left":
        say(left=answer)
    elif answer is not None:
        say(**answer)
