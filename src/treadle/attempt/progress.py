"""The progress of a job: percentage, stage, and counted items with their rate.

The handler may set it as often as it likes: that only changes memory. The worker reads and writes it every 0.25 s.
"""

import json
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from treadle.words.errors import InvalidArgument, shown
from treadle.words.naming import text_within
from treadle.words.snapshot import STAGE_LIMIT

Item = TypeVar("Item")

# The rate is measured over this time.
RATE_SECONDS = 10.0
# The largest integer that every JSON reader represents exactly.
COUNT_LIMIT = 2**53


class ProgressReport(NamedTuple):
    """The progress at one moment, as it is written."""

    percent: int
    stage: str | None
    pace: str | None  # JSON; see words/snapshot.py


class _Count:
    """The items that a tracked loop has done."""

    def __init__(self, done: int, total: int | None, span: "_Span") -> None:
        self.span = span
        self.done = done
        self.total = total
        self._samples: deque[tuple[float, int]] = deque([(time.monotonic(), done)])

    def pace(self) -> str:
        now, done = time.monotonic(), self.done
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] < now - RATE_SECONDS:
            self._samples.popleft()
        then, done_then = self._samples[0]
        rate = (done - done_then) / (now - then) if now > then else 0.0
        left = (self.total - done) / rate if self.total is not None and rate > 0 else None
        return json.dumps(
            {
                "done": done,
                "total": self.total,
                "rate": float(f"{rate:.4g}"),
                "left": None if left is None else round(max(0.0, left), 1),
            }
        )


class _Span:
    """The range of percentages that a stage covers. `used` is the fraction that its inner stages have used up."""

    def __init__(self, start: float, width: float, name: str | None) -> None:
        self.start = start
        self.width = width
        self.used = 0.0
        self.name = name


class ProgressTracker:
    def __init__(self, changed: Callable[[], None], check: Callable[[], None]) -> None:
        self._changed = changed
        self._check = check
        self._percent = 0.0
        self._stage: str | None = None
        self._spans = [_Span(0.0, 100.0, None)]
        self._counts: list[_Count] = []
        self._pace: str | None = None

    def set(self, percent: float | None, stage: str | None, back: bool) -> None:
        if percent is not None:
            if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
                raise InvalidArgument(f"progress must be a number from 0 to 100, got {shown(percent)}")
            self._move(percent / 100, back)
        if stage is not None:
            self._stage = self._full_name(text_within(stage, STAGE_LIMIT, "stage"))
        self._changed()

    @contextmanager
    def stage(self, name: str | None, weight: float | None) -> Iterator[None]:
        outer = self._spans[-1]
        start, width = outer.start, outer.width
        if self._counts and self._counts[-1].span is outer:
            # Inside a tracked loop, a stage is a part of one item.
            count = self._counts[-1]
            start += width * min(1.0, count.done / count.total) if count.total else 0.0
            width = width / count.total if count.total else 0.0
        share = 1.0 - outer.used if weight is None else _weight(weight)
        share = min(share, 1.0 - outer.used)
        span = _Span(start + width * outer.used, width * share, name)
        if name is not None:
            self._stage = self._full_name(text_within(name, STAGE_LIMIT, "stage"))
        self._spans.append(span)
        self._changed()
        try:
            yield
            # Only if the block ran to its end: otherwise the progress stays where it was.
            self._move(1.0, back=False)
        finally:
            # By value, not the last one: an abandoned generator may close an outer stage first.
            self._spans.remove(span)
            outer.used = min(1.0, outer.used + share)
            self._changed()

    def track(
        self, items: Iterable[Item], total: int | None, stage: str | None, weight: float | None, done: int
    ) -> Iterator[Item]:
        with self._counting(items, total, stage, weight, done) as count:
            for item in items:
                yield item
                count()

    async def atrack(
        self, items: AsyncIterable[Item], total: int | None, stage: str | None, weight: float | None, done: int
    ) -> AsyncIterator[Item]:
        with self._counting(items, total, stage, weight, done) as count:
            async for item in items:
                yield item
                count()

    def report(self) -> ProgressReport:
        if self._counts:
            count = self._counts[-1]
            self._pace = count.pace()
            if count.total:
                self._move(min(1.0, count.done / count.total), back=False, span=count.span)
        # Rounded down: 100 is shown only when everything is done.
        return ProgressReport(int(self._percent + 1e-9), self._stage, self._pace)

    @contextmanager
    def _counting(
        self, items: object, total: int | None, stage: str | None, weight: float | None, done: int
    ) -> Iterator[Callable[[], None]]:
        if total is None and hasattr(items, "__len__"):
            total = done + len(items)
        if total is not None and (
            isinstance(total, bool) or not isinstance(total, int) or not 0 <= total <= COUNT_LIMIT
        ):
            raise InvalidArgument(f"total must be a number of items, got {shown(total)}")
        if isinstance(done, bool) or not isinstance(done, int) or not 0 <= done <= COUNT_LIMIT:
            raise InvalidArgument(f"done must be a number of items, got {shown(done)}")
        with self.stage(stage, weight):
            span = self._spans[-1]
            count, changed, check = _Count(done, total, span), self._changed, self._check
            self._counts.append(count)

            def item_done() -> None:
                count.done += 1
                span.used = 0.0  # the stages of the next item have all of it
                changed()
                check()

            changed()
            try:
                yield item_done
            finally:
                self.report()
                # By value, not the last one: an abandoned loop may be closed after the next has begun.
                self._counts.remove(count)
                changed()

    def _move(self, part: float, back: bool, span: "_Span | None" = None) -> None:
        span = span or self._spans[-1]
        percent = span.start + span.width * part
        if percent > self._percent or back:
            self._percent = percent

    def _full_name(self, stage: str) -> str:
        """The names of the enclosing stages, outermost first, and its own."""
        names = [span.name for span in self._spans if span.name]
        return " / ".join([*names, stage])[-STAGE_LIMIT:]


def _weight(weight: float) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1:
        raise InvalidArgument(
            f"weight must be the stage's share of the job or stage around it, above 0 and up to 1, got {shown(weight)}"
        )
    return float(weight)
