"""Kills whole workers, with their supervisors, and measures how long it takes until their jobs run again elsewhere.

    python -m chaos.restarts --trials 100

A trial is one killed worker with some long jobs, at a random time of its lease, while short jobs keep all workers busy.
Its time is that of the last of its jobs to start again. Several workers are killed in each round.
"""

import argparse
import itertools
import math
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from chaos.ledger import FOLDER, read
from chaos.processes import WorkerProgram
from chaos.waiting import until
from treadle import JobQueue, migrate
from treadle.db.embedded import embedded_url, leave

SURVIVORS = 2
JOBS = 5  # long jobs for each worker
LOAD_SECONDS = 0.05  # a batch of short jobs is enqueued this often
LOAD_BATCH = 5


class Times(NamedTuple):
    """Seconds from the kill of each worker until the last of its jobs runs again."""

    seconds: list[float]

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Trials:
    def __init__(self, url: str, folder: Path, lease: float, seed: int, survivors: int = SURVIVORS) -> None:
        self._url = url
        self._folder = folder
        self._lease = lease
        self._rng = random.Random(seed)
        self._numbers = itertools.count()
        self._ledger = folder / "ledger"
        self._ledger.mkdir()
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._over = threading.Event()
        self._load = threading.Thread(target=self._enqueue_load)
        self._survivors = [self._start() for _ in range(survivors)]

    def run(self, trials: int, at_once: int) -> Times:
        self._load.start()
        for worker in self._survivors:
            worker.started()
        seconds: list[float] = []
        while len(seconds) < trials:
            seconds += self._round(min(at_once, trials - len(seconds)))
            print(f"{len(seconds)} of {trials} trials", file=sys.stderr, flush=True)
        return Times(seconds)

    def close(self) -> None:
        self._over.set()
        with suppress(RuntimeError):  # not started
            self._load.join()
        for worker in self._survivors:
            worker.kill_all()
        self._connection.close()

    def _round(self, victims: int) -> list[float]:
        workers = [self._start() for _ in range(victims)]
        try:
            for worker in workers:
                worker.started()
            jobs = set()
            with JobQueue(self._url) as queue:
                for _ in range(JOBS * (victims + len(self._survivors))):
                    jobs.add(str(queue.enqueue("long", {"seconds": 600})))
                    time.sleep(0.02)  # each wakes one of the workers; together they would go to the first one
            until(lambda: jobs <= self._running().keys(), lambda: "all long jobs run", 60)
            killed: dict[str, float] = {}
            for worker in workers:
                time.sleep(self._rng.uniform(0, self._lease / 3 / victims))
                pids = {each.pid for each in worker.tree()}
                # The time before the kill, and what the worker runs then: both are certainly not later.
                at, mine = time.monotonic(), [job for job, pid in self._running().items() if pid in pids]
                worker.kill_all()
                killed |= dict.fromkeys(mine, at)
            until(lambda: self._restarts(killed).keys() == killed.keys(), lambda: self._missing(killed), 120)
        finally:
            for worker in workers:
                worker.kill_all()
        by_worker: dict[float, float] = {}
        for job, at in self._restarts(killed).items():
            by_worker[killed[job]] = max(by_worker.get(killed[job], 0.0), at - killed[job])
        self._connection.execute("select treadle.cancel_job(id) from treadle.jobs where job_type = 'long'")
        return list(by_worker.values())

    def _start(self) -> WorkerProgram:
        log = self._folder / f"worker-{next(self._numbers)}.log"
        environment = {FOLDER: str(self._ledger)}
        return WorkerProgram(self._url, log, "--lease", f"{self._lease}s", app="chaos.restart_app:app", **environment)

    def _running(self) -> dict[str, int]:
        """The long jobs that have started, and the process in which each last did."""
        return {each["id"]: each["pid"] for each in self._starts()}

    def _restarts(self, killed: dict[str, float]) -> dict[str, float]:
        """When each of these jobs first started after its worker was killed; those that have not are missing."""
        found: dict[str, float] = {}
        for each in self._starts():
            if each["id"] in killed and each["at"] > killed[each["id"]]:
                found.setdefault(each["id"], each["at"])
        return found

    def _starts(self) -> list[dict[str, Any]]:
        return sorted((each for each in read(self._ledger) if each["what"] == "start"), key=lambda each: each["at"])

    def _missing(self, killed: dict[str, float]) -> str:
        missing = sorted(killed.keys() - self._restarts(killed).keys())
        query = "select status, worker_id, lease, losses from treadle.jobs where id = any (%s::uuid[])"
        rows = self._connection.execute(query, [missing]).fetchall()
        return f"{len(missing)} of {len(killed)} jobs did not start again: {rows[:3]}"

    def _enqueue_load(self) -> None:
        with JobQueue(self._url) as queue:
            while not self._over.wait(LOAD_SECONDS):
                queue.enqueue_many("short", [{"seconds": 0.05}] * LOAD_BATCH)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.restarts", description="Kill whole workers and measure when their jobs run again."
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=6, help="workers killed in each round, default 6")
    parser.add_argument("--lease", type=float, default=10.0, help="seconds, default 10")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-restarts-"))
    folder.chmod(0o711)
    trials = None
    try:
        url = embedded_url(folder / "server", settings={"fsync": "off"}, quiet=True)
        migrate(url)
        trials = Trials(url, folder, options.lease, options.seed)
        times = trials.run(options.trials, options.at_once)
    finally:
        if trials is not None:
            trials.close()
        leave(folder / "server")
        shutil.rmtree(folder, ignore_errors=True)
    most = (options.lease + 1, 1.5 * options.lease)
    found = (times.quantile(0.5), times.quantile(0.99))
    print(
        f"seed {options.seed}: {len(times.seconds)} workers killed, {os.cpu_count()} cores, lease {options.lease:g} s: "
        f"their jobs ran again after p50 {found[0]:.1f} s (limit {most[0]:g}), p99 {found[1]:.1f} s "
        f"(limit {most[1]:g}), at most {max(times.seconds):.1f} s"
    )
    return 0 if all(each <= limit for each, limit in zip(found, most, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
