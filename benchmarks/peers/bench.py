"""What every measure needs: a fresh place for a peer, and a drain."""

import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.peer import Failed, Peer, Place
from benchmarks.peers.servers import Postgres, Redis
from benchmarks.peers.workers import Watch, Workers

DRAIN = 90.0  # seconds, at most
LOOK = 0.05


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
    seconds: float  # about so long a drain should take
    most: int  # jobs a round, at most
    quick: bool = False
    numbers: dict[str, int] = field(default_factory=dict)

    def fresh(self, peer: Peer, suffix: str = "") -> Place:
        """An empty place of its own, with its tables."""
        if peer.store == "redis":
            if self.redis is None:
                raise Failed("there is no redis-server here")
            # One each: some measures are taken of several peers at a time.
            number = self.numbers.setdefault(peer.name, len(self.numbers))
            place = {"BENCH_REDIS": self.redis.make(number)}
            peer.ask(place, "setup")
            return place
        name = "bench_" + peer.name.replace("-", "_")
        # Its tables are made once and copied: some peers take seconds to make theirs.
        template = f"{name}_template"
        if not self.postgres.has(template):
            peer.ask({"BENCH_URL": self.postgres.make(f"{name}_draft")}, "setup")
            with self.postgres.connect() as connection:
                # Some leave before their connections do.
                connection.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [f"{name}_draft"]
                )
                connection.execute(f"alter database {name}_draft rename to {template}")
        return {"BENCH_URL": self.postgres.make(name + suffix, template)}

    def drain(self, peer: Peer, place: Place, jobs: int, kind: str = "noop") -> Drained:
        """Start the workers on jobs that are there. The time is from the first job until nothing is left."""
        with peer.watching(place) as watch, peer.working(place, kind) as workers:
            return self.finish(watch, workers, jobs)

    def finish(self, watch: Watch, workers: Workers, jobs: int, began: float | None = None) -> Drained:
        workers.await_ran(jobs, DRAIN)
        ended = workers.last
        time.sleep(LOOK)  # the last ends are being written; a look too early would count its own time in a large table
        left, at = watch.look()
        while left:
            if at - ended > DRAIN:
                raise TimeoutError(f"all ran, but {left:,} are still not finished after {DRAIN:.0f} s")
            time.sleep(LOOK)
            left, at = watch.look()
            if not left:
                ended = max(ended, at)
        seconds = ended - (began or workers.first)
        return Drained(jobs, jobs / seconds, seconds, workers.memory())

    def calibrate(self, peer: Peer) -> float:
        """Jobs a second, roughly, from a few."""
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
        """How many jobs make a drain of a few seconds."""
        wanted = min(self.most, max(300, int(rate * self.seconds)))
        return wanted if wanted == self.most else wanted // 100 * 100

    def counters(self, place: Place) -> dict[str, float]:
        """What the server counted in this database; the workers have to be gone, else they have not told all."""
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
