"""Measures what tracing costs a drain of no-op jobs, in interleaved rounds: python -m benchmarks.tracing [--quick]

plain               no middleware
middleware          one that does nothing
sampled             OpenTelemetry, where one in ten traces is sampled
spans               OpenTelemetry, with a BatchSpanProcessor whose exporter does nothing
spans and metrics   and with metrics

Every job has the context of another trace in its headers, except for the first two. Prints the rates, their ratio to
that of `plain` in the same round, and how much more of the processor the worker uses, which depends less on what else
the machine does.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from psycopg import Connection

from benchmarks.lanes.server import connect, running_server
from benchmarks.tracing_app import VARIABLE
from treadle import migrate

ROOT = Path(__file__).parent.parent
KINDS = ("plain", "middleware", "sampled", "spans", "spans and metrics")
# Those without tracing have none. All are updated, so that the table looks the same.
HEADERS = """update treadle.jobs set headers = case when %s then jsonb_build_object('traceparent',
    '00-' || replace(gen_random_uuid()::text, '-', '') || '-' || right(replace(id::text, '-', ''), 16)
    || case when %s and random() > 0.1 then '-00' else '-01' end) end"""


def drain(connection: Connection[Any], url: str, jobs: int, kind: str) -> tuple[float, float]:
    """Jobs per second, from the first claim to the last completion; and µs of processor time per job, of the worker."""
    connection.execute("truncate treadle.jobs, treadle.workers")
    connection.execute("select treadle.enqueue_jobs('noop', array_fill('{}'::text, array[%s]))", [jobs])
    connection.execute(HEADERS, [kind not in ("plain", "middleware"), kind == "sampled"])
    connection.execute("vacuum (full, analyze) treadle.jobs")
    command = [
        sys.executable,
        "-m",
        "treadle",
        "worker",
        "benchmarks.tracing_app:app",
        "--drain",
        "--concurrency",
        "100",
    ]
    environment = os.environ | {"TREADLE_DATABASE_URL": url, VARIABLE: kind}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = connection.execute(
        """select count(*), count(*) / extract(epoch from max(completed_at) - min(claimed_at))::float8
        from treadle.jobs where status = 'completed'"""
    ).fetchone()
    assert found
    assert found[0] == jobs
    return float(found[1]), used / jobs * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--only", metavar="KIND,KIND", default=",".join(KINDS))
    options = parser.parse_args()
    jobs, rounds = (10_000, 3) if options.quick else (30_000, 5)
    kinds = options.only.split(",")
    measured: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    with running_server() as server:
        migrate(server.url)
        with connect(server.url) as connection:
            drain(connection, server.url, jobs, kinds[0])
            for _ in range(rounds):
                for kind in kinds:
                    measured[kind].append(drain(connection, server.url, jobs, kind))
    for kind, found in measured.items():
        pairs = list(zip(found, measured[kinds[0]], strict=True))
        rate = statistics.median(rate for rate, _ in found)
        ratio = statistics.median(one[0] / base[0] for one, base in pairs)
        more = statistics.median(one[1] - base[1] for one, base in pairs)
        print(f"{kind:18} {rate:8,.0f} jobs/s   {ratio:.2f} of {kinds[0]}   {more:+.0f} µs of the processor per job")


if __name__ == "__main__":
    main()
