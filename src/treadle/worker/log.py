"""The log lines of a worker, made from events. Payloads are left out."""

import json
import logging
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from treadle.app.listeners import Listeners
from treadle.words import events

log = logging.getLogger("treadle")

LINES: dict[type[events.Event], tuple[int, str]] = {
    events.JobClaimed: (logging.DEBUG, "job claimed"),
    events.JobStarted: (logging.DEBUG, "job started"),
    events.JobCompleted: (logging.DEBUG, "job completed"),
    events.JobReleased: (logging.DEBUG, "job released"),
    events.JobCancelled: (logging.INFO, "job cancelled"),
    events.JobRetried: (logging.WARNING, "job failed, will be tried again"),
    events.JobFailed: (logging.ERROR, "job failed"),
    events.JobRecovered: (logging.WARNING, "job recovered from a lost worker"),
    events.LeaseWasLost: (logging.WARNING, "lease lost: the outcome of the job was not written"),
    events.WorkerStarted: (logging.INFO, "worker started"),
    events.WorkerStopped: (logging.INFO, "worker stopped"),
    events.WorkerFenced: (logging.ERROR, "lease not renewed: handlers were stopped"),
    events.DatabaseLost: (logging.ERROR, "database unavailable, trying again"),
    events.DatabaseBack: (logging.WARNING, "database is back"),
}


_users: WeakKeyDictionary[Listeners, int] = WeakKeyDictionary()


def log_events(listeners: Listeners) -> None:
    """Write a line for each event whose level is enabled now. Events without a listener are not created."""
    _users[listeners] = _users.get(listeners, 0) + 1
    if _users[listeners] > 1:  # another worker of this application
        return
    for kind, (level, _) in LINES.items():
        if log.isEnabledFor(level):
            listeners.add(kind, write)


def forget_events(listeners: Listeners) -> None:
    _users[listeners] -= 1
    if _users[listeners]:
        return
    for kind in LINES:
        listeners.remove(kind, write)


def write(event: events.Event) -> None:
    level, text = LINES[type(event)]
    found = facts(event)
    pairs = " ".join(f"{key}={_shown(value)}" for key, value in found.items() if value not in (None, ""))
    log.log(level, "%s %s", text, pairs, extra={"what": text, "event": found})


def facts(event: events.Event) -> dict[str, Any]:
    """An event without the payload."""
    return {each.name: getattr(event, each.name) for each in fields(event) if each.name != "data"}


class TextFormatter(logging.Formatter):
    """12:30:01 WARNING job failed, will be tried again job_type=mail attempt=1 …"""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        line = f"{moment} {record.levelname:7} {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "message": getattr(record, "what", None) or record.getMessage(),
            **getattr(record, "event", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(level: str, style: str) -> None:
    """For a worker that is the whole process: lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    handler.addFilter(lambda record: record.name == "treadle" or record.levelno >= logging.WARNING)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # What handlers log from here on is kept with their jobs; only the rest is for the terminal.
    root.setLevel(logging.INFO)
    log.handlers.clear()
    log.setLevel(level.upper())


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    text = str(value)
    return json.dumps(text) if " " in text or "\n" in text else text
