"""Records what every process did, in files that database faults cannot affect.

Each process has its own file. Each record is one line, appended with a single write, so that a killed process leaves no
partial line. Times are seconds of the monotonic clock, which all processes on the machine share.
chaos/judge.py describes the records; `refused` is one more: the database refused an outcome, as the lease was lost.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from chaos.judge import Record, read

FOLDER = "TREADLE_CHAOS_LEDGER"

__all__ = ["FOLDER", "Ledger", "Record", "RunLocks", "count", "read"]


class Ledger:
    """The ledger of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None
        self._process = 0

    @classmethod
    def of_environment(cls) -> "Ledger":
        return cls(Path(os.environ[FOLDER]))

    def note(self, what: str, **more: Any) -> None:
        # The monotonic clock, because the clocks storm changes the time of day.
        record = {"what": what, "at": time.monotonic(), "pid": os.getpid(), **more}
        os.write(self._open(), json.dumps(record, default=str).encode() + b"\n")

    def _open(self) -> int:
        if self._descriptor is None or self._process != os.getpid():
            self._process = os.getpid()
            path = self.folder / f"{self._process}-{time.monotonic_ns()}.jsonl"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._descriptor


class RunLocks:
    """Detects runs that overlap. A run takes a file lock for its job, key and unique value.

    The kernel releases the locks of a process that dies, so an overlap is observed directly and not inferred from
    times."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "locks"

    def acquire(self, names: list[str], run: Record) -> tuple[list[int], list[Record]]:
        """Return the locks acquired, and the runs that already hold one of the others."""
        self._folder.mkdir(exist_ok=True)
        acquired, others = [], []
        for name in names:
            lock = os.open(self._folder / name.replace("/", "_"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                others.append({"lock": name, **_read(lock)})
                os.close(lock)
                continue
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps(run).encode(), 0)
            acquired.append(lock)
        return acquired, others

    @staticmethod
    def release(acquired: list[int]) -> None:
        while acquired:
            os.close(acquired.pop())


def _read(lock: int) -> Record:
    try:
        found: Record = json.loads(os.pread(lock, 4096, 0))
    except ValueError:  # that run has acquired the lock, and was stopped before it wrote who it is
        return {"pid": _owner(os.fstat(lock).st_ino)}
    return found


def _owner(inode: int) -> int | None:
    """The process that has locked this file, as the kernel knows it."""
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, _, _, process, place, *_ = line.replace(" -> ", " ").split()
        if kind == "FLOCK" and place.endswith(f":{inode}"):
            return int(process)
    return None


def count(folder: Path, what: str) -> int:
    """How many records there are of a kind, while the processes go on: lines may be incomplete."""
    return sum(path.read_bytes().count(f'{{"what": "{what}"'.encode()) for path in folder.glob("*.jsonl"))
