"""Which jobs a worker is running, and until when they may run, in shared memory that survives the worker's process.

The worker notes each job that begins. The process that supervises it reads which jobs were running when the worker
died, and which ones are past their deadline. In return it notes when the lease was last renewed, and the worker stops
its handlers if that was too long ago. Neither waits for the other: a blocked event loop cannot make a live job look
dead. A job costs one write of 64 bytes.
"""

import mmap
import os
import struct
import tempfile
import threading
from typing import NamedTuple
from uuid import UUID

from treadle.words.clock import now

_HEADER = struct.Struct("<d")  # when the lease was last renewed
_HIGHEST = struct.Struct("<i")  # the highest slot that was ever used, behind it
_SLOT = struct.Struct("<16sqddi")  # job, lease number, started, deadline, process
_USED = 63

_SIZE = 64


class Entry(NamedTuple):
    id: UUID
    lease: int
    started: float
    deadline: float  # 0: none
    process: int  # 0: in the worker itself; otherwise the child process, which can be killed on its own


class JobSlots:
    """A header and slots of 64 bytes in an unlinked file. There are more slots than a worker uses, unless an operator
    raises its concurrency: those that were never used take no memory, and no time to read."""

    def __init__(self, descriptor: int, count: int) -> None:
        self.descriptor = descriptor
        self.count = count
        self._memory = mmap.mmap(descriptor, _SIZE * (count + 1))
        self._free = list(range(count, 0, -1))
        self._highest = 0
        self._raising = threading.Lock()

    @classmethod
    def create(cls, count: int) -> "JobSlots":
        with tempfile.TemporaryFile() as file:
            file.truncate(_SIZE * (count + 1))
            return cls(os.dup(file.fileno()), count)

    # The lease

    @property
    def renewed_at(self) -> float:
        value: float = _HEADER.unpack_from(self._memory, 0)[0]
        return value

    @renewed_at.setter
    def renewed_at(self, moment: float) -> None:
        _HEADER.pack_into(self._memory, 0, moment)

    # The jobs. Only the worker writes them; any thread of it may add one. A slot is marked as used after it is filled,
    # and as free before reuse.

    def add(self, job_id: UUID, lease: int, deadline: float, process: int = 0) -> int:
        """Note a job that begins; returns its slot. A job that waits for a child process has not begun."""
        slot = self._free.pop()
        if slot > self._highest:
            self._raise_highest(slot)
        _SLOT.pack_into(self._memory, slot * _SIZE, job_id.bytes, lease, now(), deadline, process)
        self._memory[slot * _SIZE + _USED] = 1
        return slot

    def remove(self, slot: int) -> None:
        self._memory[slot * _SIZE + _USED] = 0
        self._free.append(slot)

    def remove_deadline(self, slot: int) -> None:
        """The job in this slot may run on."""
        job, lease, started, _, process = _SLOT.unpack_from(self._memory, slot * _SIZE)
        _SLOT.pack_into(self._memory, slot * _SIZE, job, lease, started, 0.0, process)

    def entries(self) -> list[Entry]:
        """The jobs that are running, or were running when the worker died."""
        found = []
        for slot in range(1, _HIGHEST.unpack_from(self._memory, _HEADER.size)[0] + 1):
            if self._memory[slot * _SIZE + _USED]:
                raw, lease, started, deadline, process = _SLOT.unpack_from(self._memory, slot * _SIZE)
                found.append(Entry(UUID(bytes=raw), lease, started, deadline, process))
        return found

    def _raise_highest(self, slot: int) -> None:
        with self._raising:  # another thread may have taken a higher one
            self._highest = max(slot, self._highest)
            _HIGHEST.pack_into(self._memory, _HEADER.size, self._highest)

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)
