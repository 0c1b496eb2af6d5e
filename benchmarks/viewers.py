"""Measures the CPU time of the dashboard and its database sessions with 20 open pages: python -m benchmarks.viewers URL

The database is one that benchmarks.dashboard or benchmarks.many_jobs has filled; it is on this machine, and nothing
else uses it. The pages are those that people leave open, most of them the overview; and in a second run, all of them
are the overview. Meanwhile the depths of lanes are counted as a worker does, which is not a part of the cost.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep

import httpx
import psycopg

HERE = Path(__file__).parent
PAGES = [
    *["/"] * 6,
    *["/?window=604800"] * 2,
    *["/jobs", "/jobs?status=failed", "/jobs?status=running"],
    *["/workers", "/workers", "/health", "/types", "/type?name=send_email", "/type?name=send_email&window=604800"],
    *["/queue?name=mail", "/errors", "/workflows"],
]
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def view(base: str, path: str) -> None:
    """Open a page and follow it until the dashboard stops."""
    page = httpx.get(base + path, timeout=30).raise_for_status().text
    live = re.search(r'data-live="([^"]+)"', page)
    if live is None:
        raise ValueError(f"{path} is no live page")
    with suppress(httpx.HTTPError), httpx.stream("GET", base + unescape(live[1]), timeout=60) as response:
        for _ in response.raise_for_status().iter_bytes():
            pass


def count_depths(url: str, processes: list[int]) -> None:
    """What workers do all the time. Appends the id of its server process."""
    with psycopg.connect(url, autocommit=True) as connection:
        processes.append(connection.info.backend_pid)
        while True:
            (row,) = connection.execute("select treadle.count_depths()").fetchall()
            sleep(max(0.5, row[0]))


def measure(url: str, seconds: float, pages: list[str], others: list[int]) -> dict[str, object]:
    """Without the server processes of `others`."""
    command = [sys.executable, "-m", "treadle", "dashboard", "--port", "0", "--database-url", url]
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        stack.callback(process.terminate)
        assert process.stderr is not None
        base = next(found[0] for line in process.stderr if (found := re.search(r"http://[\d.:]+", line)))
        for path in pages:
            Thread(target=view, args=(base, path), daemon=True).start()
            sleep(0.3)
        connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        others.append(connection.info.backend_pid)
        sleep(30)

        def used() -> tuple[float, dict[int, float]]:
            sessions = connection.execute(
                """select pid from pg_stat_activity
                where datname = current_database() and backend_type = 'client backend' and pid <> all(%s)""",
                [others],
            ).fetchall()
            return cpu_seconds(process.pid), {pid: cpu_seconds(pid) for (pid,) in sessions}

        began, (dashboard_before, sessions_before) = perf_counter(), used()
        sleep(seconds)
        elapsed, (dashboard_after, sessions_after) = perf_counter() - began, used()
    sessions = sum(cpu - sessions_before.get(pid, 0) for pid, cpu in sessions_after.items())
    return {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "pages": len(pages),
        "different pages": len(set(pages)),
        "seconds": round(elapsed, 1),
        "load average": round(os.getloadavg()[0], 1),
        "dashboard, % of a core": round(100 * (dashboard_after - dashboard_before) / elapsed, 1),
        "database, % of a core": round(100 * sessions / elapsed, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    others: list[int] = []
    Thread(target=count_depths, args=(options.url, others), daemon=True).start()
    report = [measure(options.url, options.seconds, pages, others) for pages in (PAGES, ["/"] * len(PAGES))]
    print(json.dumps(report, indent=2))
    (HERE / "viewers.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
