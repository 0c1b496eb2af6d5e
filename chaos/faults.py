"""Workers that are killed and stopped while the server is restarted, for chaos/limits.py and chaos/workflows.py."""

import itertools
import random
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaos.cluster import Cluster
from chaos.ledger import FOLDER, Ledger
from chaos.processes import WorkerProgram
from chaos.servers import Server
from treadle import migrate

LEASE = 3.0
FAULT_SECONDS = (1.0, 3.0)
CLOCK_STEP = 0.002
RESTART_EVERY = 8  # of these faults
# What a worker may log: its database was away, it was stopped, a process was killed.
EXPECTED = re.compile(
    r"unavailable|could not be renewed|was killed|died|is restarted|lease not renewed|exited with|RequestedFailure"
)
# A worker waits 100 ms for a lock when it writes outcomes, and then tries again later.
POSTPONED = "canceling statement due to lock timeout"
# A worker that was stopped cancels a statement whose time is over.
CANCELLED = "canceling statement due to user request"


class Faults:
    """Several workers with two processes each, and a ledger."""

    def __init__(self, url: str, folder: Path, seed: int, app: str, programs: int = 4) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.ledger.folder.mkdir()
        self.counts: Counter[str] = Counter()
        self.rng = random.Random(seed)
        self.problems: list[str] = []
        self._url = url
        self._folder = folder
        self._app = app
        self._numbers = itertools.count()
        self._stopped: dict[int, float] = {}
        self._clock = [(time.time(), time.time() - time.monotonic())]  # the time of day may be set while this runs
        self._programs = [self._start(n) for n in range(programs)]
        for each in self._programs:
            each.started(2)

    def harm(self) -> None:
        """Kill or stop a worker process, or a whole worker with its supervisor."""
        n = self.rng.randrange(len(self._programs))
        program, chance = self._programs[n], self.rng.random()
        if n in self._stopped:
            return
        if chance < 0.35 and (processes := program.worker_processes()):
            one = self.rng.choice(processes)
            self._note("killed", [one.pid], one.kill)
            self.counts["processes killed"] += 1
        elif chance < 0.55:
            self._note("killed", [each.pid for each in program.tree()], program.kill_all)
            self._programs[n] = self._start(n)
            self.counts["workers killed"] += 1
        else:
            pids = [each.pid for each in program.tree()]
            self._note("stopped", pids, lambda: program.signal_all(signal.SIGSTOP))
            self._stopped[n] = time.monotonic() + self.rng.choice([0.3, 1.0, 1.5 * LEASE, 2 * LEASE])
            self.counts["stopped"] += 1

    def storm(
        self,
        server: Server | Cluster,
        produce: Callable[[threading.Event], None],
        beside: Callable[[threading.Event], None],
        is_done: Callable[[], bool],
    ) -> float:
        """Inject faults until everything is produced and done. `beside` runs until then, and both end when the event is
        set. Returns how many seconds it took."""
        over = threading.Event()
        producer, other = (threading.Thread(target=each, args=(over,)) for each in (produce, beside))
        try:
            begin = time.monotonic()
            producer.start()
            other.start()
            crash = itertools.cycle([True, False])
            for fault in itertools.count(1):
                self.wait(self.rng.uniform(*FAULT_SECONDS))
                if not producer.is_alive() and is_done():
                    break
                self.harm()
                if fault % RESTART_EVERY == 3:
                    self.restart(server, next(crash))
                    print(f"{time.monotonic() - begin:4.0f} s: {dict(self.counts)}", file=sys.stderr, flush=True)
            return time.monotonic() - begin
        finally:
            over.set()
            producer.join()
            other.join()

    def wait(self, seconds: float) -> None:
        """Meanwhile, stopped workers continue, and those that have ended are replaced."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now, offset = time.time(), time.time() - time.monotonic()
            if abs(offset - self._clock[-1][1]) > CLOCK_STEP:
                self._clock.append((now, offset))
                self.counts["clock set"] += 1
            for n, at in list(self._stopped.items()):
                if at <= time.monotonic():
                    del self._stopped[n]
                    self._programs[n].signal_all(signal.SIGCONT)
            for n, program in enumerate(self._programs):
                if not program.alive():  # it was started while there was no server
                    self._programs[n] = self._start(n)
            time.sleep(0.05)

    def restart(self, server: Server | Cluster, crash: bool) -> None:
        if crash or isinstance(server, Cluster):
            server.crash()
        else:
            server.close()
        self.read_log(server)
        self.wait(self.rng.uniform(0, 4))
        server.come_back()
        self.counts["crashes" if crash else "restarts"] += 1

    def read_log(self, server: Server | Cluster) -> None:
        """The next start may overwrite it."""
        log = server.new_log()
        self.problems += server_log_problems(log)
        self.counts["outcomes postponed"] += log.count(POSTPONED)

    def monotonic(self, at: float) -> float:
        """A time of day as seconds of the monotonic clock, which the ledger has."""
        return at - next((offset for since, offset in reversed(self._clock) if since <= at), self._clock[0][1])

    def let_all_continue(self) -> None:
        while self._stopped:
            self.wait(0.1)

    def log_problems(self) -> list[str]:
        """Of the workers and of the server."""
        found = []
        for log in sorted(self._folder.glob("worker-*.log")):
            found += worker_log_problems(log.read_text(errors="replace"))
        return found + self.problems

    def close(self) -> None:
        for each in self._programs:
            each.kill_all()

    def _start(self, n: int) -> WorkerProgram:
        log = self._folder / f"worker-{n}-{next(self._numbers)}.log"
        options = ["--lease", f"{LEASE:g}s", "--processes", "2", "--crash-limit", "1000"]
        environment = {FOLDER: str(self.ledger.folder)}
        return WorkerProgram(self._url, log, *options, app=self._app, **environment)

    def _note(self, did: str, pids: list[int], action: Callable[[], None]) -> None:
        begin = time.monotonic()
        action()
        self.ledger.note("fault", did=did, pids=pids, begin=begin)


def server_log_problems(log: str) -> list[str]:
    """Errors, each with the lines that say where it came from."""
    lines = log.splitlines()
    return [
        "server: " + " ".join(line.strip() for line in lines[n : n + 8])
        for n, line in enumerate(lines)
        if re.search(r"ERROR: |PANIC: ", line) and POSTPONED not in line and CANCELLED not in line
    ]


def worker_log_problems(log: str) -> list[str]:
    """Errors other than those that the faults explain."""
    found = [line for line in log.splitlines() if " ERROR " in line and not EXPECTED.search(line)]
    return [f"worker: {line}" for line in found] + [
        f"worker: {line}" for line in log.splitlines() if re.search("deadlock|SyntaxError|KeyError", line)
    ]


@contextmanager
def failing_over() -> Iterator[Cluster]:
    with Cluster(synchronous=True) as cluster:
        migrate(cluster.url)
        yield cluster


def report(folder: Path, problems: Sequence[object]) -> int:
    """Print the problems, remove the folder if there are none, and return the exit code."""
    for problem in problems[:30]:
        print(f"  PROBLEM: {problem}")
    if problems:
        print(f"the ledger and the logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if problems else 0
