"""Enqueues unique jobs from many processes, in every mode, while workers run, fail and are killed:

    python -m chaos.unique --calls 20000

The checks use the ledger, and the rows of the jobs at the end:

    unfinished   a second job of a text was added only after the first had been run to its end
    pending      a second job of a text was added only after the first had been claimed
    replace,     as pending; and of the last calls for each text, one was run: no call is lost
    debounce
    throttle     no more jobs of a text per period than allowed
    all          every call returned a job, no call met a deadlock, and every job finished
"""

import argparse
import itertools
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg

from chaos.ledger import FOLDER, Ledger, Record, read
from chaos.processes import WorkerProgram
from chaos.waiting import until
from treadle import Connections, Retries, migrate
from treadle.db.database import Database
from treadle.db.embedded import embedded_url, leave
from treadle.db.queries import enqueueing

WORKERS = 2
KILL_SECONDS = (1.0, 3.0)
BULK = 20  # the largest number of calls in one statement
LEASE = "2s"


class Call(NamedTuple):
    """One call, as the ledger has it: the moments before and after it, and what it returned."""

    invoked: float
    returned: float
    call: str
    job: str
    is_new: bool


class JobEnd(NamedTuple):
    """A job at the end of the run."""

    status: str
    lease: int
    created: float
    claimed: float | None


def produce(url: str, folder: Path, calls: int, texts: int, seed: int) -> None:
    """The program of one producer."""
    os.environ[FOLDER] = str(folder)
    from chaos.unique_app import MODES

    rng, ledger, done = random.Random(seed), Ledger(folder), 0
    with closing(Database(url, "treadle", Connections(pool_size=1))) as database:
        while done < calls:
            mode = rng.choice(list(MODES))
            number = rng.choice([1, 1, 1, rng.randint(2, BULK)])
            payloads = [{"text": f"t{rng.randrange(texts)}", "call": f"{seed}-{done + n}"} for n in range(number)]
            queries = enqueueing.enqueue_many(mode, payloads, None, unique=MODES[mode], retry=Retries(49))
            at = time.monotonic()
            try:
                enqueued = [each for several in database.run_together(queries) for each in several]
            except Exception as error:
                ledger.note("failed", mode=mode, error=repr(error)[:300])
            else:
                for payload, each in zip(payloads, enqueued, strict=True):
                    made = {"job": str(each.id), "is_new": each.is_new}
                    ledger.note("called", mode=mode, **payload, invoked=at, **made)
            done += number


class Trial:
    def __init__(self, url: str, folder: Path, seed: int, workers: int = WORKERS) -> None:
        self._workers = workers
        self._url = url
        self._folder = folder
        self._rng = random.Random(seed)
        self._ledger = folder / "ledger"
        self._ledger.mkdir()
        self._over = threading.Event()
        self.kills = 0

    def run(self, calls: int, producers: int, texts: int) -> list[Record]:
        """Enqueue and work until every job has finished; returns the ledger."""
        workers = [self._start(n) for n in range(self._workers)]
        killer = threading.Thread(target=self._kill, args=(workers,))
        processes = [
            multiprocessing.get_context("spawn").Process(
                target=produce, args=(self._url, self._ledger, calls // producers, texts, n)
            )
            for n in range(producers)
        ]
        try:
            for worker in workers:
                worker.started()
            killer.start()
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            self._over.set()
            killer.join()
            with psycopg.connect(self._url, autocommit=True) as connection:
                left = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
                until(lambda: connection.execute(left).fetchone() == (0,), lambda: "all jobs finish", 120)
        finally:
            self._over.set()
            for worker in workers:
                worker.kill_all()
        return read(self._ledger)

    def _start(self, number: int) -> WorkerProgram:
        log = self._folder / f"worker-{number}-{time.monotonic_ns()}.log"
        return WorkerProgram(
            self._url,
            log,
            "--lease",
            LEASE,
            "--processes",
            "2",
            app="chaos.unique_app:app",
            **{FOLDER: str(self._ledger)},
        )

    def _kill(self, workers: list[WorkerProgram]) -> None:
        while not self._over.wait(self._rng.uniform(*KILL_SECONDS)):
            number = self._rng.randrange(len(workers))
            if self._rng.random() < 0.5:
                workers[number].kill_all()
                workers[number] = self._start(number)
            elif process := workers[number].worker_process():
                process.kill()
            self.kills += 1


def violations(records: list[Record], jobs: dict[str, JobEnd]) -> Iterator[str]:
    """What was not as promised."""
    from chaos.unique_app import PER_PERIOD, PERIOD

    for each in records:
        if each["what"] == "failed":
            yield f"a call failed ({each['mode']}): {each['error']}"
    for job, end in jobs.items():
        if end.status != "completed":
            yield f"job {job} is {end.status}"
    by_text: dict[tuple[str, str], list[Call]] = defaultdict(list)
    ends: dict[str, float] = {}
    started: set[str] = set()
    for each in records:
        if each["what"] == "called":
            call = Call(each["invoked"], each["at"], each["call"], each["job"], each["is_new"])
            by_text[each["mode"], each["text"]].append(call)
        elif each["what"] == "end":
            ends.setdefault(each["id"], each["at"])
        elif each["what"] == "start":
            started.add(each["call"])
    for (mode, text), calls in by_text.items():
        added = sorted((call for call in calls if call.is_new), key=lambda call: jobs[call.job].created)
        for call in calls:
            if call.job not in jobs:
                yield f"{mode} {text}: call {call.call} returned {call.job}, which does not exist"
        for one, other in itertools.pairwise(added):
            if mode == "unfinished" and ends.get(one.job, float("inf")) > other.returned:
                yield f"{mode} {text}: {other.job} was added before {one.job} had ended"
            first = jobs[one.job]
            claimed = first.claimed if first.lease == 1 else None
            # The call may have waited for the claim after it had read the clock.
            latest = jobs[other.job].created + other.returned - other.invoked
            if mode in ("pending", "replace", "debounce") and claimed and claimed > latest:
                yield f"{mode} {text}: {other.job} was added before {one.job} was claimed"
        if mode == "throttle":
            for one, other in zip(added, added[PER_PERIOD:], strict=False):
                if other.returned - one.invoked < PERIOD:
                    yield f"{mode} {text}: {other.job} was added {other.returned - one.invoked:.3f} s after {one.job}"
        if mode in ("replace", "debounce"):
            last = max(call.invoked for call in calls)
            if not any(call.call in started for call in calls if call.returned >= last):
                yield f"{mode} {text}: none of the last calls was run"


def job_ends(url: str) -> dict[str, JobEnd]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            """select id::text, status, lease, date_part('epoch', created_at), date_part('epoch', claimed_at)
            from treadle.jobs"""
        ).fetchall()
    return {row[0]: JobEnd(*row[1:]) for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.unique", description="Enqueue unique jobs in every mode while workers are killed."
    )
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--producers", type=int, default=16)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-unique-"))
    folder.chmod(0o711)
    os.environ[FOLDER] = str(folder / "ledger")
    try:
        url = embedded_url(folder / "server", settings={"fsync": "off"}, quiet=True)
        migrate(url)
        trial = Trial(url, folder, options.seed)
        records = trial.run(options.calls, options.producers, options.texts)
        jobs = job_ends(url)
        found = list(violations(records, jobs))
    finally:
        leave(folder / "server")
        shutil.rmtree(folder, ignore_errors=True)
    called = sum(each["what"] == "called" for each in records)
    print(
        f"seed {options.seed}: {called} calls from {options.producers} processes for {options.texts} texts, "
        f"{len(jobs)} jobs, {trial.kills} kills: {f'{len(found)} violations' if found else 'held'}"
    )
    for each in found[:20]:
        print(f"    {each}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
