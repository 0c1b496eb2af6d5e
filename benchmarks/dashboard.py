"""Measures all operator views with 10 million finished and 1 million pending jobs: python -m benchmarks.dashboard [URL]

For each view it records the slowest statement from pg_stat_statements, the first time on a new connection and in five
repetitions. The server needs shared_preload_libraries = pg_stat_statements; without a URL, an embedded server is
started with that setting. An empty database is filled first (many_jobs.py), which takes 15 minutes and 5 GB; use
--finished and --pending for fewer jobs.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import httpx
import psycopg
from psycopg import Connection

from benchmarks import many_jobs
from treadle import Treadle
from treadle.cli.top.refresh import Refresher, View
from treadle.db.embedded import embedded_url, leave
from treadle.db.migrations import migrate
from treadle.db.queries import listing as listing_queries
from treadle.operations.bulk import count
from treadle.operations.overview import STEPS, overview
from treadle.text.payload_condition import read_payload_condition
from treadle.words.changes import Action
from treadle.words.listing import JobFilter, Listing

HERE = Path(__file__).parent
LIMIT_MS = 150
LISTS = ["completed", "failed", "cancelled", "claimed", "running", "pending", "later", "held", None]
FILTERS: dict[str, dict[str, Any]] = {
    "": {},
    "a type": {"job_type": "resize_image"},
    "a rare type": {"job_type": "yearly_report"},
    "a queue": {"queue": "slow"},
    "a worker": {"worker_id": "host-3"},
    "a key": {"key": "account:50"},
    "a search": {"search": "customer 99"},
    "a search for nothing": {"search": "nowhere at all"},
    "digits of an id": {"search": "00000000"},
    "an hour in the past": {
        "since": datetime.now(UTC) - timedelta(hours=3),
        "until": datetime.now(UTC) - timedelta(hours=2),
    },
    "a payload value": {"where": read_payload_condition('data.nothing = "nowhere at all"')},
}
PAGES = [
    *("/", "/?window=604800", "/workers", "/audit", "/health", "/metrics", "/errors", "/errors/1", "/workflows"),
    *(f"/{kind}s?window={window}" for kind in ("type", "queue") for window in (3600, 604800)),
    *(f"/{path}&window={window}" for path in ("type?name=send_email", "queue?name=mail") for window in (3600, 604800)),
    *("/schedules", "/limits", "/bulk?action=delete&status=failed", "/bulk?action=retry&status=failed&type=send_email"),
    *(f"/jobs?status={status}" for status in ("completed", "failed", "pending", "held", "running")),
    *("/jobs", "/jobs?type=yearly_report", "/jobs?search=nowhere+at+all"),
    # The page of a job with this status.
    *(f"/jobs/{{{status}}}" for status in ("completed", "failed", "pending", "held", "running")),
]
Look = Callable[[Treadle], object]
_paths: dict[str, str] = {}


class Figure(NamedTuple):
    view: str
    cold_ms: float
    warm_ms: float
    statement: str
    result: object


def views() -> Iterator[tuple[str, Look]]:
    """All views, with their names. Add new ones here."""
    for status in LISTS:
        for name, filters in FILTERS.items():
            wanted = JobFilter(status=status, **filters)
            yield f"{status or 'all'}{name and ', '}{name}", partial(page, wanted)
        yield f"{status or 'all'}, page 100", far_page(JobFilter(status=status))
    yield "an id", partial(page, JobFilter(search="00000000-0000-7000-8000-000000000000"))
    for action in (Action.RETRY, Action.CANCEL, Action.DELETE):
        yield f"count before {action.value}", partial(counted, action)
    for window in STEPS:
        yield f"overview of {window // 3600} h", partial(lanes, window)
    for view in get_args(View):
        yield f"top, {view}", partial(refresh, view)
    for path in PAGES:
        yield f"page {path}", partial(get, path)


def page(wanted: JobFilter, app: Treadle, after: str | None = None) -> str:
    found: Listing = app.database.read(listing_queries.find_jobs(wanted, after, 50), 30)
    return f"{len(found.jobs)} jobs" + (f", examined {found.examined:,}" if found.examined else "")


def far_page(wanted: JobFilter) -> Look:
    after: list[str | None] = []

    def look(app: Treadle) -> str:
        if not after:  # only the 100th page itself is measured
            at = None
            for _ in range(99):
                found: Listing = app.database.read(listing_queries.find_jobs(wanted, at, 50), 30)
                at = found.next or at
            after.append(at)
            with psycopg.connect(app.database.url, autocommit=True) as connection:
                connection.execute("select pg_stat_statements_reset()")
        return page(wanted, app, after[0])

    return look


def counted(action: Action, app: Treadle) -> str:
    total = count(app.database, JobFilter(), action)
    return f"{'' if total.exact else 'at least '}{total.jobs:,}"


def lanes(window: int, app: Treadle) -> str:
    return f"{len(overview(app.database, window).lanes)} lanes"


def refresh(view: View, app: Treadle) -> str:
    """What treadle top reads every second."""
    refresher = Refresher(app)
    refresher.view = view

    async def read() -> str:
        snapshot = await refresher.refresh()
        await app.aclose()
        return f"{len(snapshot.jobs)} jobs" if snapshot else "too slow"

    return asyncio.run(read())


def get(path: str, app: Treadle) -> int:
    """Request a page and return its status code. The job for a job page is looked up once, which is not measured."""
    if "{" in path:
        path = _paths.get(path) or _paths.setdefault(path, some_job(path, app))
    from treadle.web.dashboard import Role, Visitor, dashboard_app

    async def request() -> int:
        transport = httpx.ASGITransport(dashboard_app(app, authorize=lambda _: Visitor(Role.OPERATOR, "bench")))
        async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
            response = await client.get(path)
        await app.aclose()
        return response.raise_for_status().status_code

    return asyncio.run(request())


def some_job(path: str, app: Treadle) -> str:
    before, status = path.rstrip("}").split("{")
    found: Listing = app.database.read(listing_queries.find_jobs(JobFilter(status=status), None, 50), 30)
    with psycopg.connect(app.database.url, autocommit=True) as connection:
        connection.execute("select pg_stat_statements_reset()")
    return f"{before}{found.jobs[-1].id}"


def slowest(watcher: Connection[Any]) -> tuple[float, str]:
    row = watcher.execute(
        """select max_exec_time, query from pg_stat_statements
        where toplevel and dbid = (select oid from pg_database where datname = current_database())
          and query not like '%pg_stat_statements%' and query not like '%select max_exec_time%'
        order by max_exec_time desc limit 1"""
    ).fetchone()
    return (float(row[0]), " ".join(str(row[1]).split())[:80]) if row else (0.0, "")


def measure(url: str) -> list[Figure]:
    figures = []
    with psycopg.connect(url, autocommit=True) as watcher:
        watcher.execute("create extension if not exists pg_stat_statements")
        for name, look in views():
            app = Treadle(url)
            app.database.use(url)
            watcher.execute("select pg_stat_statements_reset()")
            result = look(app)
            cold, _ = slowest(watcher)
            watcher.execute("select pg_stat_statements_reset()")
            for _ in range(5):
                look(app)
            warm, statement = slowest(watcher)
            app.close()
            figures.append(Figure(name, round(cold, 1), round(warm, 1), statement, result))
            print(f"{name:34} {cold:8.1f} {warm:8.1f} ms  {result}{'' if warm < LIMIT_MS else '   SLOW'}", flush=True)
    return figures


def fill_if_empty(url: str, finished: int, pending: int) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("select from treadle.jobs limit 1").fetchone() is None:
            many_jobs.make(url, finished, pending)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?")
    parser.add_argument("--finished", type=int, default=many_jobs.FINISHED)
    parser.add_argument("--pending", type=int, default=many_jobs.PENDING)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        settings = {"shared_preload_libraries": "pg_stat_statements", "max_wal_size": "8GB"}
        url = options.url or embedded_url(folder / "server", settings, quiet=True)
        try:
            fill_if_empty(url, options.finished, options.pending)
            figures = measure(url)
            with psycopg.connect(url) as connection:
                version = connection.execute("show server_version").fetchone()
        finally:
            if not options.url:
                leave(folder / "server")
    report = {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "postgresql": version[0] if version else None,
        "finished": options.finished,
        "pending": options.pending,
        "load average": os.getloadavg()[0],
        "slowest ms": max(max(each.cold_ms, each.warm_ms) for each in figures),
        "views": [each._asdict() for each in figures],
    }
    print(f"slowest statement: {report['slowest ms']} ms; load average {report['load average']:.1f}")
    if options.finished == many_jobs.FINISHED:
        (HERE / "dashboard.json").write_text(json.dumps(report, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
