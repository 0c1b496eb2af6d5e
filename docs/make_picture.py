"""Creates docs/demo.svg and docs/top.svg from real runs of the demo's jobs: python docs/make_picture.py [demo|top]"""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import psycopg
from rich.console import Console, RenderableType

from treadle import Status, migrate
from treadle.cli import demo, demo_jobs, demo_round
from treadle.cli.top.queue import QueueScreen
from treadle.cli.top.refresh import Refresher
from treadle.cli.top.screen import Top
from treadle.cli.top.table import Table
from treadle.db.embedded import embedded_url, leave
from treadle.watching.bars import Bars
from treadle.watching.snapshots import snapshots
from treadle.words.snapshot import JobSnapshot

# The width of a character in the SVG files of rich.
CHARACTER = 12.2

# An hour of invented jobs, so that the screenshot shows a curve.
HISTORY = """
insert into jobs (job_type, status, attempts, created_at, run_at, claimed_at, started_at, finished_at)
select 'thumbnail', case when random() < 0.0005 then 'failed' else 'completed' end, 1, at, at, at, at, at
from (
    select now() - minute * interval '1 minute' + random() * interval '1 minute' as at
    from generate_series(1, 59) as minute
    cross join lateral generate_series(1, (180 + 140 * sin(minute / 6.0) + 60 * random())::int)
) as ended
"""


def main() -> None:
    makers = {"demo": make_demo, "top": make_top}
    for name in sys.argv[1:] or makers:
        with tempfile.TemporaryDirectory(prefix="treadle-picture-", dir="/tmp") as folder:
            Path(folder).chmod(0o711)
            url = os.environ["TREADLE_DATABASE_URL"] = embedded_url(Path(folder))
            migrate(url, demo_jobs.app.schema)
            try:
                picture = makers[name](url)
            finally:
                demo_jobs.app.close()
                leave(Path(folder))
        (Path(__file__).parent / f"{name}.svg").write_text(cleaned(picture))


def make_demo(url: str) -> str:
    console = Console(record=True, width=84, height=30, file=StringIO(), force_terminal=True)
    with demo.running(url, with_dashboard=False) as (worker, _):
        worker.wait_for("worker started")
        parts = demo_round.enqueue_round().jobs
        bars = Bars(console, {part.handle.id: part.label for part in parts})
        frames: list[tuple[int, RenderableType]] = []
        for snapshot in snapshots(demo_jobs.app.database, demo_jobs.app.watch, [part.handle.id for part in parts]):
            seen = {each.id: each for each in snapshot.jobs}
            bars.show(snapshot._replace(jobs=[seen[part.handle.id] for part in parts]))
            frames.append((variety(snapshot.jobs), bars.draw()))
            if seen[parts[3].handle.id].status.finished:
                break
        _, best = max(frames, key=lambda frame: frame[0])
        console.print("$ treadle demo\n")
        console.print(best)
    return console.export_svg(title="treadle demo")


def make_top(url: str) -> str:
    jobs = demo_jobs.app.queue
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={demo_jobs.app.schema}") as connection:
        connection.execute(HISTORY)
        connection.execute("update meter set reached = now() - interval '1 hour'")
        connection.execute("select count_minutes('0', 100000)")
    with demo.running(url, with_dashboard=False) as (worker, _), demo.running(url, with_dashboard=False) as (other, _):
        worker.wait_for("worker started")
        other.wait_for("worker started")
        jobs.enqueue_many("report", [{}] * 1204, queue="nightly", priority=30)
        jobs.enqueue_many("invoice", [{}] * 37, delay="2h")
        jobs.pause("report", reason="the printer is out of paper")
        jobs.enqueue("fax", {"to": "ada"})
        for _ in range(2):
            demo_round.enqueue_round()
        return asyncio.run(photograph())


async def photograph() -> str:
    """Take screenshots for 10 s and return the one with the most varied progress."""
    refresher = Refresher(demo_jobs.app)
    top = Top(demo_jobs.app, refresher, "db.example.org/shop", QueueScreen(await refresher.first_snapshot()))
    frames: list[tuple[int, str]] = []
    async with top.run_test(size=(100, 30)) as pilot:
        for _ in range(40):
            await pilot.pause(0.25)
            running = top.screen.query_one("#jobs", Table).items
            frames.append(
                (
                    len({job.progress.percent // 4 for job in running if job.progress.percent > 20}),
                    top.export_screenshot(title="treadle top"),
                )
            )
    await demo_jobs.app.aclose()
    return max(frames, key=lambda frame: frame[0])[1]


def cleaned(picture: str) -> str:
    # rich refers to fonts on a public server; the picture should not load anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    # Some renderers drop leading spaces, so the text starts at its first visible character.
    return re.sub(r'x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>((?:&#160;)+)(?=[^&<])', moved, picture)


def moved(text: re.Match[str]) -> str:
    x, y, length, rest, spaces = text.groups()
    width = CHARACTER * spaces.count("&")
    return f'x="{float(x) + width:g}" y="{y}" textLength="{float(length) - width:g}"{rest}>'


def variety(jobs: Sequence[JobSnapshot]) -> int:
    """Rate a picture by what it shows: running jobs, up to three completed ones, and one that waits for a retry."""
    completed = sum(each.status == Status.COMPLETED for each in jobs)
    retrying = any(each.status == Status.PENDING and each.error for each in jobs)
    running = sum(each.status == Status.RUNNING and 5 < each.progress.percent < 95 for each in jobs)
    return running + min(completed, 3) + 3 * retrying


if __name__ == "__main__":
    main()
