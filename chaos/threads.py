"""Random concurrent calls: threads do whatever the API allows, and a ledger records the results.

    python -m chaos.threads --seconds 60 --seed 7 [--url postgresql://…]

All jobs in the database are deleted first. The seed decides what each thread tries; the timing depends on the machine.
What is checked, and how:

    no committed job is lost              the ledger is compared with the table at the end
    each job is found in about 1 s        probes: jobs that are committed late into lanes in use
    jobs with the same key run in order   the ledger, for jobs whose enqueues did not overlap
    one accepted outcome per claim        the ledger: every (job, lease number) at most once
    the invariants of lanes and keys      a thread checks them in one snapshot, all the time
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection, errors

from chaos.invariants import BROKEN, UNFINISHED, CallLedger, Enqueued, Outcome
from treadle import Connections, JobQueue, JobRow, LeaseLost, migrate
from treadle.db.embedded import embedded_url, leave

BACKLOG = 500
DRAIN_SECONDS = 60.0
READ_COMMITTED, REPEATABLE_READ = "read committed", "repeatable read"
ROW = ", ".join(JobRow._fields)

INSERT = """
    insert into jobs (job_type, priority, queue, key, max_attempts, created_at, run_at)
    select %(job_type)s, %(priority)s, %(queue)s, %(key)s, %(max_attempts)s,
        coalesce(clock_timestamp() - %(age)s::interval, now()), clock_timestamp() - %(late)s::interval
    from generate_series(1, %(count)s) returning id"""
OPERATIONS = {
    "cancel": "select cancel_job(%(id)s)",
    "retry": "select retry_job(%(id)s)",
    "delete": "delete from jobs where id = %(id)s returning true",
    "move": """update jobs set priority = %(priority)s, job_type = %(job_type)s, queue = 'other'
        where id = %(id)s and status <> 'completed'""",
    "date back": "update jobs set run_at = run_at - interval '1 hour' where id = %(id)s",
    # Skips locked rows: waiting for rows in a different order could deadlock.
    "lock": """select from jobs where status = 'pending' and job_type <> 'probe' order by run_at limit %(count)s
        for no key update skip locked""",
}
ENQUEUE = """
    select enqueue_jobs(%(job_type)s, array_fill('{}'::text, array[%(count)s::int]), %(priority)s, %(queue)s, null,
        %(delay)s, array_fill(%(key)s::varchar, array[%(count)s::int]), %(max_attempts)s)"""

Actor: TypeAlias = Callable[[Connection[Any], Random], None]


class GaveUp(Exception):
    """A transaction failed with an error that its isolation level allows."""


class RandomCalls:
    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.seed = seed
        rng = Random(seed)
        self.keys = rng.choice([2, 8, 100])
        self.keyed = rng.choice([0.2, 0.5, 0.8])
        self.open_seconds = rng.choice([0.3, 1.0, 2.0])  # maximum seconds that a transaction stays open
        self.queues = rng.choice([0, 1, 2])
        self.ledger = CallLedger()
        self.load_over = threading.Event()  # no more enqueues and disturbances; workers continue
        self.workers_over = threading.Event()
        self.types = [f"type-{n}" for n in range(5)]
        self.abandoned: deque[JobRow] = deque(maxlen=200)
        self.cancelled: deque[UUID] = deque(maxlen=20)
        self.deleted: deque[UUID] = deque()
        self.probes: set[UUID] = set()

    def run(self, seconds: float) -> CallLedger:
        with self.connect() as connection:
            connection.execute("truncate jobs, lanes, floors, ticks, workers")
        actors: list[Actor] = [self.produce] * 8 + [self.probe] * 4 + [self.operate] * 2
        actors += [self.tick, self.hold_snapshot, self.retire_lanes, self.watch]
        workers: list[Actor] = [self.claim_by_queue] * self.queues + [self.claim_by_sql] * 3
        workers += [self.claim_probes, self.recover]
        assignments = [(actor, self.load_over) for actor in actors] + [
            (worker, self.workers_over) for worker in workers
        ]
        with ThreadPoolExecutor(len(assignments)) as pool:
            futures = [pool.submit(self.act, actor, n, end) for n, (actor, end) in enumerate(assignments)]
            try:
                self.load_over.wait(seconds)
                self.load_over.set()
                wait(futures[: len(actors)])
                self.drain()
            finally:
                self.load_over.set()
                self.workers_over.set()
        self.verify()
        return self.ledger

    def act(self, actor: Actor, nth: int, end: threading.Event) -> None:
        rng = Random(f"{self.seed} {actor.__name__} {nth}")
        try:
            with self.connect() as connection:
                while not end.is_set():
                    try:
                        actor(connection, rng)
                    except GaveUp as reason:
                        self.ledger.counts[f"gave up: {reason}"] += 1
        except Exception as error:
            detail = error.diag.message_detail if isinstance(error, psycopg.Error) else ""
            self.problem(f"{actor.__name__}: {traceback.format_exc()}{detail or ''}")

    def problem(self, text: str) -> None:
        with self.ledger.lock:
            self.ledger.problems.append(text)
        self.load_over.set()

    def connect(self) -> Connection[Any]:
        options = "-c search_path=treadle,public -c statement_timeout=30s"
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=None, options=options)

    @contextmanager
    def transaction(self, connection: Connection[Any], isolation: str, commit: bool = True) -> Iterator[None]:
        connection.execute(f"begin isolation level {isolation}")
        try:
            yield
            connection.execute("commit" if commit else "rollback")
        except (errors.SerializationFailure, errors.DeadlockDetected, errors.FeatureNotSupported) as error:
            connection.execute("rollback")
            if isolation == READ_COMMITTED:
                raise
            raise GaveUp(type(error).__name__) from error

    def pause(self, rng: Random, most: float) -> None:
        time.sleep(rng.random() ** 3 * most)

    # Producers

    def produce(self, connection: Connection[Any], rng: Random) -> None:
        self.pause(rng, 0.3)
        if len(self.ledger.jobs) - len(self.ledger.finished_at) > BACKLOG:
            return
        isolation = rng.choices([None, READ_COMMITTED, REPEATABLE_READ], [4, 4, 2])[0]
        if isolation is None:
            self.ledger.committed(self.enqueue(connection, rng))
            return
        made: list[Enqueued] = []
        commit = rng.random() < 0.8
        with self.transaction(connection, isolation, commit):
            for _ in range(rng.randint(1, 4)):
                connection.execute("savepoint here")
                fresh = self.enqueue(connection, rng)
                if rng.random() < 0.2:
                    connection.execute("rollback to here")
                else:
                    made += fresh
                self.pause(rng, self.open_seconds)
        if commit:
            self.ledger.committed(made)

    def enqueue(self, connection: Connection[Any], rng: Random) -> list[Enqueued]:
        if rng.random() < 0.05 and len(self.types) < 60:
            self.types.append(f"type-{len(self.types)}")
        key = f"key-{rng.randrange(self.keys)}" if rng.random() < self.keyed else None
        job = {
            "job_type": rng.choice(self.types[-30:]),
            "priority": rng.choice([100, 100, 100, 0, 500, rng.randint(1, 30)]),
            "queue": rng.choice(["default", "default", "other"]),
            "key": key,
            # A job with a key never runs out of attempts, so that the ledger always knows when it finished.
            "max_attempts": 1000 if key else rng.choice([1, 3, 1000]),
            "count": rng.choice([1, 1, 3, 10]) if key or rng.random() < 0.97 else 150,
            "delay": rng.choice([None, None, "200 milliseconds"]),
            "age": rng.choice([None, "0", "100 milliseconds", "1 hour", "3 days"]),
            "late": rng.choice([None, None, "0", "100 milliseconds", "1 second", "3 days"]),
        }
        began = monotonic()
        query = rng.choice([INSERT, ENQUEUE])
        return [Enqueued(row[0], key, began) for row in connection.execute(query, job).fetchall()]

    def probe(self, connection: Connection[Any], rng: Random) -> None:
        self.pause(rng, 0.2)
        with self.transaction(connection, rng.choice([READ_COMMITTED, REPEATABLE_READ])):
            query = "insert into jobs (job_type, priority) values ('probe', %s) returning id"
            rows = connection.execute(query, [rng.choice([1, 2])]).fetchall()
            self.pause(rng, rng.choice([0, self.open_seconds]))
        self.ledger.committed([Enqueued(row[0], None, 0.0) for row in rows])
        self.probes.update(row[0] for row in rows)

    # Workers

    def claim_by_queue(self, _: Connection[Any], rng: Random) -> None:
        """Claim through a JobQueue with its own connections, which also ticks."""
        with JobQueue(self.url, self.name(), connections=Connections(pool_size=1)) as queue:
            while not self.workers_over.is_set():
                rows = queue.claim(self.wanted(rng), rng.choice([1, 5, 30]))
                self.ledger.claim_returned(rows)
                self.ledger.claimed(rows, self.finish(queue, rows, rng))
                self.pause(rng, 0.05)

    def claim_by_sql(self, connection: Connection[Any], rng: Random) -> None:
        self.pause(rng, 0.05)
        draining, queue = self.load_over.is_set(), JobQueue(connection)
        inside, commit = not draining and rng.random() < 0.3, draining or rng.random() < 0.8
        isolation = READ_COMMITTED if draining or rng.random() < 0.7 else REPEATABLE_READ
        done: list[Outcome] = []
        with self.transaction(connection, isolation, commit):
            rows = self.claim(connection, self.name(), self.wanted(rng), rng.choice([1, 5, 30]))
            self.pause(rng, 0 if draining else rng.choice([0, 0, self.open_seconds]))
            if inside:
                done = self.finish(queue, rows, rng)
                self.pause(rng, self.open_seconds)
        if commit:
            self.ledger.claimed(rows, done if inside else self.finish(queue, rows, rng))

    def claim(self, connection: Connection[Any], worker: str, types: list[str], size: int) -> list[JobRow]:
        found = connection.execute(f"select {ROW} from claim_job_batch(%s, %s, %s)", [worker, types, size]).fetchall()
        rows = [JobRow(*row) for row in found]
        self.ledger.claim_returned(rows)
        return rows

    def name(self) -> str:
        """Return one worker id for all claims of a thread, so that only the lease number distinguishes them."""
        return f"worker-{threading.get_ident()}"

    def wanted(self, rng: Random) -> list[str]:
        return self.types if self.load_over.is_set() or rng.random() < 0.9 else rng.sample(self.types, 2)

    def finish(self, queue: JobQueue, rows: list[JobRow], rng: Random) -> list[Outcome]:
        """Report a random outcome for each claim, for some claims twice. Return the accepted outcomes."""
        done: list[Outcome] = []
        together: list[JobRow] = []
        kinds = ["complete", "together", "fail", "final", "release", "snooze", "abandon"]
        for row in rows:
            kind = "complete" if self.load_over.is_set() else rng.choices(kinds, [8, 8, 2, 1, 2, 2, 1])[0]
            if kind == "together":
                together.append(row)
            elif kind == "abandon":
                self.abandoned.append(row)
            elif self.attempt(queue, row, kind, done) and rng.random() < 0.1:
                self.attempt(queue, row, rng.choice(["complete", "fail", "release"]), done)
        began = monotonic()
        lost = {row.id for row in queue.complete_many(together)}
        done += [(row, "complete", began) for row in together if row.id not in lost]
        if self.abandoned and rng.random() < 0.1:
            row, began = self.abandoned.popleft(), monotonic()
            done += [] if queue.complete_many([row]) else [(row, "complete", began)]
        return done

    def attempt(self, queue: JobQueue, row: JobRow, kind: str, done: list[Outcome]) -> bool:
        began = monotonic()
        try:
            if kind in ("fail", "final"):
                queue.fail(row, "storm", delay=0, final=kind == "final")
            elif kind == "snooze":
                queue.snooze(row, 0.02)
            else:
                getattr(queue, kind)(row)
        except LeaseLost:
            self.ledger.counts["lease lost"] += 1
            return False
        done.append((row, kind, began))
        return True

    def claim_probes(self, connection: Connection[Any], rng: Random) -> None:
        time.sleep(0.01)
        rows, began = self.claim(connection, "probe", ["probe"], 100), monotonic()
        lost = JobQueue(connection).complete_many(rows)
        self.ledger.claimed(rows, [(row, "complete", began) for row in rows if row not in lost])

    def recover(self, connection: Connection[Any], rng: Random) -> None:
        self.pause(rng, 1.0)
        connection.execute("select recover_stale_jobs('500 milliseconds')")

    # Disturbances

    def operate(self, connection: Connection[Any], rng: Random) -> None:
        self.pause(rng, 0.1)
        with self.ledger.lock:
            known = [job_id for job_id in list(self.ledger.jobs)[-BACKLOG:] if job_id not in self.probes]
            known = [job_id for job_id in known if job_id not in self.ledger.finished_at or rng.random() < 0.1]
        action, query = rng.choice(list(OPERATIONS.items()))
        again = action == "retry" and self.cancelled
        job_id = self.cancelled.popleft() if again else rng.choice(known or [uuid4()])
        job = {
            "id": job_id,
            "priority": rng.choice([7, 100, 500]),
            "job_type": rng.choice(self.types),
            "count": rng.choice([1, 20, 150]),
        }
        old = action == "move" and rng.random() < 0.5
        with self.transaction(connection, REPEATABLE_READ if old else READ_COMMITTED):
            connection.execute("select from ticks")
            self.pause(rng, self.open_seconds if old else 0)
            began = monotonic()
            done = connection.execute(query, job)
            accepted = action in ("cancel", "delete") and done.fetchone() == (True,)
            self.pause(rng, rng.choice([0, self.open_seconds]))
        if accepted:
            self.ledger.finished(job_id, began)
            (self.cancelled if action == "cancel" else self.deleted).append(job_id)

    def tick(self, connection: Connection[Any], rng: Random) -> None:
        time.sleep(rng.choice([0, 0.05, 0.3, 3 * rng.random()]))
        if rng.random() < 0.2:
            with self.transaction(connection, READ_COMMITTED, rng.random() < 0.7):
                connection.execute("select tick('0')")
                self.pause(rng, self.open_seconds)
        for _ in range(rng.choice([1, 1, 5, 30])):
            connection.execute("select tick('0')")

    def hold_snapshot(self, connection: Connection[Any], rng: Random) -> None:
        self.pause(rng, 1.0)
        with self.transaction(connection, REPEATABLE_READ):
            connection.execute(rng.choice(["select from ticks", "select pg_current_xact_id()"]))
            self.pause(rng, 3 * self.open_seconds)

    def retire_lanes(self, connection: Connection[Any], rng: Random) -> None:
        """Make lanes look unused for days, so that they become dormant at once."""
        time.sleep(rng.random())
        with self.transaction(connection, READ_COMMITTED):
            connection.execute(
                """update lanes set changed_at = least(changed_at, now() - interval '3 days') where id = any (array(
                select id from lanes where random() < 0.5 for update skip locked))"""
            )

    # Checks

    def watch(self, connection: Connection[Any], rng: Random) -> None:
        time.sleep(0.02)
        with self.transaction(connection, REPEATABLE_READ):
            for what, query in BROKEN.items():
                if rows := connection.execute(query).fetchall():
                    self.problem(f"{what}: {rows[:5]}")
        self.ledger.counts["invariant checks"] += 1

    def drain(self) -> None:
        deadline = monotonic() + DRAIN_SECONDS
        with self.connect() as connection:
            while left := connection.execute(UNFINISHED).fetchall():
                if self.ledger.problems:
                    return
                if monotonic() > deadline:
                    self.problem("not finished:\n" + "\n".join(map(str, left)))
                    return
                time.sleep(0.05)

    def verify(self) -> None:
        with self.connect() as connection:
            rows = connection.execute("select id, status, lease from jobs").fetchall()
        self.ledger.verify(rows, set(self.deleted), self.probes)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make random concurrent calls and check the guarantees.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--url", help="a database whose jobs may be deleted; default: start an embedded server")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-storm-"))
    folder.chmod(0o711)
    try:
        url = options.url or embedded_url(folder, settings={"fsync": "off", "max_connections": "200"})
        migrate(url)
        ledger = RandomCalls(url, options.seed).run(options.seconds)
    finally:
        leave(folder)
        shutil.rmtree(folder, ignore_errors=True)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(ledger.counts.items()))
    print(f"seed {options.seed}: {len(ledger.jobs)} jobs, {len(ledger.claims)} claims; {counts}")
    print(f"longest time until a committed job was found: {ledger.longest:.2f} s")
    print("\n".join(ledger.problems[:20]) if ledger.problems else "no guarantee was violated")
    return 1 if ledger.problems else 0


if __name__ == "__main__":
    sys.exit(main())
