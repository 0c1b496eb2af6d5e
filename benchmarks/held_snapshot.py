"""Measures whether claiming slows down while another connection keeps a snapshot open, in consecutive drains.

python -m benchmarks.held_snapshot [URL]
"""

import sys
from time import perf_counter
from uuid import uuid4

from treadle import JobQueue, migrate
from treadle.db.setup_connection import connect
from treadle.db.url import resolve

ROUNDS, JOBS, BATCH = 10, 20_000, 100


def drain(queue: JobQueue) -> float:
    queue.enqueue_many("bench", [{}] * JOBS)
    begin = perf_counter()
    while jobs := queue.claim(["bench"], BATCH):
        queue.complete_many(jobs)
    return JOBS / (perf_counter() - begin)


def rounds(url: str, *, held: bool) -> list[float]:
    schema = f"treadle_bench_{uuid4().hex[:8]}"
    migrate(url, schema)
    with connect(url) as snapshot, JobQueue(url, schema=schema) as queue:
        if held:
            snapshot.execute("begin isolation level repeatable read")
            snapshot.execute("select count(*) from pg_class")
        rates = [drain(queue) for _ in range(ROUNDS)]
        snapshot.execute("rollback")
        snapshot.execute(f'drop schema "{schema}" cascade'.encode())
    return rates


def main() -> None:
    url = resolve(sys.argv[1] if len(sys.argv) > 1 else None).url
    free, held = rounds(url, held=False), rounds(url, held=True)
    print(f"jobs per second; {JOBS:,} jobs per round, claimed and completed in batches of {BATCH}")
    for nth, (one, two) in enumerate(zip(free, held, strict=True), start=1):
        print(f"round {nth:2}   without a snapshot {one:8,.0f}   with a snapshot {two:8,.0f}   ratio {two / one:.2f}")


if __name__ == "__main__":
    main()
