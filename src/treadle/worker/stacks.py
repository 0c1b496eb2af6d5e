"""The stack of the thread that blocks an event loop, as text: taken inside the process, or dumped by faulthandler.

The frames of the program, of asyncio and of this package above the handler are left out. If the event loop's thread may
be waiting for the GIL, the stacks of the other threads that do something follow: one of them has it.
"""

import asyncio
import json
import re
import traceback
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from uuid import UUID

# The innermost frames say where it blocks, the outermost ones what was called.
FRAMES, OUTERMOST = 40, 10
CHARACTERS = 8000

_LIBRARY = Path(asyncio.__file__).parents[1]
_OURS = (
    str(Path(__file__).parents[1]),
    *(str(_LIBRARY / name) for name in ("asyncio", "threading.py", "concurrent")),
    "<",
)
# Where asyncio calls what it runs. Above that is the program.
_CALLBACKS = {("events.py", "_run"), ("runners.py", "run")}
# A thread whose innermost frame is in one of these only waits for something to do.
_IDLE = ("selectors.py", "threading.py", "thread.py", "queue.py", "watchdog.py")
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$', re.MULTILINE)


class Line(NamedTuple):
    """One frame."""

    file: str
    line: int
    function: str


class Found(NamedTuple):
    job: UUID | None = None
    job_type: str | None = None
    text: str | None = None
    is_own: bool = False
    """The process has written it itself, so that it would have said which job it was."""


def write(frames: Mapping[int, FrameType], thread: int, job: tuple[UUID, str] | None) -> str:
    """For read(): the stacks, and the id and the type of the job that the event loop was running."""
    found = {each: _lines(frame) for each, frame in frames.items()}
    head = {"job": str(job[0]), "job_type": job[1]} if job else {}
    return f"{json.dumps(head)}\n{_text(found, thread)}"


def read(raw: str, thread: int) -> Found:
    """What the process itself has written, or a dump of faulthandler. It lists the innermost frame first."""
    if raw.startswith("{"):
        head, _, text = raw.partition("\n")
        known = json.loads(head)
        return Found(UUID(known["job"]) if known else None, known.get("job_type"), text or None, True)
    from treadle.text.stuck import GIL_HELD  # imported when it is needed: a supervisor has to start quickly

    found = {}
    starts = list(_THREAD.finditer(raw))
    for nth, start in enumerate(starts):
        end = starts[nth + 1].start() if nth + 1 < len(starts) else len(raw)
        frames = _FRAME.findall(raw, start.end(), end)
        found[int(start[1], 16)] = [
            Line(file, int(line) if line.isdecimal() else 0, function) for file, line, function in reversed(frames)
        ]
    text = _text(found, thread, dumped=True)
    return Found(text=f"{GIL_HELD}\n{text}" if text else None)


def _text(stacks: Mapping[int, Sequence[Line]], thread: int, dumped: bool = False) -> str:
    from treadle.text.stuck import OTHER_THREAD

    own = stacks.get(thread, ())
    others: list[Sequence[Line]] = []
    if dumped or not own or _is_idle(own):
        others = [each for known, each in stacks.items() if known != thread and each and not _is_idle(each)]
    # Its frames can be read from a file only inside the process: the supervisor must not wait for a slow disk.
    parts = [f"{OTHER_THREAD}\n{_format(each, source=not dumped)}" for each in others]
    if own:
        title = "The thread of the event loop:\n" if others else ""
        parts.append(f"{title}{_format(own, source=not dumped)}")
    return "\n".join(parts)[:CHARACTERS]


def _format(stack: Sequence[Line], source: bool) -> str:
    calls = [nth for nth, each in enumerate(stack) if (Path(each.file).name, each.function) in _CALLBACKS]
    inside = stack[calls[-1] :] if calls else stack
    lines = list(dropwhile(lambda each: each.file.startswith(_OURS), inside)) or list(stack)
    left_out = max(0, len(lines) - FRAMES)
    parts = []
    for nth, each in enumerate(lines):
        if left_out and nth == OUTERMOST:
            parts.append(f"  … {left_out:,} frames left out …\n")
        if nth < OUTERMOST or nth >= OUTERMOST + left_out:
            parts += (
                traceback.StackSummary.from_list([traceback.FrameSummary(*each)]).format()
                if source
                else [f'  File "{each.file}", line {each.line}, in {each.function}\n']
            )
    return "".join(parts)


def _is_idle(stack: Sequence[Line]) -> bool:
    return stack[-1].file.endswith(_IDLE)


def _lines(frame: FrameType | None) -> list[Line]:
    found = []
    while frame is not None:
        found.append(Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]
