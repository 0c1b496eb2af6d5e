"""Which jobs a worker is running, and until when they may run, in shared memory that survives the worker's process.

The worker notes each job that begins, and keeps the note until the outcome of the job is stored: a handler may end its
process after it has returned. The process that supervises it reads which jobs these were when the worker died, and
which ones are past their deadline. In return it notes when the lease was last renewed, and the worker stops its
handlers if that was too long ago. Neither waits for the other: a blocked event loop cannot make a live job look dead.
A job costs one write of 64 bytes.

The worker's event loop also notes that it runs (pulse.py), and at the end there is room for the stack of a thread that
blocks it.
"""

import mmap
import os
import struct
import tempfile
import threading
from enum import IntEnum, auto
from typing import NamedTuple
from uuid import UUID

from treadle.words.clock import now
from treadle.words.refusal import SECONDS as REFUSAL_SECONDS
from treadle.words.refusal import Refusal

_HEADER = struct.Struct("<d")  # when the lease was last renewed
_HIGHEST = struct.Struct("<i")  # the highest slot that was ever used, behind it
_ASLEEP = struct.Struct("<?")  # whether the lease need not be renewed
_ASLEEP_AT = 12
_ABANDONED_AT = 13
_PULSE = struct.Struct("<d")  # when the event loop last ran; 0: it is not watched
_PULSE_AT = 16
_LOOP = struct.Struct("<Qiii")  # of the event loop: its thread, as Python and as the system name it; process; signal
_LOOP_AT = 24
_ENDING = struct.Struct("<i")  # the exit code with which the worker ends by itself
_ENDING_AT = 44
_REFUSAL = struct.Struct("<dB")  # when the server last refused a write, and why
_REFUSAL_AT = 48
_SLOT = struct.Struct("<16sqddi")  # job, lease number, started, deadline, process
_STATE_AT = 63
_SLOTS = struct.Struct("<16sqddi19xB")  # with the state

_SIZE = 64
# So many jobs that have ended keep their slots until their outcomes are stored.
MOST_ENDED = 10_000
STACK_BYTES = 64 * 1024


class State(IntEnum):
    FREE = 0
    RUNNING = auto()
    ENDED = auto()
    """Its outcome is not stored yet."""
    STARTING = auto()
    """It waits until its child process has started. It has not begun."""


class Entry(NamedTuple):
    id: UUID
    lease: int
    started: float
    deadline: float  # 0: none
    process: int  # 0: in the worker itself; otherwise the child process, which can be killed on its own
    state: State


class EventLoop(NamedTuple):
    """Where the worker's event loop runs."""

    thread: int = 0
    """As threading.get_ident()."""
    native_thread: int = 0
    process: int = 0
    dump_signal: int = 0
    """Lets the process write the stacks of its threads, even if a thread does not release the GIL. 0: there is none."""


class JobSlots:
    """A header and slots of 64 bytes in an unlinked file. There are more slots than a worker uses, unless an operator
    raises its concurrency: those that were never used take no memory, and no time to read."""

    def __init__(self, descriptor: int, count: int) -> None:
        self.descriptor = descriptor
        self.count = count
        self._stack_at = _SIZE * (count + 1)
        self._memory = mmap.mmap(descriptor, self._stack_at + STACK_BYTES)
        self._free = list(range(count, 0, -1))
        self._highest = 0
        self._raising = threading.Lock()

    @classmethod
    def create(cls, count: int) -> "JobSlots":
        with tempfile.TemporaryFile() as file:
            file.truncate(_SIZE * (count + 1) + STACK_BYTES)
            return cls(os.dup(file.fileno()), count)

    # The lease

    @property
    def renewed_at(self) -> float:
        value: float = _HEADER.unpack_from(self._memory, 0)[0]
        return value

    @renewed_at.setter
    def renewed_at(self, moment: float) -> None:
        _HEADER.pack_into(self._memory, 0, moment)

    @property
    def asleep(self) -> bool:
        """Whether the worker sleeps (sleeper.py): it has no jobs, and renews its lease itself before it claims."""
        value: bool = _ASLEEP.unpack_from(self._memory, _ASLEEP_AT)[0]
        return value

    @asleep.setter
    def asleep(self, value: bool) -> None:
        _ASLEEP.pack_into(self._memory, _ASLEEP_AT, value)

    @property
    def abandoned(self) -> bool:
        """A part of the worker hangs: its lease is not renewed, so that others get its jobs."""
        return self._memory[_ABANDONED_AT] != 0

    @abandoned.setter
    def abandoned(self, value: bool) -> None:
        self._memory[_ABANDONED_AT] = value

    @property
    def ending(self) -> int:
        """The exit code with which the worker ends by itself. 0: it does not, but a handler may end it with any."""
        value: int = _ENDING.unpack_from(self._memory, _ENDING_AT)[0]
        return value

    @ending.setter
    def ending(self, code: int) -> None:
        _ENDING.pack_into(self._memory, _ENDING_AT, code)

    @property
    def refusal(self) -> Refusal | None:
        """Why the server refuses what the worker writes now."""
        moment, number = _REFUSAL.unpack_from(self._memory, _REFUSAL_AT)
        return list(Refusal)[number] if now() - moment <= REFUSAL_SECONDS else None

    def was_refused(self, refusal: Refusal) -> None:
        _REFUSAL.pack_into(self._memory, _REFUSAL_AT, now(), list(Refusal).index(refusal))

    # The event loop. The worker writes where it runs and when; both sides write and clear the stack.

    @property
    def pulse(self) -> float:
        value: float = _PULSE.unpack_from(self._memory, _PULSE_AT)[0]
        return value

    @pulse.setter
    def pulse(self, moment: float) -> None:
        _PULSE.pack_into(self._memory, _PULSE_AT, moment)

    @property
    def event_loop(self) -> EventLoop:
        return EventLoop._make(_LOOP.unpack_from(self._memory, _LOOP_AT))

    @event_loop.setter
    def event_loop(self, where: EventLoop) -> None:
        _LOOP.pack_into(self._memory, _LOOP_AT, *where)

    @property
    def has_stack(self) -> bool:
        return self._memory[self._stack_at] != 0

    @property
    def stack(self) -> str:
        """The stacks that were written last; empty: there is none."""
        if not self.has_stack:
            return ""
        raw = self._memory[self._stack_at : self._stack_at + STACK_BYTES]
        return raw.partition(b"\0")[0].decode(errors="replace")

    @stack.setter
    def stack(self, text: str) -> None:
        raw = text.encode(errors="replace")[: STACK_BYTES - 1]
        self._memory[self._stack_at] = 0
        if raw:
            # The first byte last: the other process must not read a part of it.
            self._memory[self._stack_at + 1 : self._stack_at + len(raw) + 1] = raw[1:] + b"\0"
            self._memory[self._stack_at] = raw[0]

    def prepare_dump(self) -> None:
        """Make room for a dump: faulthandler writes to the descriptor, which nothing else does."""
        self._memory[self._stack_at : self._stack_at + STACK_BYTES] = bytes(STACK_BYTES)
        os.ftruncate(self.descriptor, self._stack_at + STACK_BYTES)
        os.lseek(self.descriptor, self._stack_at, os.SEEK_SET)

    # The jobs. Only the worker writes them; any thread of it may add one. A slot is marked as used after it is filled,
    # and as free before reuse.

    def add(self, job_id: UUID, lease: int, deadline: float, process: int = 0, state: State = State.RUNNING) -> int:
        """Note a job that begins, or waits for a child process; returns its slot."""
        slot = self._free.pop()
        if slot > self._highest:
            self._raise_highest(slot)
        _SLOT.pack_into(self._memory, slot * _SIZE, job_id.bytes, lease, now(), deadline, process)
        self._memory[slot * _SIZE + _STATE_AT] = state
        return slot

    def end(self, slot: int) -> None:
        """The job in this slot has ended, and its outcome is not stored yet."""
        self._memory[slot * _SIZE + _STATE_AT] = State.ENDED

    def remove(self, slot: int) -> None:
        self._memory[slot * _SIZE + _STATE_AT] = State.FREE
        self._free.append(slot)

    def remove_deadline(self, slot: int) -> None:
        """The job in this slot may run on."""
        job, lease, started, _, process = _SLOT.unpack_from(self._memory, slot * _SIZE)
        _SLOT.pack_into(self._memory, slot * _SIZE, job, lease, started, 0.0, process)

    def entries(self) -> list[Entry]:
        """The jobs that are running, or were running when the worker died."""
        return [each for each in self.all_entries() if each.state is State.RUNNING]

    def blamed(self) -> list[UUID]:
        """The jobs that may have ended the process of the worker: they were running in it, or their outcomes were not
        stored yet. What ran in a child process has not."""
        return [
            each.id
            for each in self.all_entries()
            if (each.state is State.RUNNING and not each.process) or each.state is State.ENDED
        ]

    def all_entries(self) -> list[Entry]:
        found = []
        highest = _HIGHEST.unpack_from(self._memory, _HEADER.size)[0]
        # Read at once: of thousands of slots few are used.
        for slot, state in enumerate(self._memory[_SIZE + _STATE_AT : (highest + 1) * _SIZE : _SIZE], 1):
            if state:
                raw, lease, started, deadline, process = _SLOT.unpack_from(self._memory, slot * _SIZE)
                found.append(Entry(UUID(bytes=raw), lease, started, deadline, process, State(state)))
        return found

    @property
    def begun_at(self) -> float:
        """When the last job began, or began to wait for a child process."""
        highest = _HIGHEST.unpack_from(self._memory, _HEADER.size)[0]
        slots = self._memory[_SIZE : (highest + 1) * _SIZE]
        return max((started for _, _, started, *_ in _SLOTS.iter_unpack(slots)), default=0.0)

    def _raise_highest(self, slot: int) -> None:
        with self._raising:  # another thread may have taken a higher one
            self._highest = max(slot, self._highest)
            _HIGHEST.pack_into(self._memory, _HEADER.size, self._highest)

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)
