"""The embedded server seen from outside: its users, its processes and its locks."""

import fcntl
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import psycopg

from tests.support.workers import until
from treadle.db.embedded import leave

QUICK = {"fsync": "off"}
SECONDS = 60.0


class User:
    """A process that has joined the server of a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("embedded_user.py"), folder, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,  # select does not see what is already in a buffer
        )
        self.children: list[int] = []
        self._start: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for child in self.children:
            if is_running(child):
                os.kill(child, signal.SIGKILL)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        assert select.select([self.process.stdout], [], [], SECONDS)[0], "the process did not answer"
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.children += [answer["child"]] if "child" in answer else []
        return answer

    @property
    def start(self) -> dict[str, Any]:
        if self._start is None:
            self._start = self.answer()
        return self._start

    @property
    def postmaster(self) -> int:
        assert "postmaster" in self.start, self.start
        pid: int = self.start["postmaster"]
        return pid

    @property
    def data(self) -> Path:
        return Path(self.start["data"])

    def send(self, command: str) -> None:
        assert self.start
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n".encode())

    def run(self, command: str) -> dict[str, Any]:
        self.send(command)
        return self.answer()

    def exit(self) -> None:
        assert "error" not in self.start, self.start
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()


def wait_until(true: Callable[[], bool], what: str) -> None:
    until(true, lambda: what, SECONDS)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        zombie = ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # macOS has no /proc
    return not zombie


def wait_until_stopped(postmaster: int) -> None:
    wait_until(lambda: not is_running(postmaster), "the server to stop")


def kill_server(user: User) -> None:
    os.kill(user.postmaster, signal.SIGKILL)
    wait_until(lambda: not is_locked(user.data.parent / "server"), "the last process of the server to exit")


def is_locked(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def one_value(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row
    return row[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def clean_up(home: Path) -> None:
    leave(home)
    running = home / "data" / "postmaster.pid"
    if (home / "server").exists() and is_locked(home / "server") and running.exists():
        os.kill(int(running.read_text().split()[0]), signal.SIGQUIT)
        wait_until(lambda: not is_locked(home / "server"), "the server of a test to stop")
    shutil.rmtree(home, ignore_errors=True)
