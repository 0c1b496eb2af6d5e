"""What every measurement needs: an empty database for a queue, and a drain."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, TypeVar

from benchmarks.peers import servers
from benchmarks.peers.peer import Failed, Peer, Place
from benchmarks.peers.servers import Postgres, Redis
from benchmarks.peers.workers import Watch, Workers

T = TypeVar("T")

DRAIN = 90.0  # seconds, at most
LOOK = 0.05  # seconds between two checks for unfinished jobs


@dataclass(frozen=True)
class Drained:
    jobs: int
    rate: float
    seconds: float
    memory_mb: float


@dataclass
class Bench:
    postgres: Postgres
    redis: Redis | None
    seconds: float  # approximate duration of a drain
    most: int  # maximum number of jobs per round
    quick: bool = False
    settle: float = 90.0  # seconds without work before the measurement of an idle worker
    window: float = 300.0  # seconds of that measurement
    numbers: dict[str, int] = field(default_factory=dict)
    _interrupted: Event = field(default_factory=Event)

    def together(self, calls: Sequence[Callable[[], T]], number: int) -> list[T]:
        """Run several measurements at a time. If the run is interrupted, so are those that rest()."""
        with ThreadPoolExecutor(number) as threads:
            try:
                running = [threads.submit(call) for call in calls]
                wait(running)
            except BaseException:  # a signal: do not start the remaining calls
                self._interrupted.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [each.result() for each in running]

    def rest(self, seconds: float) -> None:
        if self._interrupted.wait(seconds):
            raise Failed("the run was interrupted")

    @contextmanager
    def apart(self, peer: Peer, settings: dict[str, str] | None = None) -> Iterator["Bench"]:
        """A bench with a server of its own, so that whatever the server does, it does for this queue."""
        if peer.store == "redis":
            with servers.redis() as redis:
                yield replace(self, redis=redis, numbers={})
        else:
            with servers.postgres(settings) as postgres:
                yield replace(self, postgres=postgres)

    def server(self, peer: Peer) -> int:
        """The process id of the server that this queue uses."""
        server = self.redis if peer.store == "redis" else self.postgres
        assert server
        return server.pid

    def fresh(self, peer: Peer, suffix: str = "") -> Place:
        """Create an empty database with the queue's tables, and return the environment that points to it."""
        if peer.store == "redis":
            if self.redis is None:
                raise Failed("redis-server is not installed")
            # A separate database for each queue: some measurements run several queues at a time.
            number = self.numbers.setdefault(peer.name, len(self.numbers))
            place = {"BENCH_REDIS": self.redis.make(number)}
            peer.ask(place, "setup")
            return place
        name = "bench_" + peer.name.replace("-", "_")
        # The tables are created once and copied, because some queues need seconds to create them.
        template = f"{name}_template"
        if not self.postgres.has(template):
            peer.ask({"BENCH_URL": self.postgres.make(f"{name}_draft")}, "setup")
            with self.postgres.connect() as connection:
                # Some setup commands exit before their connections are closed.
                connection.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [f"{name}_draft"]
                )
                connection.execute(f"alter database {name}_draft rename to {template}")
        return {"BENCH_URL": self.postgres.make(name + suffix, template)}

    def drain(self, peer: Peer, place: Place, jobs: int, kind: str = "noop") -> Drained:
        """Start workers on jobs that are already enqueued. The time counts from the first job until none is left."""
        with peer.watching(place) as watch, peer.working(place, kind) as workers:
            return self.finish(watch, workers, jobs)

    def drain_together(self, peer: Peer, place: Place, jobs: int, kind: str, processes: int) -> Drained:
        """Drain with processes that begin at the same moment: they are suspended while the jobs are enqueued.

        Otherwise the first of eight processes would have run most of the jobs before the last has started.
        """
        with peer.watching(place) as watch, peer.working(place, kind, processes) as workers:
            with workers.suspended():
                peer.ask(place, "bulk", jobs, kind)
            return self.finish(watch, workers, jobs)

    def finish(self, watch: Watch, workers: Workers, jobs: int, began: float | None = None) -> Drained:
        workers.await_ran(jobs, DRAIN)
        ended = workers.last
        # The last outcomes are still being written. Checking too early would add the time of a query on a large table.
        time.sleep(LOOK)
        left, at = watch.look()
        while left:
            if at - ended > DRAIN:
                raise TimeoutError(f"all jobs ran, but {left:,} are not finished after {DRAIN:.0f} s")
            time.sleep(LOOK)
            left, at = watch.look()
            if not left:
                ended = max(ended, at)
        seconds = ended - (began or workers.first)
        return Drained(jobs, jobs / seconds, seconds, workers.memory())

    def calibrate(self, peer: Peer) -> float:
        """Return an estimate of the jobs per second, from a small number of jobs."""
        rate, jobs = 0.0, 300
        while jobs <= self.most:
            place = self.fresh(peer)
            peer.ask(place, "bulk", jobs)
            drained = self.drain(peer, place, jobs)
            rate = drained.rate
            if drained.seconds > 0.4 or self.quick:
                break
            jobs *= 10
        return rate

    def size(self, rate: float) -> int:
        """Return the number of jobs for a drain of a few seconds."""
        wanted = min(self.most, max(300, int(rate * self.seconds)))
        return wanted if wanted == self.most else wanted // 100 * 100

    def counters(self, place: Place) -> dict[str, float]:
        """Return the server's counters for this database. Stop the workers first: backends report them late."""
        with self.postgres.connect(place["BENCH_URL"].rsplit("/", 1)[1]) as connection:
            connection.execute("select pg_stat_clear_snapshot()")
            row: Any = connection.execute(
                """select pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
                (select xact_commit + xact_rollback from pg_stat_database where datname = current_database()),
                sum(n_tup_ins + n_tup_upd), sum(n_tup_upd + n_tup_del) from pg_stat_user_tables"""
            ).fetchone()
        return {
            "wal_bytes": float(row[0]),
            "transactions": float(row[1]),
            "versions": float(row[2] or 0),
            "dead": float(row[3] or 0),
        }
