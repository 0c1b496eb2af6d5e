"""Measures after how many seconds each surface shows that something is wrong: python -m tests.fault_times

A worker is stopped, or its event loop is blocked; the database is stopped, shut down, cut off or locked; the dashboard
is stopped. Real processes, a real browser with 16 open pages, and a terminal. Nothing is asserted: it prints the times
for docs/dashboard.md.
"""

import argparse
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import httpx
from chaos.ledger import FOLDER
from playwright.sync_api import Browser, Page

from tests.support.browser import chromium
from tests.support.commands import run_in_process
from tests.support.outages import FAULTS, Scene, stopped_dashboard
from tests.support.screens import Terminal, terminal
from tests.support.server_folders import new_folder
from tests.support.workers import WorkerProgram, locked_file, until, worker_process
from treadle import JobQueue

TABS = ("/", "/jobs", "/workers", "/health")
# A browser opens six connections to a server; each of these has four pages.
BROWSERS = 4
GIVE_UP = 60.0

Probe = Callable[[], bool]


class Surfaces(NamedTuple):
    scene: Scene
    worker: WorkerProgram
    health_port: int
    tabs: list[Page]
    job_tab: Page
    top: Terminal

    def tabs_of(self, path: str) -> list[Page]:
        return [tab for tab in self.tabs if tab.url == self.scene.url + path]

    def command(self, *arguments: object) -> str:
        done = run_in_process(*arguments, "--database-url", self.scene.proxy.url)
        return done.stdout + done.stderr

    def ready(self) -> bool:
        return httpx.get(f"http://127.0.0.1:{self.health_port}/ready", timeout=10).status_code == 200


class Clock:
    """When each probe was true for the first time. Those of the browser must run on the thread that opened it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float | None] = {}
        self._began = time.monotonic()

    def watch(self, in_browser: dict[str, Probe], elsewhere: dict[str, Probe]) -> None:
        self._began = time.monotonic()
        self.seconds = dict.fromkeys([*in_browser, *elsewhere])
        threads = [threading.Thread(target=self._poll, args=each, daemon=True) for each in elsewhere.items()]
        for each in threads:
            each.start()
        while self._age() < GIVE_UP and any(self.seconds[name] is None for name in self.seconds):
            for name, probe in in_browser.items():
                if self.seconds[name] is None and probe():
                    self.seconds[name] = self._age()
            time.sleep(0.05)
        for thread in threads:
            thread.join(GIVE_UP)

    def _poll(self, name: str, probe: Probe) -> None:
        while self._age() < GIVE_UP:
            if probe():
                self.seconds[name] = self._age()
                return
            time.sleep(0.05)

    def _age(self) -> float:
        return time.monotonic() - self._began


def stale(tab: Page) -> Probe:
    return lambda: bool(tab.evaluate("document.documentElement.classList.contains('stale')"))


def shows(tab: Page, text: str) -> Probe:
    return lambda: bool(tab.evaluate("text => document.querySelector('main').innerText.includes(text)", text))


def unavailable(scene: Scene, path: str) -> Probe:
    return lambda: scene.get(path)[0] == 503


def numbered(name: str, probes: Iterable[Probe]) -> dict[str, Probe]:
    return {f"{name} {number}": probe for number, probe in enumerate(probes)}


def spread(clock: Clock, names: Iterable[str]) -> str:
    found = [clock.seconds[name] for name in names]
    if None in found:
        return "not shown"
    known = sorted(each for each in found if each is not None)
    low, high = f"{known[0]:.1f}", f"{known[-1]:.1f}"
    return low if low == high else f"{low} to {high}"


def database_fault(surfaces: Surfaces, name: str) -> dict[str, str]:
    scene, clock = surfaces.scene, Clock()
    # Health works while the table of jobs is locked, and says so.
    works = surfaces.tabs_of("/health") if name == "locked" else []
    pages = numbered("open", (stale(tab) for tab in surfaces.tabs if tab not in works))
    health = numbered("health", (shows(tab, "locked") for tab in works))
    new = numbered("new", (unavailable(scene, path) for path in TABS[:3]))
    others: dict[str, Probe] = {
        "`top`": lambda: "unavailable for" in surfaces.top.text(),
        "`stats`": lambda: "nap" not in surfaces.command("stats"),
        "`/ready`": lambda: not surfaces.ready(),
    }
    with FAULTS[name](scene):
        clock.watch(pages | health, new | others)
    found = {"open pages": spread(clock, pages), "new pages": spread(clock, new)}
    if health:
        found["Health"] = spread(clock, health)
    return found | {each: spread(clock, [each]) for each in others}


def worker_fault(surfaces: Surfaces, fault: AbstractContextManager[None], job: UUID) -> dict[str, str]:
    clock = Clock()
    logged = len(surfaces.worker.log.read_text())
    pages = {
        "Overview": numbered("overview", (shows(tab, "stuck") for tab in surfaces.tabs_of("/"))),
        "Workers": numbered("workers", (shows(tab, "is stuck") for tab in surfaces.tabs_of("/workers"))),
        "Health": numbered("health", (shows(tab, "keeps its jobs") for tab in surfaces.tabs_of("/health"))),
        "job page": numbered("job", [shows(surfaces.job_tab, "is stuck")]),
    }
    others: dict[str, Probe] = {
        "`top`": lambda: "stuck" in surfaces.top.text(),
        "`why`": lambda: "stuck" in surfaces.command("why", job),
        "`doctor`": lambda: "keeps its jobs" in surfaces.command("doctor"),
        "`/metrics`": lambda: 'treadle_workers{state="stuck"} 1' in surfaces.scene.get("/metrics")[2],
        "log": lambda: "is stuck" in surfaces.worker.log.read_text()[logged:],
        "`/ready`": lambda: not surfaces.ready(),
    }
    with fault:
        clock.watch({name: probe for probes in pages.values() for name, probe in probes.items()}, others)
    found = {name: spread(clock, probes) for name, probes in pages.items()}
    return found | {name: spread(clock, [name]) for name in others}


def dashboard_fault(surfaces: Surfaces) -> dict[str, str]:
    clock, pages = Clock(), numbered("open", (stale(tab) for tab in surfaces.tabs))
    with stopped_dashboard(surfaces.scene):
        clock.watch(pages, {})
    return {"open pages": spread(clock, pages)}


@contextmanager
def opened(browser: Browser, folder: Path) -> Iterator[Surfaces]:
    with ExitStack() as stack:
        scene = Scene(folder, folder.with_name("dashboard.log"))
        stack.callback(scene.close)
        os.environ[FOLDER] = str(folder.parent)
        options = ("--concurrency", "4", "--health-port", "0")
        worker = stack.enter_context(worker_process(scene.proxy.url, folder.parent, *options))
        port = until(lambda: re.search(r"on port (\d+)", worker.log.read_text()), worker.log.read_text)
        top = stack.enter_context(terminal("top", "--database-url", scene.proxy.url))
        with JobQueue(scene.server.url) as queue:
            job = queue.enqueue("nap", {"seconds": 3600})
        tabs = []
        for _ in range(BROWSERS):
            context = stack.enter_context(browser.new_context(locale="en-GB"))
            for path in TABS:
                tabs.append(context.new_page())
                tabs[-1].goto(scene.url + path)
        job_tab = browser.new_page()
        job_tab.goto(f"{scene.url}/jobs/{job}")
        yield Surfaces(scene, worker, int(port[1]), tabs, job_tab, top)


def wait_until_well(surfaces: Surfaces) -> None:
    def well() -> bool:
        texts = [tab.inner_text("main") for tab in (*surfaces.tabs_of("/workers"), surfaces.job_tab)]
        return not any(stale(tab)() for tab in surfaces.tabs) and not any("stuck" in text for text in texts)

    until(well, lambda: "the pages did not recover", 120)
    until(surfaces.ready, lambda: "the worker is not ready", 120)
    until(lambda: "unavailable" not in surfaces.top.text(), surfaces.top.text, 60)
    time.sleep(6)  # for what surfaces keep for some seconds


def measure(surfaces: Surfaces, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    job = UUID(surfaces.job_tab.url.rpartition("/")[2])
    process = until(surfaces.worker.worker_process)

    @contextmanager
    def stopped_worker() -> Iterator[None]:
        process.suspend()
        yield
        process.resume()

    @contextmanager
    def blocked_loop() -> Iterator[None]:
        with locked_file(folder) as lock, JobQueue(surfaces.scene.server.url) as queue:
            queue.enqueue("block_the_loop", {"lock": lock})
            yield

    yield "worker stopped", worker_fault(surfaces, stopped_worker(), job)
    yield "event loop blocked", worker_fault(surfaces, blocked_loop(), job)
    yield "dashboard stopped", dashboard_fault(surfaces)
    for fault in FAULTS:
        yield f"database {fault}", database_fault(surfaces, fault)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with new_folder() as folder, chromium() as browser, opened(browser, folder) as surfaces:
        for _ in range(options.rounds):
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)
            for fault, seconds in measure(surfaces, folder.parent):
                print(f"{fault}: {', '.join(f'{each} {found}' for each, found in seconds.items())}", flush=True)
                wait_until_well(surfaces)


if __name__ == "__main__":
    main()
