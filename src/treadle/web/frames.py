"""Encodes server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html

A frame consists of lines `field: value` and ends with an empty line. JSON contains no line breaks. Event names may,
because they can be written to the table with SQL.
"""

import re
from typing import Any

from pydantic_core import to_json

from treadle.db.queries.snapshots import JobState
from treadle.words.payload import decode
from treadle.words.record import RecordedEvent

_LINE_BREAKS = re.compile(r"[\r\n\0]+")

# Tells the browser to reconnect 2 seconds after the connection is lost.
PREAMBLE = b"retry: 2000\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


def frame(name: str, data: dict[str, Any], cursor: str | None = None) -> bytes:
    """A browser that reconnects sends the last cursor that it received in the header Last-Event-ID."""
    head = f"id: {cursor}\n" if cursor is not None else ""
    return f"{head}event: {_LINE_BREAKS.sub(' ', name)}\ndata: {to_json(data).decode()}\n\n".encode()


def event_frame(event: RecordedEvent, *, with_job: bool = False) -> bytes:
    job = {"job_id": event.job_id, "job_type": event.job_type} if with_job else {}
    data = {**job, "number": event.number, "at": event.at, "attempt": event.attempt, "data": event.data}
    return frame(event.name, data, event.cursor)


def progress_frame(job: JobState) -> bytes:
    pace = decode(job.pace) if job.pace else dict.fromkeys(("done", "total", "rate", "left"))
    return frame("progress", {"status": job.status, "percent": job.progress, "stage": job.stage, **pace})


def end_frame(status: str | None) -> bytes:
    return frame("end", {"status": status})
