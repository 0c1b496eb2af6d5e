"""Runs a steady load for an hour and checks that latency, memory and table sizes stay constant.

    python -m chaos.soak [--minutes 60] [--rate 300] [--to docs/soak]

The load contains retries, delays, keys, unique jobs in every mode, a schedule, jobs that could expire, cancellations of
running jobs, snoozes, progress, events and pruning. It runs on a separate server with default settings. (Treadle has no
limits yet; add them here when it does.) Every 10 s it records the number of completed jobs, the pick-up latency, the
memory of the processes, and the size of the tables. At the end, the last minutes are compared with those around the
tenth. Writes TO.json and TO.svg.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import quantiles
from typing import Any

import psutil
import psycopg
from psycopg import Connection

from chaos.soak_report import compare, draw
from treadle import migrate
from treadle.db.embedded import embedded_url, leave

ROOT = Path(__file__).parent.parent
EVERY = 10.0
MEGABYTE = 1024 * 1024
TABLES = """
    select sum(pg_table_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint, sum(n_dead_tup)::bigint
    from pg_stat_user_tables where schemaname = 'treadle'"""
UNFINISHED = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
OUTCOMES = "select status, count(*) from treadle.jobs group by status"


class Soak:
    def __init__(self, folder: Path, rate: int) -> None:
        self._counter_file = folder / "counters"
        self._read = 0
        self.counts: Counter[str] = Counter()
        url = embedded_url(folder / "server", quiet=True)
        migrate(url)
        self._connection: Connection[Any] = psycopg.connect(url, autocommit=True)
        environment = os.environ | {
            "TREADLE_DATABASE_URL": url,
            "TREADLE_SOAK_COUNTERS": str(self._counter_file),
            "PYTHONPATH": str(ROOT),
        }
        treadle = str(Path(sys.executable).parent / "treadle")
        commands = (
            [treadle, "worker", "chaos.soak_app:app", "--processes", "2", "--log-level", "error"],
            [sys.executable, "-m", "chaos.soak_app", str(rate)],
        )
        self._worker, self._producer = (
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) for command in commands
        )

    def sample(self, minutes: float) -> dict[str, float]:
        """Return the figures for the time since the last sample."""
        seen = self._read_counters()
        latencies = sorted(seen.pop("latencies_ms", []))
        cuts = quantiles(latencies, n=100) if len(latencies) > 1 else [0.0] * 99
        supervisor = psutil.Process(self._worker.pid)
        workers = [each.memory_info().rss for each in supervisor.children(recursive=True)]
        table, index, dead = self._connection.execute(TABLES).fetchone() or (0, 0, 0)
        return {
            "minutes": round(minutes, 3),
            "done": seen["done"],
            "made": seen["made"],
            "p50_ms": round(cuts[49], 2),
            "p99_ms": round(cuts[98], 2),
            "supervisor_mb": round(supervisor.memory_info().rss / MEGABYTE, 1),
            "workers_mb": round(sum(workers) / MEGABYTE, 1),
            "table_mb": round(table / MEGABYTE, 2),
            "index_mb": round(index / MEGABYTE, 2),
            "dead_rows": dead,
        }

    def finish(self) -> list[str]:
        """Stop the load, wait for all jobs to finish, and check the totals."""
        self._producer.send_signal(signal.SIGTERM)
        self._producer.wait(60)
        end = time.monotonic() + 60
        while self._value(UNFINISHED) and time.monotonic() < end:
            time.sleep(0.2)
        left = self._value(UNFINISHED)
        outcomes = dict(self._connection.execute(OUTCOMES).fetchall())
        self._worker.send_signal(signal.SIGTERM)
        self._worker.wait(60)
        self._read_counters()
        problems = [f"{left} jobs did not finish"] if left else []
        if outcomes.get("failed"):
            problems.append(f"{outcomes['failed']} jobs failed, but none should")
        if self.counts["refused"]:
            problems.append(f"{self.counts['refused']} enqueues or cancellations were refused")
        if self.counts["done"] + self.counts["cancelled"] != self.counts["made"]:
            problems.append(f"enqueued, completed and cancelled do not add up: {dict(self.counts)}")
        return problems

    def close(self) -> None:
        for process in (self._producer, self._worker):
            if process.poll() is None:
                tree = psutil.Process(process.pid)
                for each in [*tree.children(recursive=True), tree]:
                    each.kill()
            process.wait()
        self._connection.close()

    def _value(self, query: str) -> int:
        row = self._connection.execute(query.encode()).fetchone()
        assert row
        value: int = row[0]
        return value

    def _read_counters(self) -> dict[str, Any]:
        seen: dict[str, Any] = Counter()
        latencies: list[float] = []
        with self._counter_file.open() if self._counter_file.exists() else open(os.devnull) as lines:  # noqa: PTH123
            lines.seek(self._read)
            for line in iter(lines.readline, ""):
                entry = json.loads(line)
                entry.pop("at")
                latencies += entry.pop("latencies_ms", [])
                seen.update(entry)
                self.counts.update(entry)
            self._read = lines.tell() if self._counter_file.exists() else 0
        return {"done": 0, "made": 0, **seen, "latencies_ms": latencies}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run a steady load and check that latency, memory and table sizes stay constant."
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=300, help="jobs per second")
    parser.add_argument(
        "--to",
        type=Path,
        default=ROOT / "docs" / "soak",
        help="path of the .json and .svg files to write, without the suffix",
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-soak-"))
    folder.chmod(0o711)
    samples: list[dict[str, float]] = []
    soak = None
    try:
        soak = Soak(folder, options.rate)
        began = last = time.monotonic()
        while last - began < options.minutes * 60:
            time.sleep(max(0.0, last + EVERY - time.monotonic()))
            span, last = time.monotonic() - last, time.monotonic()
            sample = soak.sample((last - began) / 60)
            sample["rate"] = round(sample.pop("done") / span, 1)
            sample["enqueued"] = round(sample.pop("made") / span, 1)
            samples.append(sample)
            print(json.dumps(sample), flush=True)
        problems = soak.finish()
        counts = dict(soak.counts)
    finally:
        if soak is not None:
            soak.close()
        leave(folder / "server")
        shutil.rmtree(folder, ignore_errors=True)
    lines, changed = compare(samples, options.minutes)
    problems += changed
    raw = {"minutes": options.minutes, "rate": options.rate, "counts": counts, "samples": samples, "problems": problems}
    options.to.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    draw(samples, options.to.with_suffix(".svg"))
    result = [f"PROBLEM: {each}" for each in problems] or ["all figures stayed constant, and all jobs finished"]
    print("\n".join([*lines, *result]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
