"""What log lines look like, for a worker that is the whole process, for its supervisor and for its child processes."""

import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from treadle.text.log import log
from treadle.worker.log_message import message_of, pairs

# Control characters except tabs and line ends, and those that reverse the direction of the text: names of types and
# messages of exceptions are not ours, and a terminal would obey them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class LogOptions(NamedTuple):
    level: str
    style: str


# What this process was set up with; None: the program has its own logging.
options: LogOptions | None = None


class TextFormatter(logging.Formatter):
    """12:30:01 WARNING job failed, will be retried job_type=mail attempt=1 …"""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        text, fields = message_of(record)
        name = "" if _is_ours(record) else f"{record.name}: "
        rest = pairs(fields | getattr(record, "job", {}))
        line = f"{moment} {record.levelname:7} {name}{text}{' ' if rest else ''}{rest}"
        return _escaped(f"{line}\n{trace}" if (trace := _traceback(record)) else line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        text, fields = message_of(record)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": getattr(record, "what", None) or text,
        }
        line = line | {**fields, **getattr(record, "event", {}), **getattr(record, "job", {})} | line
        if trace := _traceback(record):
            line["traceback"] = trace
        return json.dumps(line, default=str)


def set_up(level: str, style: str, job: Callable[[], dict[str, Any]] = dict) -> None:
    """For a process that `treadle` runs: lines to standard error. `job` returns the fields of the job that runs in the
    context of a line; empty, if there is none."""
    global options  # noqa: PLW0603 - as the handlers of the root logger, which this sets
    options = LogOptions(level, style)
    handler = logging.StreamHandler()
    handler.setLevel(level.upper())
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())

    def add_job(record: logging.LogRecord) -> bool:
        """What jobs log, and of everything else, which is the work of libraries, only warnings."""
        if not _is_ours(record):
            record.job = job()
        return _is_ours(record) or record.levelno >= logging.WARNING or bool(record.job)  # type: ignore[attr-defined]

    handler.addFilter(add_job)
    handler.addFilter(_redact)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # What handlers log is also kept with their jobs, from INFO on, whatever the level of the output.
    root.setLevel(min(logging.INFO, handler.level))
    log.handlers.clear()
    log.setLevel(level.upper())


def _escaped(line: str) -> str:
    return _CONTROL.sub(lambda each: each[0].encode("unicode_escape").decode(), line)


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == "treadle"


def _traceback(record: logging.LogRecord) -> str | None:
    """As _redact has formatted it; or, if that failed, as Python does."""
    if record.exc_text or not record.exc_info:
        return record.exc_text
    return logging.Formatter().formatException(record.exc_info)


def _redact(record: logging.LogRecord) -> bool:
    """Mask secrets in what Treadle and libraries log, and format the traceback."""
    # Imported with the first line: a supervisor has to start quickly.
    from treadle.text.log_redaction import RedactingFilter

    return RedactingFilter().filter(record)
