"""An hour at a steady rate, and a look whether anything grows.

    python -m chaos.soak [--minutes 60] [--rate 300] [--to docs/soak]

Retries, delays, keys, unique jobs, cancellations of running jobs, snoozes, progress, events and pruning, on a server of
its own with its defaults. (Schedules and limits are not there yet; they belong in here when they are.) Every ten
seconds: how many jobs were done, how long one waited to be picked up, the memory of the processes, and what the tables
take. In the end the last minutes are held against those around the tenth. Writes TO.json and TO.svg.
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
LEFT = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
ENDS = "select status, count(*) from treadle.jobs group by status"


class Soak:
    def __init__(self, folder: Path, rate: int) -> None:
        self._tally = folder / "tally"
        self._read = 0
        self.counts: Counter[str] = Counter()
        url = embedded_url(folder / "server", quiet=True)
        migrate(url)
        self._connection: Connection[Any] = psycopg.connect(url, autocommit=True)
        environment = os.environ | {
            "TREADLE_DATABASE_URL": url,
            "TREADLE_SOAK_TALLY": str(self._tally),
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
        """What there is to be said of the time since the last."""
        seen = self._news()
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
        """Let everything come to its end, and add up."""
        self._producer.send_signal(signal.SIGTERM)
        self._producer.wait(60)
        end = time.monotonic() + 60
        while self._value(LEFT) and time.monotonic() < end:
            time.sleep(0.2)
        left = self._value(LEFT)
        ends = dict(self._connection.execute(ENDS).fetchall())
        self._worker.send_signal(signal.SIGTERM)
        self._worker.wait(60)
        self._news()
        problems = [f"{left} jobs did not come to an end"] if left else []
        if ends.get("failed"):
            problems.append(f"{ends['failed']} jobs failed, and none should")
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

    def _news(self) -> dict[str, Any]:
        seen: dict[str, Any] = Counter()
        latencies: list[float] = []
        with self._tally.open() if self._tally.exists() else open(os.devnull) as lines:  # noqa: PTH123
            lines.seek(self._read)
            for line in iter(lines.readline, ""):
                entry = json.loads(line)
                entry.pop("at")
                latencies += entry.pop("latencies_ms", [])
                seen.update(entry)
                self.counts.update(entry)
            self._read = lines.tell() if self._tally.exists() else 0
        return {"done": 0, "made": 0, **seen, "latencies_ms": latencies}


def main() -> int:
    parser = argparse.ArgumentParser(description="A steady rate for long, and a look whether anything grows.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=300, help="jobs a second")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "soak", help="where .json and .svg are written to")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-soak-"))
    folder.chmod(0o711)
    samples: list[dict[str, float]] = []
    soak = None
    try:
        soak = Soak(folder, asked.rate)
        began = last = time.monotonic()
        while last - began < asked.minutes * 60:
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
    lines, grown = compare(samples, asked.minutes)
    problems += grown
    raw = {"minutes": asked.minutes, "rate": asked.rate, "counts": counts, "samples": samples, "problems": problems}
    asked.to.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    draw(samples, asked.to.with_suffix(".svg"))
    print(
        "\n".join([*lines, *(f"WRONG: {each}" for each in problems)] if problems else [*lines, "flat, and all add up"])
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
