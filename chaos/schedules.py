"""Kills and stops workers, shifts their clocks and restarts the server while schedules are due, and checks that each
time was enqueued once, from a ledger outside of the database.

    python -m chaos.schedules [--ticks 2000] [--workers 5] [--seed 7]
    python -m chaos.schedules --failovers 3

24 schedules are due each second or every few seconds, with missed="all". Every 3 seconds a worker is killed or stopped
for some seconds, and clocks of workers are set minutes ahead or behind; about every 20 seconds the server is restarted,
in turn after a crash and after a shutdown. With --failovers, the primary fails instead (in turn it is killed, frozen or
made read-only), and its synchronous standby is promoted.
"""

import argparse
import heapq
import itertools
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaos.cluster import Cluster
from chaos.failover import FAILURES
from chaos.fake_clock import MISSING, FakeClock, library
from chaos.ledger import FOLDER, Ledger, read
from chaos.processes import WorkerProgram
from chaos.schedule_checker import BEATS, Verdict, check
from chaos.servers import Server, serving
from chaos.waiting import until
from treadle import migrate

FAULT_SECONDS = 3.0
RESTART_EVERY = 7  # of these faults
LEASE = 5.0
SHIFTS = (-600, -240, -61, 75, 180, 900)  # seconds by which clocks of workers are wrong
STUCK_SECONDS = 120.0


class Fleet:
    """Workers with schedules, and faults. Faults that have a duration end while `wait` runs."""

    def __init__(self, url: str, folder: Path, workers: int, seed: int) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.ledger.folder.mkdir()
        self.counts: Counter[str] = Counter()
        self.rng = random.Random(seed)
        self._url = url
        self._folder = folder
        self._numbers = itertools.count()
        self._clocks = [FakeClock(folder / f"clock-{n}", FAKETIME_CACHE_DURATION="1") for n in range(workers)]
        self._stopped: set[int] = set()
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._workers = [self._start(n) for n in range(workers)]

    def started(self) -> None:
        """Wait until all workers run, and each schedule has been due."""
        for worker in self._workers:
            worker.started()
        until(lambda: self._seen() == BEATS.keys(), lambda: f"no job yet of {BEATS.keys() - self._seen()}", 90)

    def _step(self) -> None:
        """Do what is planned for this moment, and replace workers that have ended."""
        while self._planned and self._planned[0][0] <= time.monotonic():
            heapq.heappop(self._planned)[2]()
        for n, worker in enumerate(self._workers):
            if not worker.alive():  # it was started while there was no server
                self._workers[n] = self._start(n)
        time.sleep(0.05)

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._step()

    def _plan(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (time.monotonic() + seconds, next(self._numbers), action))

    def harm_a_worker(self) -> None:
        """Kill a worker and start another, or stop one for some seconds; set a clock."""
        self._set_clock(self.rng.randrange(len(self._workers)))
        n = self.rng.choice([n for n in range(len(self._workers)) if n not in self._stopped] or [0])
        if self.rng.random() < 0.5:
            self.kill(n)
        else:
            self._note("stopped", lambda: self._workers[n].signal_all(signal.SIGSTOP))
            self._stopped.add(n)
            self._plan(self.rng.choice([0.5, 2.0, 1.5 * LEASE]), lambda: self._continue(n))

    def kill(self, n: int) -> None:
        def replace() -> None:
            self._workers[n].kill_all()
            self._set_clock(n)
            self._workers[n] = self._start(n)

        self._stopped.discard(n)
        self._note("killed", replace)

    def restart(self, server: Server, crash: bool) -> None:
        def away() -> None:
            if crash:
                server.crash()
            else:
                server.close()
            self.wait(self.rng.uniform(0, 4))
            server.come_back()

        self._note("crashes" if crash else "restarts", away)

    def fail_over(self, cluster: Cluster, how: str) -> None:
        primary = cluster.primary

        def promote() -> None:
            {"kill": primary.kill, "freeze": primary.freeze, "read-only": primary.refuse_writes}[how]()
            self.wait(self.rng.uniform(0.5, 6))
            if how == "freeze":
                primary.kill()  # whoever promotes the standby must ensure this
            cluster.standby.promote()

        self._note(how, promote)

    def finish(self) -> Verdict:
        """Wait until no fault is left and the jobs of all times until now have run."""
        while self._planned:
            self._step()
        last = time.time()
        with suppress(AssertionError):  # the verdict says what is missing
            until(lambda: not self._check(last).missed, seconds=STUCK_SECONDS)
        self.wait(1.0)  # for jobs that there should not be
        return self._check(last)

    def close(self) -> None:
        for worker in self._workers:
            worker.kill_all()

    def times(self) -> int:
        return self._check(time.time()).times

    def _check(self, last: float) -> Verdict:
        return check(read(self.ledger.folder), BEATS, last)

    def _seen(self) -> set[str]:
        return {each["schedule"] for each in read(self.ledger.folder) if each["what"] == "beat"}

    def _start(self, n: int) -> WorkerProgram:
        environment = {FOLDER: str(self.ledger.folder)} | (self._clocks[n].environment if library() else {})
        log = self._folder / f"worker-{n}-{next(self._numbers)}.log"
        return WorkerProgram(self._url, log, "--lease", f"{LEASE:g}s", app="chaos.schedules_app:app", **environment)

    def _continue(self, n: int) -> None:
        if n in self._stopped:
            self._stopped.discard(n)
            self._note("continued", lambda: self._workers[n].signal_all(signal.SIGCONT))

    def _set_clock(self, n: int) -> None:
        self._clocks[n].set(self.rng.choice(SHIFTS))
        self.counts["clocks set"] += 1

    def _note(self, did: str, action: Callable[[], None]) -> None:
        begin = time.time()
        try:
            action()
        finally:
            self.ledger.note("fault", did=did, begin=begin, end=time.time())
            self.counts[did] += 1


def storm(folder: Path, ticks: int, workers: int, seed: int) -> tuple[Verdict, Counter[str]]:
    with serving() as server:
        fleet = Fleet(server.url, folder, workers, seed)
        try:
            fleet.started()
            crash = itertools.cycle([True, False])
            for fault in itertools.count(1):
                fleet.wait(FAULT_SECONDS)
                if (found := fleet.times()) >= ticks:
                    return fleet.finish(), fleet.counts
                print(f"{found} of {ticks} times", file=sys.stderr, flush=True)
                fleet.harm_a_worker()
                if fault % RESTART_EVERY == 3:
                    fleet.restart(server, next(crash))
        finally:
            fleet.close()
    raise AssertionError


def fail_over(folder: Path, how: str, workers: int, seed: int) -> tuple[Verdict, Counter[str]]:
    with Cluster(synchronous=True) as cluster:
        migrate(cluster.url)
        fleet = Fleet(cluster.url, folder, workers, seed)
        try:
            fleet.started()
            fleet.wait(fleet.rng.uniform(2, 5))
            fleet.fail_over(cluster, how)
            fleet.wait(5.0)
            return fleet.finish(), fleet.counts
        finally:
            fleet.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.schedules", description="Inject faults while schedules are due, and check their times."
    )
    parser.add_argument("--ticks", type=int, default=2000, help="times of schedules, at least; default 2000")
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--failovers", type=int, default=0, help="fail over this often instead")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    if library() is None:
        print(f"clocks are not shifted: {MISSING}", file=sys.stderr)
    failures = list(itertools.islice(itertools.cycle(FAILURES), options.failovers))
    violated = False
    for number, how in enumerate(failures or [None]):
        folder, seed = Path(tempfile.mkdtemp(prefix="treadle-schedules-")), options.seed + number
        if how is None:
            verdict, counts = storm(folder, options.ticks, options.workers, seed)
        else:
            verdict, counts = fail_over(folder, how, options.workers, seed)
        faults = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        print(f"seed {seed}, {options.workers} workers, {len(BEATS)} schedules, {faults}: {verdict}", flush=True)
        for problem in verdict.problems[:20]:
            print(f"  PROBLEM: {problem}")
        if verdict.problems:
            violated = True
            print(f"the ledger and the logs are in {folder}")
        else:
            shutil.rmtree(folder)
    print("a guarantee was violated" if violated else "no guarantee was violated")
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
