"""A storm over the queue: threads that do at random whatever is allowed, and a ledger of what came of it.

    python -m chaos.threads --seconds 60 --seed 7 [--url postgresql://…]

All jobs in the database are deleted first. The seed decides what each thread tries, the machine when. The promises:

    no committed job is lost           the ledger against the table, after the calm
    each is found in about a second    probes: jobs committed late into lanes where others come and go
    a key's jobs run in order          the ledger, for jobs whose enqueues did not overlap
    one accepted outcome a claim       the ledger: every (job, lease) once
    the invariants of lanes and keys   a watcher, in one snapshot, all the time
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
from time import monotonic
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection, errors

from chaos.invariants import BROKEN, LEFT, Enqueued, Memory, Outcome
from treadle import JobQueue, JobRow, LeaseLost, migrate
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
    # Only what is free: who waits for rows in an order of his own may deadlock.
    "lock": """select from jobs where status = 'pending' and job_type <> 'probe' order by run_at limit %(count)s
        for no key update skip locked""",
}
ENQUEUE = """
    select enqueue_jobs(%(job_type)s, array_fill('{}'::text, array[%(count)s::int]), %(priority)s, %(queue)s, null,
        %(delay)s, array_fill(%(key)s::varchar, array[%(count)s::int]), %(max_attempts)s)"""

Chance: TypeAlias = random.Random
Actor: TypeAlias = Callable[[Connection[Any], Chance], None]


class GaveUp(Exception):
    """A transaction was refused as its isolation level allows."""


class Storm:
    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.seed = seed
        chance = random.Random(seed)
        self.keys = chance.choice([2, 8, 100])
        self.keyed = chance.choice([0.2, 0.5, 0.8])
        self.patience = chance.choice([0.3, 1.0, 2.0])  # how long transactions stay open, at most
        self.queues = chance.choice([0, 1, 2])
        self.ledger = Memory()
        self.calm = threading.Event()  # no more jobs, no more mischief
        self.over = threading.Event()
        self.types = [f"type-{n}" for n in range(5)]
        self.vanished: deque[JobRow] = deque(maxlen=200)
        self.cancelled: deque[UUID] = deque(maxlen=20)
        self.deleted: deque[UUID] = deque()
        self.probes: set[UUID] = set()

    def run(self, seconds: float) -> Memory:
        with self.connect() as connection:
            connection.execute("truncate jobs, lanes, workers")
        actors: list[Actor] = [self.produce] * 8 + [self.probe] * 4 + [self.operate] * 2
        actors += [self.tick, self.hold_snapshot, self.retire_lanes, self.watch]
        workers: list[Actor] = [self.claim_by_queue] * self.queues + [self.claim_by_sql] * 3
        workers += [self.claim_probes, self.recover]
        everybody = [(actor, self.calm) for actor in actors] + [(worker, self.over) for worker in workers]
        with ThreadPoolExecutor(len(everybody)) as pool:
            futures = [pool.submit(self.act, actor, n, end) for n, (actor, end) in enumerate(everybody)]
            try:
                self.calm.wait(seconds)
                self.calm.set()
                wait(futures[: len(actors)])
                self.drain()
            finally:
                self.calm.set()
                self.over.set()
        self.verify()
        return self.ledger

    def act(self, actor: Actor, nth: int, end: threading.Event) -> None:
        chance = random.Random(f"{self.seed} {actor.__name__} {nth}")
        try:
            with self.connect() as connection:
                while not end.is_set():
                    try:
                        actor(connection, chance)
                    except GaveUp as reason:
                        self.ledger.counts[f"gave up: {reason}"] += 1
        except Exception as error:
            detail = error.diag.message_detail if isinstance(error, psycopg.Error) else ""
            self.problem(f"{actor.__name__}: {traceback.format_exc()}{detail or ''}")

    def problem(self, text: str) -> None:
        with self.ledger.lock:
            self.ledger.problems.append(text)
        self.calm.set()

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

    def pause(self, chance: Chance, most: float) -> None:
        time.sleep(chance.random() ** 3 * most)

    # Who brings jobs

    def produce(self, connection: Connection[Any], chance: Chance) -> None:
        self.pause(chance, 0.3)
        if len(self.ledger.jobs) - len(self.ledger.ended) > BACKLOG:
            return
        isolation = chance.choices([None, READ_COMMITTED, REPEATABLE_READ], [4, 4, 2])[0]
        if isolation is None:
            self.ledger.committed(self.enqueue(connection, chance))
            return
        made: list[Enqueued] = []
        commit = chance.random() < 0.8
        with self.transaction(connection, isolation, commit):
            for _ in range(chance.randint(1, 4)):
                connection.execute("savepoint here")
                fresh = self.enqueue(connection, chance)
                if chance.random() < 0.2:
                    connection.execute("rollback to here")
                else:
                    made += fresh
                self.pause(chance, self.patience)
        if commit:
            self.ledger.committed(made)

    def enqueue(self, connection: Connection[Any], chance: Chance) -> list[Enqueued]:
        if chance.random() < 0.05 and len(self.types) < 60:
            self.types.append(f"type-{len(self.types)}")
        key = f"key-{chance.randrange(self.keys)}" if chance.random() < self.keyed else None
        job = {
            "job_type": chance.choice(self.types[-30:]),
            "priority": chance.choice([100, 100, 100, 0, 500, chance.randint(1, 30)]),
            "queue": chance.choice(["default", "default", "other"]),
            "key": key,
            # What has a key never runs out of attempts: its end is then one that the ledger knows.
            "max_attempts": 1000 if key else chance.choice([1, 3, 1000]),
            "count": chance.choice([1, 1, 3, 10]) if key or chance.random() < 0.97 else 150,
            "delay": chance.choice([None, None, "200 milliseconds"]),
            "age": chance.choice([None, "0", "100 milliseconds", "1 hour", "3 days"]),
            "late": chance.choice([None, None, "0", "100 milliseconds", "1 second", "3 days"]),
        }
        began = monotonic()
        query = chance.choice([INSERT, ENQUEUE])
        return [Enqueued(row[0], key, began) for row in connection.execute(query, job).fetchall()]

    def probe(self, connection: Connection[Any], chance: Chance) -> None:
        self.pause(chance, 0.2)
        with self.transaction(connection, chance.choice([READ_COMMITTED, REPEATABLE_READ])):
            query = "insert into jobs (job_type, priority) values ('probe', %s) returning id"
            rows = connection.execute(query, [chance.choice([1, 2])]).fetchall()
            self.pause(chance, chance.choice([0, self.patience]))
        self.ledger.committed([Enqueued(row[0], None, 0.0) for row in rows])
        self.probes.update(row[0] for row in rows)

    # Who works

    def claim_by_queue(self, _: Connection[Any], chance: Chance) -> None:
        """With connections of its own the queue ticks."""
        with JobQueue(self.url, self.name(), pool_size=1) as queue:
            while not self.over.is_set():
                rows = queue.claim(self.wanted(chance), chance.choice([1, 5, 30]))
                self.ledger.saw(rows)
                self.ledger.claimed(rows, self.finish(queue, rows, chance))
                self.pause(chance, 0.05)

    def claim_by_sql(self, connection: Connection[Any], chance: Chance) -> None:
        self.pause(chance, 0.05)
        calm, queue = self.calm.is_set(), JobQueue(connection)
        inside, commit = not calm and chance.random() < 0.3, calm or chance.random() < 0.8
        isolation = READ_COMMITTED if calm or chance.random() < 0.7 else REPEATABLE_READ
        done: list[Outcome] = []
        with self.transaction(connection, isolation, commit):
            rows = self.claim(connection, self.name(), self.wanted(chance), chance.choice([1, 5, 30]))
            self.pause(chance, 0 if calm else chance.choice([0, 0, self.patience]))
            if inside:
                done = self.finish(queue, rows, chance)
                self.pause(chance, self.patience)
        if commit:
            self.ledger.claimed(rows, done if inside else self.finish(queue, rows, chance))

    def claim(self, connection: Connection[Any], worker: str, types: list[str], size: int) -> list[JobRow]:
        found = connection.execute(f"select {ROW} from claim_job_batch(%s, %s, %s)", [worker, types, size]).fetchall()
        rows = [JobRow(*row) for row in found]
        self.ledger.saw(rows)
        return rows

    def name(self) -> str:
        """The same for all claims of a thread, so that the lease alone tells them apart."""
        return f"worker-{threading.get_ident()}"

    def wanted(self, chance: Chance) -> list[str]:
        return self.types if self.calm.is_set() or chance.random() < 0.9 else chance.sample(self.types, 2)

    def finish(self, queue: JobQueue, rows: list[JobRow], chance: Chance) -> list[Outcome]:
        """Ends claims in one way or another, some twice; returns what was accepted."""
        done: list[Outcome] = []
        together: list[JobRow] = []
        kinds = ["complete", "together", "fail", "final", "release", "snooze", "vanish"]
        for row in rows:
            kind = "complete" if self.calm.is_set() else chance.choices(kinds, [8, 8, 2, 1, 2, 2, 1])[0]
            if kind == "together":
                together.append(row)
            elif kind == "vanish":
                self.vanished.append(row)
            elif self.attempt(queue, row, kind, done) and chance.random() < 0.1:
                self.attempt(queue, row, chance.choice(["complete", "fail", "release"]), done)
        began = monotonic()
        lost = {row.id for row in queue.complete_many(together)}
        done += [(row, "complete", began) for row in together if row.id not in lost]
        if self.vanished and chance.random() < 0.1:
            row, began = self.vanished.popleft(), monotonic()
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

    def claim_probes(self, connection: Connection[Any], chance: Chance) -> None:
        time.sleep(0.01)
        rows, began = self.claim(connection, "probe", ["probe"], 100), monotonic()
        lost = JobQueue(connection).complete_many(rows)
        self.ledger.claimed(rows, [(row, "complete", began) for row in rows if row not in lost])

    def recover(self, connection: Connection[Any], chance: Chance) -> None:
        self.pause(chance, 1.0)
        connection.execute("select recover_stale_jobs('500 milliseconds')")

    # Who disturbs

    def operate(self, connection: Connection[Any], chance: Chance) -> None:
        self.pause(chance, 0.1)
        with self.ledger.lock:
            known = [job_id for job_id in list(self.ledger.jobs)[-BACKLOG:] if job_id not in self.probes]
            known = [job_id for job_id in known if job_id not in self.ledger.ended or chance.random() < 0.1]
        action, query = chance.choice(list(OPERATIONS.items()))
        again = action == "retry" and self.cancelled
        job_id = self.cancelled.popleft() if again else chance.choice(known or [uuid4()])
        job = {
            "id": job_id,
            "priority": chance.choice([7, 100, 500]),
            "job_type": chance.choice(self.types),
            "count": chance.choice([1, 20, 150]),
        }
        old = action == "move" and chance.random() < 0.5
        with self.transaction(connection, REPEATABLE_READ if old else READ_COMMITTED):
            connection.execute("select from horizon")
            self.pause(chance, self.patience if old else 0)
            began = monotonic()
            done = connection.execute(query, job)
            accepted = action in ("cancel", "delete") and done.fetchone() == (True,)
            self.pause(chance, chance.choice([0, self.patience]))
        if accepted:
            self.ledger.end(job_id, began)
            (self.cancelled if action == "cancel" else self.deleted).append(job_id)

    def tick(self, connection: Connection[Any], chance: Chance) -> None:
        time.sleep(chance.choice([0, 0.05, 0.3, 3 * chance.random()]))
        if chance.random() < 0.2:
            with self.transaction(connection, READ_COMMITTED, chance.random() < 0.7):
                connection.execute("select tick('0')")
                self.pause(chance, self.patience)
        for _ in range(chance.choice([1, 1, 5, 30])):
            connection.execute("select tick('0')")

    def hold_snapshot(self, connection: Connection[Any], chance: Chance) -> None:
        self.pause(chance, 1.0)
        with self.transaction(connection, REPEATABLE_READ):
            connection.execute(chance.choice(["select from horizon", "select pg_current_xact_id()"]))
            self.pause(chance, 3 * self.patience)

    def retire_lanes(self, connection: Connection[Any], chance: Chance) -> None:
        """As if they had been idle for days. Bounds may be lowered at any time, but not beside a tick."""
        time.sleep(chance.random())
        past = chance.choice(["'-infinity'", "now() - interval '2 days'"])
        with self.transaction(connection, READ_COMMITTED):
            connection.execute("select pg_advisory_xact_lock(hashtext('treadle tick'), hashoid('horizon'::regclass))")
            connection.execute(
                f"""update lanes set opened_at = least(opened_at, now() - interval '3 days'),
                floor = least(floor, {past}), settled = least(settled, {past}), mark = least(mark, {past})
                where random() < 0.5"""
            )

    # Who looks

    def watch(self, connection: Connection[Any], chance: Chance) -> None:
        time.sleep(0.02)
        with self.transaction(connection, REPEATABLE_READ):
            for what, query in BROKEN.items():
                if rows := connection.execute(query).fetchall():
                    self.problem(f"{what}: {rows[:5]}")
        self.ledger.counts["looks"] += 1

    def drain(self) -> None:
        deadline = monotonic() + DRAIN_SECONDS
        with self.connect() as connection:
            while left := connection.execute(LEFT).fetchall():
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
    parser = argparse.ArgumentParser(description="A storm over the queue.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--url", help="a database whose jobs may be deleted; without it an embedded server is started")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-storm-"))
    folder.chmod(0o711)
    try:
        url = asked.url or embedded_url(folder, settings={"fsync": "off", "max_connections": "200"})
        migrate(url)
        ledger = Storm(url, asked.seed).run(asked.seconds)
    finally:
        leave(folder)
        shutil.rmtree(folder, ignore_errors=True)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(ledger.counts.items()))
    print(f"seed {asked.seed}: {len(ledger.jobs)} jobs, {len(ledger.claims)} claims; {counts}")
    print(f"a committed job was found after {ledger.longest:.2f} s at the most")
    print("\n".join(ledger.problems[:20]) if ledger.problems else "no promise was broken")
    return 1 if ledger.problems else 0


if __name__ == "__main__":
    sys.exit(main())
