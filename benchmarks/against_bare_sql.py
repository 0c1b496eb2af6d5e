"""Compares the queue with bare SQL on the same server, in interleaved rounds, and saves the raw figures.

On a noisy machine, the ratio of two medians of one run is meaningful; an absolute time is not.

python -m benchmarks.against_bare_sql [URL]
"""

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle.cli.bench import payloads, scratch_schema
from treadle.db.queries import jobs as job_queries
from treadle.db.query import in_schema
from treadle.db.setup_connection import connect
from treadle.db.url import resolve
from treadle.queue import JobQueue

ROUNDS = 5

# The same rows, generated on the server: the fastest way to insert them into this table.
RAW_INSERT = """
insert into treadle.jobs (job_type, priority, data, created_at, queue, run_at, max_attempts)
select 'bench', 100, jsonb_build_object('n', n, 'path', '/tmp/picture.png'), now(), 'default',
    clock_timestamp(), 3
from generate_series(1, %(count)s) as n
"""


@dataclass
class Measure:
    """Jobs per second of Treadle and of bare SQL, round by round."""

    name: str
    target: float
    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.bare)


@dataclass
class Costs:
    """The cost of one job from enqueue to completion, in batches of `batch`."""

    batch: int
    wal_bytes: float
    statements: float
    tuple_versions: float
    transactions: float


@dataclass
class Report:
    server: str
    jobs: int
    measures: list[Measure]
    costs: list[Costs]
    prune_rate: float


def measure(url: str, schema: str, jobs: int = 20_000, rounds: int = ROUNDS) -> Report:
    """Deletes all jobs of the schema."""
    with connect(url) as bare:
        # Before any other connection writes: the statistics of others arrive a second or two late.
        costs = [_costs(bare, schema, batch) for batch in (100, 1000)]
    with connect(url) as bare, JobQueue(url, "bench", schema=schema) as queue:
        server = bare.execute("show server_version").fetchone() or ("?",)
        enqueueing = Measure("enqueue_many, against INSERT ... SELECT", 0.6)
        working = [Measure(f"claim + complete in batches of {batch:,}", 0.8) for batch in (100, 1000)]
        pruned: list[float] = []
        for nth in range(rounds + 1):  # the first round warms up
            keep = nth > 0
            _clear(bare, schema)
            rate = _enqueue_bare(bare, schema, jobs)
            enqueueing.bare += [rate] * keep
            _clear(bare, schema)
            rate = _enqueue_ours(queue, jobs)
            enqueueing.ours += [rate] * keep
            for work, batch in zip(working, (100, 1000), strict=True):
                _fill(bare, schema, jobs)
                rate = _work_bare(bare, schema, batch)
                work.bare += [rate] * keep
                _fill(bare, schema, jobs)
                rate = _work_ours(queue, batch)
                work.ours += [rate] * keep
            begin = perf_counter()
            pruned += [queue.prune("completed", 0) / (perf_counter() - begin)] * keep
        return Report(str(server[0]), jobs, [enqueueing, *working], costs, median(pruned))


def _enqueue_bare(bare: Any, schema: str, jobs: int) -> float:
    begin = perf_counter()
    bare.execute(in_schema(RAW_INSERT, schema).encode(), {"count": jobs})
    return jobs / (perf_counter() - begin)


def _enqueue_ours(queue: JobQueue, jobs: int) -> float:
    made = list(payloads(jobs))
    begin = perf_counter()
    queue.enqueue_many("bench", made)
    return jobs / (perf_counter() - begin)


def _work_bare(bare: Any, schema: str, batch: int) -> float:
    """The statements that JobQueue runs, without JobQueue."""
    query = job_queries.claim("bench", ["bench"], batch, None)
    claim = query.bound(schema)
    complete = in_schema("select treadle.complete_jobs(%s::uuid[], %s::bigint[], %s::varchar[])", schema).encode()
    id_at, lease_at = 0, 18
    done = 0
    begin = perf_counter()
    while rows := bare.execute(claim, query.params).fetchall():
        ids = [row[id_at] for row in rows]
        leases = [row[lease_at] for row in rows]
        done += len(bare.execute(complete, [ids, leases, ["bench"] * len(ids)]).fetchall())
    return done / (perf_counter() - begin)


def _work_ours(queue: JobQueue, batch: int) -> float:
    done = 0
    begin = perf_counter()
    while jobs := queue.claim(["bench"], batch):
        queue.complete_many(jobs)
        done += len(jobs)
    return done / (perf_counter() - begin)


def _costs(bare: Any, schema: str, batch: int) -> Costs:
    jobs = batch * 10
    queue = JobQueue(bare, "bench", schema=schema)  # on this connection, whose statistics can be flushed
    _clear(bare, schema)
    before = _counters(bare, schema)
    statements = 0
    made = list(payloads(jobs))
    for first in range(0, jobs, batch):
        queue.enqueue_many("bench", made[first : first + batch])
        statements += 1
    while claimed := queue.claim(["bench"], batch):
        queue.complete_many(claimed)
        statements += 2
    after = _counters(bare, schema)
    wal, versions, transactions = ((new - old) / jobs for old, new in zip(before, after, strict=True))
    return Costs(batch, wal, statements / jobs, versions, transactions)


def _counters(bare: Any, schema: str) -> tuple[float, float, float]:
    """WAL position, rows written and transactions, after flushing the statistics."""
    bare.execute("select pg_stat_force_next_flush()" if bare.info.server_version >= 150000 else "select pg_sleep(1)")
    wal, written, committed = bare.execute(
        """select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'), n_tup_ins + n_tup_upd,
            (select xact_commit from pg_stat_database where datname = current_database())
        from pg_stat_user_tables where schemaname = %s and relname = 'jobs'""",
        [schema],
    ).fetchone()
    return float(wal), float(written), float(committed)


def _fill(bare: Any, schema: str, jobs: int) -> None:
    _clear(bare, schema)
    _enqueue_bare(bare, schema, jobs)


def _clear(bare: Any, schema: str) -> None:
    bare.execute(in_schema("truncate treadle.jobs", schema).encode())
    bare.execute(in_schema("vacuum analyze treadle.jobs", schema).encode())


def as_dict(report: Report) -> dict[str, object]:
    figures = asdict(report)
    for measured, figure in zip(report.measures, figures["measures"], strict=True):
        figure["ratio"] = round(measured.ratio, 3)
    return figures


def show(console: Console, report: Report) -> None:
    """The comparison to bare SQL."""
    speed = Table("jobs per second", box=None, pad_edge=False)
    for name in ("Treadle", "bare SQL", "ratio", "target"):
        speed.add_column(name, justify="right")
    for measured in report.measures:
        speed.add_row(
            measured.name,
            f"{median(measured.ours):,.0f}",
            f"{median(measured.bare):,.0f}",
            Text(f"{measured.ratio:.2f}", style="green" if measured.ratio >= measured.target else "red"),
            f"{measured.target:.2f}",
        )
    console.print(speed)
    console.print()
    costs = Table("cost of a job", box=None, pad_edge=False)
    for name in ("WAL bytes", "statements", "transactions", "row versions"):
        costs.add_column(name, justify="right")
    for cost in report.costs:
        costs.add_row(
            f"in batches of {cost.batch:,}",
            f"{cost.wal_bytes:,.0f}",
            f"{cost.statements:.3f}",
            f"{cost.transactions:.3f}",
            f"{cost.tuple_versions:.2f}",
        )
    console.print(costs)


def main() -> None:
    url = resolve(sys.argv[1] if len(sys.argv) > 1 else None).url
    with scratch_schema(url) as schema:
        report = measure(url, schema)
    show(Console(), report)
    Path(__file__).with_suffix(".json").write_text(json.dumps(as_dict(report), indent=2) + "\n")


if __name__ == "__main__":
    main()
