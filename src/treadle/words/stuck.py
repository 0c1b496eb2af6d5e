"""A worker whose event loop does not run, in words: the same on pages, at the command line and in the log."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from treadle.words.formatting import printable, span

# A worker is stuck when its event loop has not run for this long, although its lease is renewed.
STUCK_SECONDS = 3.0
_FRAME = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)


class Stuck(NamedTuple):
    since: datetime
    """When its event loop last ran."""
    kind: str
    """`stopped`: its process was stopped, by a signal or a debugger; `blocked`: something blocks its event loop."""
    job_id: UUID | None
    """The job that blocks it, if it is known."""
    job_type: str | None
    stack: str | None
    """Where it is blocked, if it is known."""

    @classmethod
    def read(cls, columns: Sequence[Any]) -> "Stuck | None":
        """From stuck_since, stuck_kind, stuck_job, stuck_job_type and stuck_stack of treadle.workers."""
        since, kind, *rest = columns
        return None if since is None else cls(since, kind or "blocked", *rest)


def describe_stuck(stuck: Stuck, at: datetime) -> str:
    """What is the matter, for how long and, if it is known, because of which job and where."""
    seconds = span(max(0.0, (at - stuck.since).total_seconds()))
    if stuck.kind == "stopped":
        return f"its process was stopped {seconds} ago, by a signal or a debugger"
    by = ""
    if stuck.job_id is not None:
        by = f" by job {stuck.job_id}" + (f" ({printable(stuck.job_type)})" if stuck.job_type else "")
    return f"its event loop has been blocked for {seconds}{by}{where_blocked(stuck.stack)}"


def where_blocked(stack: str | None) -> str:
    """The innermost frame of the first stack."""
    frames = _FRAME.findall((stack or "").partition("\n\n")[0])
    if not frames:
        return ""
    file, line, function = frames[-1]
    return f", at {printable(file)[-200:]} line {line} in {printable(function)[:100]}"


def unblock(stuck: Stuck, host: str | None, pid: int | None) -> str:
    """What to do about it."""
    on = f" on {printable(host)}" if host else ""
    process = str(pid) if pid else "PID"
    replace = f"To replace the process{on}: kill -9 {process}; its jobs run again"
    if stuck.kind == "stopped":
        return f"To let it continue{on}: kill -CONT {process}. {replace}"
    return (
        "It goes on when the handler lets the event loop run. An async handler must not block: declare it with def, so "
        "that it runs in a thread, or with process=True; with @app.job(deadline=…), the supervisor replaces a process "
        f"that blocks for longer. {replace}"
    )
