"""What a worker is running, and until when it may, in memory that outlives it.

The worker writes down each job that it starts; whoever looks after it reads which jobs were running when it died, and
which are past their deadline. The other way round, it writes down when the lease was last renewed, and the worker
stops its handlers if that was too long ago. Neither waits for the other: a blocked event loop cannot make a live job
look dead. A job costs a write of 64 bytes.
"""

import mmap
import os
import struct
import tempfile
from typing import NamedTuple
from uuid import UUID

from treadle.words.clock import now

_HEADER = struct.Struct("<d")
_SLOT = struct.Struct("<16sqddi")  # job, lease, started, deadline, process
_USED = 63

SOON = -1
_SIZE = 64


class Entry(NamedTuple):
    id: UUID
    lease: int
    started: float
    deadline: float  # 0: none
    process: int  # 0: in the worker itself; SOON: in a child that is not there yet


class Board:
    """A header and slots of 64 bytes in an unlinked file."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self.slots = slots
        self._memory = mmap.mmap(descriptor, _SIZE * (slots + 1))
        self._free = list(range(slots, 0, -1))

    @classmethod
    def make(cls, slots: int) -> "Board":
        with tempfile.TemporaryFile() as file:
            file.truncate(_SIZE * (slots + 1))
            return cls(os.dup(file.fileno()), slots)

    # The lease

    @property
    def renewed_at(self) -> float:
        value: float = _HEADER.unpack_from(self._memory, 0)[0]
        return value

    @renewed_at.setter
    def renewed_at(self, moment: float) -> None:
        _HEADER.pack_into(self._memory, 0, moment)

    # The jobs. One worker writes; what it has written is marked as used last, and unmarked first.

    def enter(self, job_id: UUID, lease: int, deadline: float, process: int = 0) -> int:
        slot = self._free.pop()
        _SLOT.pack_into(self._memory, slot * _SIZE, job_id.bytes, lease, now(), deadline, process)
        self._memory[slot * _SIZE + _USED] = 1
        return slot

    def leave(self, slot: int) -> None:
        self._memory[slot * _SIZE + _USED] = 0
        self._free.append(slot)

    def name_process(self, slot: int, process: int, deadline: float) -> None:
        """The job in this slot begins now, in this process, which can be killed alone."""
        job, lease, started = _SLOT.unpack_from(self._memory, slot * _SIZE)[:3]
        _SLOT.pack_into(self._memory, slot * _SIZE, job, lease, started, deadline, process)

    def entries(self) -> list[Entry]:
        """The jobs that run, or ran when the worker died."""
        found = []
        for slot in range(1, self.slots + 1):
            if self._memory[slot * _SIZE + _USED]:
                raw, lease, started, deadline, process = _SLOT.unpack_from(self._memory, slot * _SIZE)
                found.append(Entry(UUID(bytes=raw), lease, started, deadline, process))
        return found

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)
