"""Takes the screenshots of the dashboard, docs/dashboard-*.png, while sample jobs run: make pictures

The statistics of the hour before are invented, to avoid waiting an hour.
"""

import math
import os
import random
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import picture_jobs as jobs
from playwright.sync_api import Browser, sync_playwright

from treadle import migrate
from treadle.cli.demo import LoggedProgram
from treadle.db.embedded import embedded_url, leave
from treadle.db.setup_connection import connect

DOCS = Path(__file__).parent
SIZE = {"width": 1280, "height": 940}
SCHEMA = jobs.app.schema


def main() -> None:
    browser = os.environ.get("TREADLE_TEST_CHROMIUM") or shutil.which("chromium")
    if browser is None:
        sys.exit("Chromium is required; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="treadle-pictures-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = os.environ["TREADLE_DATABASE_URL"] = embedded_url(folder)
        # The path that the tracebacks in the screenshots show.
        shop = Path(tempfile.gettempdir()) / "shop"
        shop.mkdir(exist_ok=True)
        shutil.copy(DOCS / "picture_jobs.py", shop / "orders.py")
        os.environ["PYTHONPATH"] = str(shop)
        migrate(url, SCHEMA)
        insert_statistics(url)
        worker = LoggedProgram(["worker", "orders:app", "--grace", "1s"], url, folder / "worker.log")
        page = LoggedProgram(["dashboard", "--schema", SCHEMA, "--port", "0"], url, folder / "dashboard.log")
        stop = threading.Event()
        producer = threading.Thread(target=enqueue_jobs, args=(stop,))
        try:
            worker.wait_for("worker started")
            address = page.wait_for(r"http://\S+")
            producer.start()
            with sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
                take_screenshots(chromium, address)
                chromium.close()
        finally:
            stop.set()
            producer.join()
            page.stop()
            worker.stop()
            jobs.app.close()
            leave(folder)
            shutil.rmtree(shop)


def insert_statistics(url: str) -> None:
    rng = random.Random(5)  # noqa: S311
    with connect(url) as connection:
        for ago in range(1, 61):
            jobs_done = int(620 + 180 * math.sin(ago / 9) + rng.uniform(-60, 60))
            slow = 9 <= ago <= 14
            waited = rng.uniform(0.01, 0.03) + (0.25 if slow else 0)
            failed = rng.choice([0, 0, 0, 0, 1, 2]) + (4 if slow else 0)
            waits = [waited * rng.lognormvariate(0, 0.5) for _ in range(jobs_done)]
            runs = [0.05 * rng.lognormvariate(0, 0.7) for _ in range(jobs_done)]
            connection.execute(
                f"""insert into {SCHEMA}.minutes
                values (date_trunc('minute', now()) - %s * interval '1 minute', 'default', 'send_mail', %s, %s, 0, %s,
                %s, %s, %s, %s, {SCHEMA}.count_by_bucket(%s), {SCHEMA}.count_by_bucket(%s))""",
                (ago, jobs_done, failed, failed + rng.choice([0, 1, 1, 3, 6]), sum(waits), max(waits), sum(runs),
                 max(runs), waits, runs),
            )  # fmt: skip


def enqueue_jobs(stop: threading.Event) -> None:
    jobs.app.queue.enqueue("nightly_report", {"month": "2026-10"})
    for n in range(5):
        jobs.render_film.using(delay=f"{10 * n}m").enqueue(film=f"film-{n}")
    jobs.reindex.enqueue()
    nth = 0
    while not stop.wait(0.5):
        nth += 1
        jobs.send_mail.enqueue_many({"to": f"reader-{nth}-{n}@example.org"} for n in range(6))
        if nth % 2 == 0:
            jobs.thumbnail.enqueue(picture=f"cat-{nth}")
        if nth % 24 == 1:
            jobs.import_orders.enqueue(file=f"orders-{nth}.csv", shop_token="b2c9e1")  # noqa: S106


def take_screenshots(chromium: Browser, address: str) -> None:
    for theme in ("light", "dark"):
        context = chromium.new_context(viewport=SIZE, color_scheme=theme, locale="en-GB", timezone_id="UTC")  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{address}/jobs?type=import_orders&status=running")
        while not page.locator("tbody a").count():
            page.reload()
        page.locator("tbody a").first.click()
        # Waits until its second attempt has made some progress.
        page.locator("#errors-title").wait_for()
        page.locator("details.error").first.evaluate("details => { details.open = true; }")
        while page.locator("#job-state progress").evaluate("bar => bar.value") < 60:
            page.wait_for_timeout(100)
        page.screenshot(path=DOCS / f"dashboard-job-{theme}.png")
        page.goto(address)
        page.locator("#connection[data-state=live]").wait_for()
        page.locator(".running li").nth(4).wait_for()
        page.screenshot(path=DOCS / f"dashboard-overview-{theme}.png")
        context.close()


if __name__ == "__main__":
    main()
