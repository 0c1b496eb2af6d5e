"""A dashboard process with a server of its own behind a proxy, and ways to make the database stop answering."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
from chaos.proxy import Proxy
from chaos.servers import Server

from tests.support.workers import until

PAGES = ("/", "/jobs", "/workers", "/limits", "/schedules", "/audit", "/api/overview")


class Scene:
    def __init__(self, folder: Path, log: Path) -> None:
        self.server = Server(folder)
        self.proxy = Proxy(self.server.url)
        self.log = log
        command = [sys.executable, "-m", "treadle", "dashboard", "--port", "0", "--database-url", self.proxy.url]
        with log.open("w") as output:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output)
        until(lambda: "the dashboard is at " in log.read_text(), log.read_text, 60)
        self.url = log.read_text().partition("the dashboard is at ")[2].split()[0]

    def get(self, path: str) -> tuple[int, float, str]:
        """The status, how long the answer took, and its text."""
        began = time.monotonic()
        answer = httpx.get(self.url + path, headers={"accept": "text/html"}, timeout=60)
        return answer.status_code, time.monotonic() - began, answer.text

    def close(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(30)
        self.proxy.close()
        self.server.close()


@contextmanager
def stopped_server(scene: Scene) -> Iterator[None]:
    """Its processes are there and do nothing: connections are accepted by the kernel, and never answered."""
    postmaster = int((scene.server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    processes = [postmaster, *map(int, children)]
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            os.kill(each, signal.SIGCONT)


@contextmanager
def no_server(scene: Scene) -> Iterator[None]:
    scene.server.crash()
    try:
        yield
    finally:
        scene.server.come_back()


@contextmanager
def dropped_packets(scene: Scene) -> Iterator[None]:
    scene.proxy.black_hole_everything(True)
    try:
        yield
    finally:
        scene.proxy.black_hole_everything(False)


@contextmanager
def locked_table(scene: Scene) -> Iterator[None]:
    with scene.server.connect() as connection, connection.transaction():
        connection.execute("lock table treadle.jobs in access exclusive mode")
        yield


@contextmanager
def stopped_dashboard(scene: Scene) -> Iterator[None]:
    scene.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        scene.process.send_signal(signal.SIGCONT)


FAULTS: dict[str, Callable[[Scene], AbstractContextManager[None]]] = {
    "stopped": stopped_server,
    "down": no_server,
    "dropped": dropped_packets,
    "locked": locked_table,
}
