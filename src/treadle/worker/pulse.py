"""Notices that the event loop of a worker does not run, because its process is stopped or a handler blocks it; and that
a child process of it is stopped.

The event loop notes the time in the worker's job slots, twice a second (watchdog.py), and the process that renews the
lease looks at it. A worker that is stuck keeps its lease and its jobs: this is for people, and ends by itself when the
event loop runs again.

Time in which nobody could tell does not count: if the process that compares was itself late (the machine was suspended
or overloaded, or a debugger held it), or the thread of the event loop was ready to run but did not get a processor.
"""

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from treadle.worker import stacks
from treadle.worker.job_slots import EventLoop, JobSlots, State

CHECK_SECONDS = 0.2
# While all workers sleep (sleeper.py). What is watched then may be noticed some seconds later.
ASLEEP_CHECK_SECONDS = 1.0
# How often child processes are looked at, and for how long one has to be seen stopped.
CHILDREN_SECONDS, STOPPED_SECONDS = 1.0, 3.0
# A child process that has been starting for so long starts slowly: there may be many slow imports.
STARTING_SECONDS = 10.0
# Without a pulse for this long, a worker is stuck.
STUCK_SECONDS = 2.0
# A silence that is shorter than this is usual: there are two pulses a second.
USUAL_SECONDS = 0.7
# Half a second before a worker is said to be stuck, its stacks are dumped, if it has not written one (watchdog.py).
DUMP_SECONDS = STUCK_SECONDS - 0.5
# The event loop has got no processor if it has waited for one for at least this part of the time, and has run for less
# than so many seconds. That is enough for a pulse.
WAITED, RAN_SECONDS = 0.5, 0.25


class Kind(StrEnum):
    STOPPED = "stopped"
    """By a signal (SIGSTOP), or by a debugger."""
    BLOCKED = "blocked"
    UNBEGUN = "unbegun"
    """It has claimed a job that it does not begin (unbegun.py)."""


class Stuck(NamedTuple):
    kind: Kind
    since: float
    """By now()."""
    job: UUID | None = None
    """The job that blocks the event loop, if it is known; or the one that does not begin."""
    job_type: str | None = None
    stack: str | None = None


class StoppedChild(NamedTuple):
    """A child process that was stopped, or that has been starting for long."""

    process: int
    job: UUID
    since: float
    """By now()."""
    starting: bool = False


class Scheduling(NamedTuple):
    """Of a thread, in seconds."""

    ran: float
    waited: float
    """It was ready to run, but had no processor."""


class Silence:
    """For how long a value has not changed, without the time in which nobody looked at it."""

    def __init__(self, longest: float) -> None:
        """More than `longest` seconds between two looks do not count."""
        self._longest = longest
        self._value = 0.0
        self._looked = 0.0
        self.seconds = 0.0

    def look(self, value: float, moment: float) -> float:
        passed, self._looked = moment - self._looked, moment
        if value != self._value:
            self._value, self.seconds = value, 0.0
        else:
            self.seconds += min(passed, self._longest)
        return self.seconds


class PulseWatch:
    """Watches one worker from another process."""

    def __init__(self, slots: JobSlots) -> None:
        self._slots = slots
        self._silence = Silence(2 * CHECK_SECONDS)
        self._before: Scheduling | None = None
        self._dumped = False
        self._continued: float | None = None
        self._had_stack = False
        self.stuck: Stuck | None = None

    def check(self, moment: float) -> bool:
        """Look at the pulse. Returns whether `stuck` has changed."""
        before, pulse = self.stuck, self._slots.pulse
        seconds = self._silence.look(pulse, moment) if pulse else 0.0
        if seconds == 0 and self._slots.has_stack:  # of a silence that has ended
            self._slots.stack = ""
        if seconds < USUAL_SECONDS:
            self.stuck, self._before, self._dumped, self._continued = None, None, False, None
            return before is not None
        where = self._slots.event_loop
        if self.stuck is None and self._is_starved(where, seconds):
            return False
        if seconds >= DUMP_SECONDS and not self._dumped:
            self._dumped = True
            self._dump(where)
        if seconds >= STUCK_SECONDS:
            self._look_closer(where, pulse, moment)
        self._had_stack = self._slots.has_stack
        return self.stuck != before

    def _look_closer(self, where: EventLoop, pulse: float, moment: float) -> None:
        stopped = is_stopped(where.process)
        if self.stuck is None:
            self.stuck = Stuck(Kind.STOPPED, pulse) if stopped else self._blocked(pulse)
        elif stopped:
            self.stuck, self._continued = self.stuck._replace(kind=Kind.STOPPED), None
        elif self.stuck.kind is Kind.STOPPED:
            # A process that was continued gets some time to give a sign.
            self._continued = self._continued or moment
            if moment - self._continued > DUMP_SECONDS:
                self._dump(where)
            if moment - self._continued > STUCK_SECONDS:
                self.stuck = self._blocked(pulse)
        elif self.stuck.stack is None and self._had_stack:
            # It came late: the machine is overloaded. By now it is complete.
            self.stuck = self._blocked(pulse)

    def _is_starved(self, where: EventLoop, seconds: float) -> bool:
        """Whether the event loop does not run because its thread gets no processor."""
        current = scheduling(where)
        if self._before is None:
            self._before = current
            return False
        if current is None or seconds < DUMP_SECONDS:
            return False
        waited, ran = current.waited - self._before.waited, current.ran - self._before.ran
        return waited >= WAITED * (seconds - USUAL_SECONDS) and ran < RAN_SECONDS

    def _dump(self, where: EventLoop) -> None:
        """Let the process write its stacks, if it has not done so itself: a thread does not release the GIL."""
        if self._slots.has_stack or not where.dump_signal or is_stopped(where.process):
            return
        self._slots.prepare_dump()
        try:
            os.kill(where.process, where.dump_signal)
        except ProcessLookupError:
            return

    def _blocked(self, pulse: float) -> Stuck:
        found = stacks.read(self._slots.stack, self._slots.event_loop.thread)
        job = found.job
        if job is None and not found.is_own:
            inside = [each.id for each in self._slots.entries() if not each.process]
            job = inside[0] if len(inside) == 1 else None
        return Stuck(Kind.BLOCKED, pulse, job, found.job_type, found.text)


class ChildWatch:
    """Watches the child processes of one worker, from another process: which of them were stopped, or start slowly.

    Once a job has begun, nothing else is a sure sign. A handler in a child process may compute, wait or hold the GIL
    for as long as it likes: that is what child processes are for (docs/decisions/0049-stopped-children.md)."""

    def __init__(self, slots: JobSlots) -> None:
        self._slots = slots
        self._checked = 0.0
        self._seconds: dict[StoppedChild, float] = {}
        """For how long each one was seen stopped, without the time in which nobody looked."""
        self.stopped: tuple[StoppedChild, ...] = ()

    def check(self, moment: float) -> bool:
        """Look at the children, once a second. Returns whether `stopped` has changed."""
        passed = moment - self._checked
        if 0 <= passed < CHILDREN_SECONDS:
            return False
        self._checked = moment
        known = {(each.process, each.job): each for each in self._seconds}
        seconds = {}
        entries = self._slots.all_entries()
        for entry in entries:
            if entry.state is State.RUNNING and entry.process > 0 and is_stopped(entry.process):
                child = known.get((entry.process, entry.id))
                if child is None:
                    seconds[StoppedChild(entry.process, entry.id, moment)] = 0.0
                else:
                    seconds[child] = self._seconds[child] + max(0.0, min(passed, 2 * CHILDREN_SECONDS))
        self._seconds = seconds
        before, self.stopped = (
            self.stopped,
            (
                *(child for child, stopped in seconds.items() if stopped >= STOPPED_SECONDS),
                *(
                    StoppedChild(0, entry.id, entry.started, starting=True)
                    for entry in entries
                    if entry.state is State.STARTING and moment - entry.started >= STARTING_SECONDS
                ),
            ),
        )
        return self.stopped != before


def is_stopped(process: int) -> bool:
    """By a signal or a debugger. False if the system does not say."""
    if sys.platform == "linux":
        try:
            # After its name, which may contain anything.
            return Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"T", b"t")
        except OSError:
            return False
    import psutil  # imported when it is needed: a supervisor has to start quickly

    try:
        return psutil.Process(process).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False


def scheduling(where: EventLoop) -> Scheduling | None:
    """How long the event loop's thread has run and waited, in total. None: the system does not say."""
    try:
        text = Path(f"/proc/{where.process}/task/{where.native_thread}/schedstat").read_text()
        ran, waited = text.split()[:2]
        return Scheduling(int(ran) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return None


def prepare_dumps(slots: JobSlots) -> None:
    """In a worker process: when the supervisor sends a signal, write the stacks of all threads. It works while a thread
    holds the GIL, because Python code is not involved."""
    import faulthandler

    if (first := getattr(signal, "SIGRTMIN", None)) is None:  # not on macOS; others may be in use
        return
    number = first + 5
    faulthandler.register(number, file=slots.descriptor, all_threads=True, chain=False)
    slots.event_loop = slots.event_loop._replace(dump_signal=number)
