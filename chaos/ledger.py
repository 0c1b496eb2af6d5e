"""What was done, written where no fault of the database reaches: one file a process, one line a record, appended in
one write, so that it is whole however the process ends. Times are seconds of a clock that all processes here share.

    invoked     an enqueue is about to be asked for: its tokens, which are in the payloads
    returned    it was carried out, for all that its caller knows: the ids
    undone      it was rolled back, or never came to its commit
    unknown     the answer was lost. (One that was only invoked is unknown, too: its process was killed.)
    cancelling  somebody is about to cancel a job
    start       a handler begins: job, lease; `beside` is whoever else was inside
    end         it ends: returned, raised, snoozed, cancelled, stopped
    accepted    the database took an outcome: job, lease, what it was
    refused     it did not: the lease was lost
    fault       something was done to a process: killed, stopped, continued
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = "TREADLE_CHAOS_LEDGER"

Record: TypeAlias = dict[str, Any]


class Ledger:
    """The book of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None
        self._process = 0

    @classmethod
    def of_environment(cls) -> "Ledger":
        return cls(Path(os.environ[FOLDER]))

    def note(self, what: str, **more: Any) -> None:
        # The uptime, not the time of day: storms set clocks.
        record = {"what": what, "at": time.monotonic(), "pid": os.getpid(), **more}
        os.write(self._open(), json.dumps(record, default=str).encode() + b"\n")

    def _open(self) -> int:
        if self._descriptor is None or self._process != os.getpid():
            self._process = os.getpid()
            path = self.folder / f"{self._process}-{time.monotonic_ns()}.jsonl"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._descriptor


class Seats:
    """Who is inside: a lock of the kernel for each job, key or unique text, which is free again the moment its process
    dies, however it dies. So an overlap is seen when it happens, and not inferred from times."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "seats"

    def sit_down(self, names: list[str], who: Record) -> tuple[list[int], list[Record]]:
        """The seats taken, and whoever sits there already."""
        self._folder.mkdir(exist_ok=True)
        taken, beside = [], []
        for name in names:
            seat = os.open(self._folder / name.replace("/", "_"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(seat, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                beside.append({"seat": name, **_read(seat)})
                os.close(seat)
                continue
            os.ftruncate(seat, 0)
            os.pwrite(seat, json.dumps(who).encode(), 0)
            taken.append(seat)
        return taken, beside

    @staticmethod
    def stand_up(taken: list[int]) -> None:
        while taken:
            os.close(taken.pop())


def _read(seat: int) -> Record:
    try:
        found: Record = json.loads(os.pread(seat, 4096, 0))
    except ValueError:  # it has sat down this moment
        return {}
    return found


def read(folder: Path) -> list[Record]:
    """All records of all processes, in the order of time."""
    return sorted(_records(folder), key=lambda record: record["at"])


def _records(folder: Path) -> Iterator[Record]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            yield json.loads(line)
