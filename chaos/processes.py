"""Runs `treadle worker …` as a real process, which can be signalled and killed together with its children."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.waiting import until

ROOT = Path(__file__).parent.parent


class WorkerProgram:
    """A running `treadle worker` command: a supervisor and the processes that it started."""

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
        """Return all processes, the supervisor first."""
        try:
            supervisor = psutil.Process(self.process.pid)
            return [supervisor, *supervisor.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def worker_process(self) -> psutil.Process | None:
        """Return a worker process, which imports the application, or None if there is none at the moment."""
        return next(iter(self.worker_processes()), None)

    def worker_processes(self) -> list[psutil.Process]:
        return self._matching("treadle.worker.process")

    def children(self) -> list[psutil.Process]:
        """Return the child processes that run jobs with process=True."""
        return self._matching("spawn_main")

    def _matching(self, command: str) -> list[psutil.Process]:
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
        """Kill all processes at the same time, as in a power cut."""
        self.signal_all(signal.SIGSTOP)
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ended(self, seconds: float = 45) -> int:
        """Wait for the command to exit, and return its exit code."""
        return self.process.wait(seconds)

    def alive(self) -> bool:
        return self.process.poll() is None

    def started(self, times: int = 1) -> None:
        """Wait until this many worker processes have started."""
        until(lambda: self.log.read_text().count("worker started") >= times, self.log.read_text, 90)
