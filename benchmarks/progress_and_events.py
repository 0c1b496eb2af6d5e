"""Measures the cost of progress, events and checkpoints: python -m benchmarks.progress_and_events [--quick]

progress     a call of job.progress and an item of job.track, compared with the same loop without them
latency      from job.event() until a listener receives it, on an idle worker, compared with one INSERT and commit + one
             notification + one SELECT
events       events per second that 50 jobs publish, compared with a psycopg loop that inserts 1,000 such rows at a time
checkpoints  calls of job.save() per second of one handler on a thread, compared with an UPDATE by key and commit
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from treadle import Job, Treadle, migrate
from treadle.db.embedded import embedded_url, leave

JOBS = 50


def per_call(loop: Callable[[int], None], calls: int) -> float:
    """Return the seconds per call, the best of five runs."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        loop(calls)
        best = min(best, time.perf_counter() - began)
    return best / calls


def with_worker(app: Treadle, job: Any, *calls: dict[str, Any]) -> list[Any]:
    """Run these jobs on a worker and return their results."""

    async def both() -> list[Any]:
        async with app.worker(concurrency=JOBS):
            handles = [await job.aenqueue(**call) for call in calls]
            return [await handle.aresult("5m") for handle in handles]

    async def whole() -> list[Any]:
        try:
            return await both()
        finally:
            await app.aclose()

    return asyncio.run(whole())


def measure_calls(app: Treadle, calls: int) -> dict[str, float]:
    @app.job(name="calls")
    def measured(job: Job) -> list[float]:
        def nothing(number: int) -> None:
            for _ in range(number):
                pass

        def progress(number: int) -> None:
            for n in range(number):
                job.progress(n * 100 / number)

        def track(number: int) -> None:
            for _ in job.track(range(number)):
                pass

        bare = per_call(nothing, calls)
        return [bare, per_call(progress, calls), per_call(track, calls)]

    bare, progress, track = with_worker(app, measured, {})[0]
    return {"bare loop ns": bare * 1e9, "progress ns": progress * 1e9, "track ns": track * 1e9}


def latency_ours(app: Treadle, tries: int) -> list[float]:
    published_at: dict[int, float] = {}
    latencies: list[float] = []

    @app.job(name="publish")
    async def publish(job: Job) -> None:
        for n in range(tries):
            published_at[n] = time.monotonic()
            job.event("published", n=n)
            await asyncio.sleep(0.06)

    async def both() -> None:
        async with app.worker():
            handle = await publish.aenqueue()
            async for event in handle.events():
                if event.number:
                    latencies.append(time.monotonic() - published_at[event.data["n"]])  # noqa: PERF401
        await app.aclose()

    asyncio.run(both())
    return latencies


def latency_bare(url: str, tries: int) -> list[float]:
    latencies: list[float] = []
    with psycopg.connect(url, autocommit=True) as writer, psycopg.connect(url, autocommit=True) as reader:
        writer.execute("create table if not exists public.bare (n int primary key, data jsonb)")
        writer.execute("truncate public.bare")
        reader.execute("listen bare")
        for n in range(tries):
            began = time.monotonic()
            with writer.transaction():
                writer.execute("insert into public.bare values (%s, %s)", [n, "{}"])
                writer.execute("notify bare")
            next(reader.notifies(timeout=5))
            reader.execute("select * from public.bare where n >= %s", [n]).fetchall()
            latencies.append(time.monotonic() - began)
    return latencies


def events_ours(app: Treadle, url: str, events: int) -> float:
    @app.job(name="publish_many")
    async def publish_many(job: Job) -> None:
        for n in range(events // JOBS):
            job.event("published", n=n)
            if n % 50 == 0:
                await asyncio.sleep(0)

    with_worker(app, publish_many, *({} for _ in range(JOBS)))
    with psycopg.connect(url) as connection:
        found = connection.execute(
            """select sum(events_count) / extract(epoch from max(completed_at) - min(claimed_at))
            from treadle.jobs where job_type = 'publish_many'"""
        ).fetchone()
        connection.execute("truncate treadle.jobs, treadle.events")
    return float(found[0]) if found else 0.0


def events_bare(url: str, events: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop table if exists public.bare_events")
        connection.execute("create table public.bare_events (like treadle.events including all)")
        began = time.monotonic()
        for first in range(0, events, 1000):
            connection.execute(
                """insert into public.bare_events (job_id, number, job_type, attempt, lease, happened_at, name, data)
                select %s, n, 'publish_many', 1, 1, clock_timestamp(), 'published', data::jsonb
                from unnest(%s::int[], %s::text[]) as event (n, data)""",
                [f"00000000-0000-0000-0000-{first:012}", list(range(1000)), [f'{{"n": {n}}}' for n in range(1000)]],
            )
        return events / (time.monotonic() - began)


def saves_ours(app: Treadle, saves: int) -> float:
    @app.job(name="saves")
    def save(job: Job) -> float:
        job.save(0)
        began = time.monotonic()
        for n in range(saves):
            job.save(n)
        return saves / (time.monotonic() - began)

    return float(with_worker(app, save, {})[0])


def saves_bare(url: str, saves: int) -> float:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("create table if not exists public.bare_state (id int primary key, state jsonb)")
        connection.execute("insert into public.bare_state values (1, '0') on conflict do nothing")
        began = time.monotonic()
        for n in range(saves):
            connection.execute("update public.bare_state set state = %s where id = 1", [str(n)])
        return saves / (time.monotonic() - began)


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50 ms": statistics.median(ordered) * 1000,
        "p99 ms": ordered[int(len(ordered) * 0.99)] * 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rounds, events, tries, saves = (2, 10_000, 40, 500) if quick else (5, 20_000, 200, 2000)
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = embedded_url(folder / "server", quiet=True)
        os.environ["TREADLE_DATABASE_URL"] = url
        migrate(url)
        try:
            figures: dict[str, Any] = measure_calls(Treadle(url), 100_000 if quick else 1_000_000)
            pairs: dict[str, list[tuple[float, float]]] = {"events": [], "saves": []}
            for _ in range(rounds):
                pairs["events"].append((events_ours(Treadle(url), url, events), events_bare(url, events)))
                pairs["saves"].append((saves_ours(Treadle(url), saves), saves_bare(url, saves)))
            for what, found in pairs.items():
                figures[f"{what} per second"] = statistics.median(ours for ours, _ in found)
                figures[f"{what} per second, bare"] = statistics.median(bare for _, bare in found)
                figures[f"{what} ratio"] = statistics.median(ours / bare for ours, bare in found)
            figures["latency"] = quantiles(latency_ours(Treadle(url), tries))
            figures["latency, bare"] = quantiles(latency_bare(url, tries))
        finally:
            leave(folder / "server")
    text = json.dumps(figures, indent=2)
    print(text)
    if not quick:
        Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
