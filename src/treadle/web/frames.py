"""Server-sent events as bytes: https://html.spec.whatwg.org/multipage/server-sent-events.html

A frame is lines of `field: value`, ended by an empty line. JSON has no line breaks of its own; names are not ours, and
whoever writes to the table with SQL can put anything into one.
"""

import re
from typing import Any

from pydantic_core import to_json

from treadle.db.queries.snapshots import JobState
from treadle.words.payload import decode
from treadle.words.record import RecordedEvent

_BREAKS = re.compile(r"[\r\n\0]+")

# Also makes the browser come back after two seconds, should the connection break.
BEGINNING = b"retry: 2000\n\n"
KEEP_ALIVE = b": still here\n\n"


def frame(name: str, data: dict[str, Any], cursor: str | None = None) -> bytes:
    """With a cursor, a browser that comes back says it in Last-Event-ID."""
    head = f"id: {cursor}\n" if cursor is not None else ""
    return f"{head}event: {_BREAKS.sub(' ', name)}\ndata: {to_json(data).decode()}\n\n".encode()


def event_frame(event: RecordedEvent, *, with_job: bool = False) -> bytes:
    job = {"job_id": event.job_id, "job_type": event.job_type} if with_job else {}
    data = {**job, "number": event.number, "at": event.at, "attempt": event.attempt, "data": event.data}
    return frame(event.name, data, event.cursor)


def progress_frame(look: JobState) -> bytes:
    pace = decode(look.pace) if look.pace else dict.fromkeys(("done", "total", "rate", "left"))
    return frame("progress", {"status": look.status, "percent": look.progress, "stage": look.stage, **pace})


def end_frame(status: str | None) -> bytes:
    return frame("end", {"status": status})
