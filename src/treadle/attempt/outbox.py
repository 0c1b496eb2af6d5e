"""The events and log lines of an attempt that wait to be written.

Each has a sequence number. A write whose reply was lost is sent again, and the database recognizes what it already has
by that number. So nothing leaves the outbox before it is known to be written.
"""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from treadle.text.exceptions import clean_error
from treadle.words.clock import now
from treadle.words.errors import InvalidArgument
from treadle.words.interruption import uninterrupted
from treadle.words.naming import text_within
from treadle.words.payload import EVENT_LIMIT, Json, encode
from treadle.words.record import OutgoingEvent, OutgoingLogLine

Record = TypeVar("Record", OutgoingEvent, OutgoingLogLine)

# The first and the last lines of a job's log are kept; those in between are dropped.
LOG_HEAD = 500
LOG_TAIL = 500
LINE_LIMIT = 8 * 1024
LOGGER_LIMIT = 1000
LEVEL_LIMIT = 2**15 - 1  # of a smallint, the type of the column
# With this many unwritten events, a handler on a thread has to wait for the database, and one on the loop fails.
EVENTS_WAITING = 10_000
WAIT_SECONDS = 30.0


class Outbox:
    """Any thread may add records; one thread at a time writes them."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._changed = threading.Condition()
        self.events: deque[OutgoingEvent] = deque()
        self._events_added = 0
        self.log_head: deque[OutgoingLogLine] = deque()
        self.log_tail: deque[OutgoingLogLine] = deque(maxlen=LOG_TAIL)
        self._lines_added = 0
        self._lines_received = 0  # the sequence number of the last line that a child process sent
        self._printed: list[str] = []  # the parts of a printed line that has not ended yet
        self.unfinished_size = 0

    def __bool__(self) -> bool:
        return bool(self.events or self.log_head or self.log_tail)

    # Adding

    def add_event(self, name: str, data: Mapping[str, Json], may_wait: bool) -> None:
        name = text_within(name, 100, "event")
        text = encode(data, EVENT_LIMIT, name)
        at = now()
        with uninterrupted(), self._changed:
            if len(self.events) >= EVENTS_WAITING and not (may_wait and self._wait_for_room()):
                raise InvalidArgument(
                    f"{len(self.events):,} events of this job are waiting to be written: "
                    "publish fewer events, or let the event loop run"
                )
            self._events_added += 1
            self.events.append(OutgoingEvent(self._events_added, at, name, text))
        self._notify()

    def add_log_line(self, level: int, logger: str, message: str) -> None:
        with uninterrupted():
            self._add_log_line(level, logger, message)

    def _add_log_line(self, level: int, logger: str, message: str) -> None:
        level = max(-LEVEL_LIMIT, min(LEVEL_LIMIT, level))
        logger, message, at = clean_error(logger, LOGGER_LIMIT), clean_error(message, LINE_LIMIT), now()
        with self._changed:
            self._lines_added += 1
            self._append_line(OutgoingLogLine(self._lines_added, at, level, logger, message))
        self._notify()

    def add_printed(self, text: str) -> None:
        """Keep printed text line by line: print() writes a line and its line end separately."""
        *lines, rest = text.split("\n")
        for line in lines:
            self.add_log_line(logging.INFO, "print", self._take_printed(line))
        if self._keep_printed(rest) > LINE_LIMIT // 2:
            # Text without line ends, such as a progress bar, is kept in pieces that fit a log line.
            self.add_log_line(logging.INFO, "print", self._take_printed(""))

    def end_line(self) -> None:
        """Keep a last printed line that has no line end."""
        if self.unfinished_size:
            self.add_printed("\n")

    def receive(self, events: Iterable[OutgoingEvent], log_lines: Iterable[OutgoingLogLine]) -> None:
        """Add the records of a child process. They are numbered again, because a middleware may have added records in
        this process. Waits while too many events are waiting."""
        with self._changed:
            while len(self.events) >= EVENTS_WAITING and self._wait_for_room():
                pass
            for event in events:
                self._events_added += 1
                self.events.append(event._replace(sequence=self._events_added))
            for line in log_lines:
                # The child may have dropped lines: they count, too.
                self._lines_added += line.sequence - self._lines_received
                self._lines_received = line.sequence
                self._append_line(line._replace(sequence=self._lines_added))
        self._notify()

    # Writing

    def next_events(self, limit: int, size: int) -> list[OutgoingEvent]:
        """The first events: at most `limit` of them, with at most `size` characters of data, but at least one."""
        with self._changed:
            return _first(itertools.islice(self.events, limit), size, lambda event: len(event.data))

    def next_log_lines(self, size: int) -> list[OutgoingLogLine]:
        with self._changed:
            return _first(itertools.chain(self.log_head, self.log_tail), size, lambda line: len(line.message))

    def last(self) -> tuple[int, int]:
        """The sequence numbers of the last event and the last log line so far."""
        with self._changed:
            return self._events_added, self._lines_added

    def is_behind(self, event: int, line: int) -> bool:
        """Whether an event or a log line up to these sequence numbers is not yet written."""
        with self._changed:
            return any(
                bool(records) and records[0].sequence <= end
                for records, end in ((self.events, event), (self.log_head, line), (self.log_tail, line))
            )

    def events_written(self, up_to: int) -> None:
        with self._changed:
            _drop(self.events, up_to)
            self._changed.notify_all()

    def log_lines_written(self, up_to: int) -> None:
        with self._changed:
            _drop(self.log_head, up_to)
            _drop(self.log_tail, up_to)

    def discard(self) -> None:
        """Drop everything: the job is no longer claimed by this attempt, and the database refuses its records."""
        with self._changed:
            for records in (self.events, self.log_head, self.log_tail):
                records.clear()
            self._changed.notify_all()

    def _append_line(self, line: OutgoingLogLine) -> None:
        (self.log_head if self._lines_added <= LOG_HEAD else self.log_tail).append(line)

    def _keep_printed(self, text: str) -> int:
        """Keep the beginning of a line; returns how long the line is by now."""
        with self._changed:
            if text:
                self._printed.append(text)
                self.unfinished_size += len(text)
            return self.unfinished_size

    def _take_printed(self, text: str) -> str:
        """The printed line, with its last part."""
        with self._changed:
            line = "".join([*self._printed, text])
            self._printed.clear()
            self.unfinished_size = 0
            return line

    def _wait_for_room(self) -> bool:
        end = time.monotonic() + WAIT_SECONDS
        while len(self.events) >= EVENTS_WAITING and time.monotonic() < end:
            self._changed.wait(0.5)
        return len(self.events) < EVENTS_WAITING


def _first(records: Iterable[Record], size: int, measure: Callable[[Record], int]) -> list[Record]:
    taken: list[Record] = []
    for record in records:
        size -= measure(record)
        if taken and size < 0:
            break
        taken.append(record)
    return taken


def _drop(records: "deque[OutgoingEvent] | deque[OutgoingLogLine]", up_to: int) -> None:
    while records and records[0].sequence <= up_to:
        records.popleft()
