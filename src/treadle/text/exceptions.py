"""Exceptions as text that can be stored: their message, and their traceback, in bounded time and size.

Python formats everything: every frame of every exception in the chain, about 0.1 ms each. A handler that fails 50,000
calls deep, or with thousands of exceptions in a group, would block the event loop for seconds.
"""

import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from treadle.text.masking import redacted

_PACKAGE = str(Path(__file__).parents[1])
ERROR_LIMIT = 16 * 1024
# Up to these limits, the text is Python's own.
FRAMES = 100
EXCEPTIONS = 20
# Beyond them: the first frames of each exception say what was called, the last ones where it failed.
FIRST = 10
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def clean_error(error: object, limit: int = ERROR_LIMIT) -> str:
    """A text that can always be stored, with secrets masked: recording a failure must never itself fail."""
    try:
        text = str(error)
        if isinstance(error, BaseException):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    except Exception:  # an exception whose __str__ raises still has a class
        text = f"{type(error).__name__} (its message could not be read)"
    # Masked before it is shortened, because half a secret would not be recognised. But a message of 100 MB must not be
    # read as a whole, so that it is first shortened to twice the limit.
    size = len(text)
    begin, end = (text, "") if size <= 2 * limit else (text[:limit], text[-limit:])
    begin, end = _storable(begin), _storable(end)
    if size <= 2 * limit and len(begin) <= limit:
        return begin
    half = limit // 2
    left_out = max(size, len(begin)) - 2 * half
    return f"{begin[:half]}\n… {left_out:,} characters left out …\n{(end or begin)[-half:]}"


def _storable(text: str) -> str:
    return redacted(text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00"))


class _Link(NamedTuple):
    """An exception of the chain, and the text between it and the one that is printed after it."""

    error: BaseException
    text: str


def without_our_frames(error: BaseException) -> BaseException:
    """The error with a traceback that starts in the handler."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return error.with_traceback(trace)


def format_traceback(error: BaseException) -> str:
    """The traceback with causes, contexts, notes and groups. What is left out of a very large one is counted."""
    if _is_small(error):
        try:
            return "".join(traceback.format_exception(error))
        except Exception:  # an exception whose attributes raise, such as notes that are not a list
            return _name(error)
    chain = list(islice(_chain(error), EXCEPTIONS + 1))
    parts = ["… more exceptions left out …\n\n"] if len(chain) > EXCEPTIONS else []
    frames = max(FRAMES // min(len(chain), EXCEPTIONS), 5)
    for link in reversed(chain[:EXCEPTIONS]):
        parts += (_format(link.error, frames), link.text)
    return "".join(parts)


def _is_small(error: BaseException) -> bool:
    """Whether the whole tree of exceptions is within the limits; stops looking as soon as it is not."""
    waiting, seen, frames = [error], {id(error)}, 0
    while waiting:
        each = waiting.pop()
        frames += _count(each.__traceback__, FRAMES - frames + 1)
        inside = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for other in (each.__cause__, each.__context__, *inside[:EXCEPTIONS]):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
        if frames > FRAMES or len(seen) > EXCEPTIONS or len(inside) > EXCEPTIONS:
            return False
    return True


def _count(trace: TracebackType | None, limit: int) -> int:
    found = 0
    while trace is not None and found < limit:
        trace, found = trace.tb_next, found + 1
    return found


def _chain(error: BaseException) -> Iterator[_Link]:
    """The exception and what caused it, the latest first, as Python would print it from the last to the first."""
    text, seen = "", set[int]()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield _Link(current, text)
        if current.__cause__ is not None:
            current, text = current.__cause__, _CAUSE
        elif not current.__suppress_context__:
            current, text = current.__context__, _CONTEXT
        else:
            return


def _format(error: BaseException, frames: int) -> str:
    traces: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        traces.append(trace)
        trace = trace.tb_next
    first = min(FIRST, frames // 4)
    left_out = len(traces) - frames
    parts = ["Traceback (most recent call last):\n"] if traces else []
    for nth, each in enumerate(traces):
        if left_out > 0 and first <= nth < first + left_out:
            if nth == first:
                parts.append(f"  … {left_out:,} frames left out …\n")
            continue
        code = each.tb_frame.f_code
        summary = traceback.FrameSummary(code.co_filename, each.tb_lineno, code.co_name)
        parts += traceback.StackSummary.from_list([summary]).format()
    parts.append(_name(error))
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        parts += (f"{note}\n" for note in notes[:EXCEPTIONS] if isinstance(note, str))
    if isinstance(error, BaseExceptionGroup):
        parts += (f"  | {_name(each)}" for each in error.exceptions[:EXCEPTIONS])
        if len(error.exceptions) > EXCEPTIONS:
            parts.append(f"  | … {len(error.exceptions) - EXCEPTIONS:,} exceptions left out …\n")
    return "".join(parts)


def _name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    try:
        text = str(error)
    except Exception:  # an exception whose __str__ raises still has a class
        text = "(its message could not be read)"
    return f"{name}: {text}\n" if text else f"{name}\n"
