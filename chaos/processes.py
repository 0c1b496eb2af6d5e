"""`treadle worker …` as a real process, with its children, to be signalled and killed."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.waiting import until

ROOT = Path(__file__).parent.parent


class WorkerProcess:
    """A supervisor and the processes that it started."""

    def __init__(self, url: str, log: Path, *options: str, app: str, **environment: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "treadle", "worker", app, *options]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env=os.environ | {"TREADLE_DATABASE_URL": url} | environment,
            )

    def tree(self) -> list[psutil.Process]:
        """The supervisor first."""
        try:
            supervisor = psutil.Process(self.process.pid)
            return [supervisor, *supervisor.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def worker_process(self) -> psutil.Process | None:
        """A process that imports the user's code, if there is one now."""
        return next(iter(self._those("treadle.worker.process")), None)

    def children(self) -> list[psutil.Process]:
        """The child processes that run jobs with process=True."""
        return self._those("spawn_main")

    def _those(self, command: str) -> list[psutil.Process]:
        found = []
        for each in self.tree()[1:]:
            with suppress(psutil.NoSuchProcess):
                if command in " ".join(each.cmdline()):
                    found.append(each)
        return found

    def signal_all(self, number: int) -> None:
        for each in self.tree():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def kill_all(self) -> None:
        """As if the machine had lost its power."""
        self.signal_all(signal.SIGSTOP)
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ended(self, seconds: float = 45) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def alive(self) -> bool:
        return self.process.poll() is None

    def started(self, times: int = 1) -> None:
        until(lambda: self.log.read_text().count("worker started") >= times, self.log.read_text, 90)
