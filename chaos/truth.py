"""Compares the numbers of jobs that the dashboard, treadle top, treadle stats, the API and metrics show with what SQL
counts, under load: python -m chaos.truth [--seconds 300] [--seed 1]

There are 12 job types in 6 queues, 200,000 finished jobs, 11,000 waiting jobs and a type with 100,000 more. Two workers
run them, others are enqueued, and for half of the time a snapshot is open. Each surface is read every second, between
two counts by SQL:

- A number that is shown as exact must lie between the two counts, or differ from them by at most EXACT jobs: in
  between, jobs may have come and gone.
- An estimate must differ from them by at most ESTIMATE of the number.

Metrics are up to 5 seconds old: they are compared with all counts since then.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import Connection

from chaos.processes import WorkerProgram
from chaos.servers import Server
from chaos.truth_app import QUEUES, TYPES
from chaos.truth_surfaces import Key, Numbers, Surfaces
from treadle import JobQueue
from treadle.operations.metrics import CACHE_SECONDS
from treadle.words.json import Json

EXACT = 100
ESTIMATE = 0.05
DEEP = TYPES[0]
SNAPSHOT_SECONDS = 20.0

FINISHED = """
insert into jobs (id, job_type, queue, status, run_at, created_at, claimed_at, started_at, finished_at, attempts, lease)
select
    new_id(), 'type_' || n %% 12, 'queue_' || n %% 6,
    case when n %% 100 < 93 then 'completed' when n %% 100 < 97 then 'failed' else 'cancelled' end,
    moment, moment, moment, moment, moment, 1, 1
from (
    select n, now() - interval '1 day' + n * interval '1 day' / %(jobs)s as moment
    from generate_series(1, %(jobs)s) as n
) as job"""
PENDING = """
insert into jobs (id, job_type, queue, priority, run_at)
select new_id(), %(type)s, %(queue)s, 100, now() - interval '1 hour' + n * interval '10 ms'
from generate_series(1, %(jobs)s) as n"""
COUNT = """
select status, queue, job_type, priority, holds = 0 and attempts < max_attempts, count(*)
from treadle.jobs
group by 1, 2, 3, 4, 5"""
# What workers do, without the wait in between.
COUNT_ALL = "select treadle.count_depths(p_time => '1 minute') from setval('treadle.depth_clock', 0)"

Counts: TypeAlias = dict[Key, int]


class Load(NamedTuple):
    finished: int = 200_000
    deep: int = 100_000
    waiting: int = 1_000
    """Of each of the other types."""
    a_second: int = 150
    """Jobs that are added."""
    concurrency: int = 8
    """Of each of the two workers."""


class Truth(NamedTuple):
    at: float
    counts: Counts


class Errors:
    """The largest difference of each surface, in jobs for exact numbers and as a share for estimates."""

    def __init__(self) -> None:
        self.exact: dict[str, int] = defaultdict(int)
        self.estimate: dict[str, float] = defaultdict(float)
        self.compared: dict[str, int] = defaultdict(int)
        self.worst: list[str] = []

    def compare(self, surface: str, shown: Numbers, counted: list[Counts]) -> None:
        for key, (jobs, exact) in shown.items():
            known = [each.get(key, 0) for each in counted]
            difference = max(0, min(known) - jobs, jobs - max(known))
            share = difference / max(1, *known)
            self.compared[surface] += 1
            if exact:
                self.exact[surface] = max(self.exact[surface], difference)
            else:
                self.estimate[surface] = max(self.estimate[surface], share)
            if difference > EXACT if exact else share > ESTIMATE:
                self.worst.append(f"{surface} shows {jobs:,} of {' '.join(key)}, SQL {min(known):,} to {max(known):,}")

    def __str__(self) -> str:
        lines = [
            f"{name:8} {self.compared[name]:7,} numbers, exact ones wrong by at most {self.exact[name]:,} jobs, "
            f"estimates by {self.estimate[name]:.2%}"
            for name in self.compared
        ]
        return "\n".join([*lines, *self.worst[:20]])


def fill(connection: Connection[Any], load: Load) -> None:
    connection.execute("set session_replication_role = replica")
    connection.execute(FINISHED, {"jobs": load.finished})
    for name in TYPES:
        jobs = load.deep if name == DEEP else load.waiting
        connection.execute(PENDING, {"type": name, "queue": QUEUES[name], "jobs": jobs})
        connection.execute("insert into lanes (queue, job_type, priority) values (%s, %s, 100)", [QUEUES[name], name])
    connection.execute("set session_replication_role = origin")
    connection.execute("analyze jobs")
    for _ in range(3):
        connection.execute(COUNT_ALL)


def count(connection: Connection[Any]) -> Truth:
    counts: dict[Key, int] = defaultdict(int)
    for status, queue, job_type, priority, claimable, jobs in connection.execute(COUNT).fetchall():
        counts[status,] += jobs
        if status == "pending" and claimable:
            counts[queue, job_type, str(priority)] += jobs
            counts[queue, job_type] += jobs
    return Truth(time.monotonic(), dict(counts))


@contextmanager
def background(*parts: Any) -> Iterator[None]:
    stopped = threading.Event()
    threads = [threading.Thread(target=part, args=(stopped,)) for part in parts]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stopped.set()
        for each in threads:
            each.join()


def compare(url: str, folder: Path, seconds: float, load: Load, seed: int) -> Errors:
    """Runs the load and compares for so many seconds."""
    chance = random.Random(seed)
    options = ("--concurrency", str(load.concurrency))
    with psycopg.connect(url, autocommit=True, options="-c search_path=treadle,public") as connection:
        fill(connection, load)
        workers = [WorkerProgram(url, folder / f"{n}.log", *options, app="chaos.truth_app:app") for n in range(2)]

        def enqueue(stopped: threading.Event) -> None:
            with psycopg.connect(url, autocommit=True) as own:
                queue = JobQueue(own)
                while not stopped.wait(0.1):
                    name = chance.choice(TYPES)
                    jobs: list[Json] = [{}] * chance.randint(1, load.a_second // 5)
                    priority, delay = chance.choice([100, 100, 150]), chance.choice([0, 0, 2])
                    ids = queue.enqueue_many(name, jobs, queue=QUEUES[name], priority=priority, delay=delay)
                    queue.cancel(ids[0])  # unless it has run already

        def hold_snapshot(stopped: threading.Event) -> None:
            while not stopped.wait(SNAPSHOT_SECONDS):
                with psycopg.connect(url) as own:
                    own.execute("set transaction isolation level repeatable read")
                    own.execute("select 1 from treadle.jobs limit 1")
                    stopped.wait(SNAPSHOT_SECONDS)

        try:
            with background(enqueue, hold_snapshot):
                return asyncio.run(_compare(url, connection, seconds))
        finally:
            for each in workers:
                each.kill_all()


async def _compare(url: str, connection: Connection[Any], seconds: float) -> Errors:
    errors, surfaces, truths = Errors(), Surfaces(url), [count(connection)]
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            begun = time.monotonic()
            for read in (surfaces.page, surfaces.top, surfaces.stats, surfaces.api, surfaces.metrics):
                since = time.monotonic() - (CACHE_SECONDS if read == surfaces.metrics else 0)
                shown = await read()
                truths.append(count(connection))
                after = next(nth for nth, each in enumerate(truths) if each.at >= since)
                errors.compare(read.__name__, shown, [each.counts for each in truths[max(0, after - 1) :]])
            truths = [each for each in truths if each.at > begun - 2 * CACHE_SECONDS]
            await asyncio.sleep(max(0.0, begun + 1 - time.monotonic()))
    finally:
        await surfaces.close()
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treadle-truth-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        server = Server(folder / "server")
        try:
            errors = compare(server.url, folder, chosen.seconds, Load(), chosen.seed)
        finally:
            server.close()
    print(errors)
    sys.exit(1 if errors.worst else 0)


if __name__ == "__main__":
    main()
