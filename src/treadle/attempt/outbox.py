"""What a handler told and logged, until somebody has written it.

Lines have numbers of their own: what was written without an answer is written again, and known by its number. So
nothing is taken out before it is known to be written.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from treadle.words.errors import InvalidArgument
from treadle.words.record import Logged, Told

Line = TypeVar("Line", Told, Logged)

# Of a job's log the first and the last lines are kept.
LOG_HEAD = 500
LOG_TAIL = 500
# Events that wait to be written. A handler that tells more than the database takes has to wait, or to fail.
EVENTS_WAITING = 10_000
WAIT_SECONDS = 30.0


class Outbox:
    """Of one attempt. Any thread may put in; one takes out."""

    def __init__(self, came: Callable[[], None]) -> None:
        self._came = came
        self._changed = threading.Condition()
        self.events: deque[Told] = deque()
        self._told = 0
        self.head: deque[Logged] = deque()
        self.tail: deque[Logged] = deque(maxlen=LOG_TAIL)
        self._logged = 0
        self._heard = 0  # the last line of the other process
        self._unfinished: list[str] = []  # a line that is being printed
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self.events or self.head or self.tail)

    def tell(self, at: float, name: str, data: str, may_wait: bool) -> None:
        with self._changed:
            if len(self.events) >= EVENTS_WAITING and not (may_wait and self._wait()):
                raise InvalidArgument(
                    f"{len(self.events):,} events of this job wait to be written: tell fewer, or let the event loop run"
                )
            self._told += 1
            self.events.append(Told(self._told, at, name, data))
        self._came()

    def log(self, at: float, level: int, logger: str, message: str) -> None:
        with self._changed:
            self._logged += 1
            line = Logged(self._logged, at, level, logger, message)
            (self.head if self._logged <= LOG_HEAD else self.tail).append(line)
        self._came()

    def unfinished(self, text: str) -> int:
        """More of a line that is being printed; says how long it is."""
        with self._changed:
            if text:
                self._unfinished.append(text)
                self._size += len(text)
            return self._size

    def finished(self, text: str) -> str:
        """The line that was being printed, with its end."""
        with self._changed:
            line = "".join([*self._unfinished, text])
            self._unfinished.clear()
            self._size = 0
            return line

    def hear(self, events: Iterable[Told], logs: Iterable[Logged]) -> None:
        """What was told in another process, and is counted anew: something may have been told here, too. Waits while
        too much is there."""
        with self._changed:
            while len(self.events) >= EVENTS_WAITING and self._wait():
                pass
            for event in events:
                self._told += 1
                self.events.append(event._replace(sequence=self._told))
            for line in logs:
                # Lines that were left out there count, too.
                self._logged += line.sequence - self._heard
                self._heard = line.sequence
                (self.head if self._logged <= LOG_HEAD else self.tail).append(line._replace(sequence=self._logged))
        self._came()

    def waiting_events(self, limit: int, size: int) -> list[Told]:
        """The first of them: so many, and so many characters, at most, but one at least."""
        with self._changed:
            return _first(itertools.islice(self.events, limit), size, lambda event: len(event.data))

    def waiting_logs(self, size: int) -> list[Logged]:
        with self._changed:
            return _first(itertools.chain(self.head, self.tail), size, lambda line: len(line.message))

    def last(self) -> tuple[int, int]:
        """The numbers of the last event and the last line so far."""
        with self._changed:
            return self._told, self._logged

    def is_behind(self, event: int, line: int) -> bool:
        """Whether something up to there is still waiting."""
        with self._changed:
            return any(
                bool(lines) and lines[0].sequence <= end
                for lines, end in ((self.events, event), (self.head, line), (self.tail, line))
            )

    def events_written(self, up_to: int) -> None:
        with self._changed:
            _drop(self.events, up_to)
            self._changed.notify_all()

    def logs_written(self, up_to: int) -> None:
        with self._changed:
            _drop(self.head, up_to)
            _drop(self.tail, up_to)

    def refuse(self) -> None:
        """The job is not held any more: nothing of it is taken."""
        with self._changed:
            for lines in (self.events, self.head, self.tail):
                lines.clear()
            self._changed.notify_all()

    def _wait(self) -> bool:
        """Whether there is room after all."""
        end = time.monotonic() + WAIT_SECONDS
        while len(self.events) >= EVENTS_WAITING and time.monotonic() < end:
            self._changed.wait(0.5)
        return len(self.events) < EVENTS_WAITING


def _first(lines: Iterable[Line], size: int, measure: Callable[[Line], int]) -> list[Line]:
    taken: list[Line] = []
    for line in lines:
        size -= measure(line)
        if taken and size < 0:
            break
        taken.append(line)
    return taken


def _drop(lines: "deque[Told] | deque[Logged]", up_to: int) -> None:
    while lines and lines[0].sequence <= up_to:
        lines.popleft()
