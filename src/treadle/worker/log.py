"""The log lines of a worker, made from events. Payloads are left out."""

import json
import logging
from dataclasses import fields
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
    events.JobRetried: (logging.WARNING, "job failed, will be retried"),
    events.JobFailed: (logging.ERROR, "job failed"),
    events.JobRecovered: (logging.WARNING, "job recovered from a lost worker"),
    events.LeaseWasLost: (logging.WARNING, "lease lost: the outcome of the job was not written"),
    events.WorkerStarted: (logging.INFO, "worker started"),
    events.ConcurrencyChanged: (logging.WARNING, "concurrency changed by an operator"),
    events.WorkerStopped: (logging.INFO, "worker stopped"),
    events.WorkerFenced: (logging.ERROR, "lease not renewed: handlers were stopped"),
    events.UnknownTypesFound: (logging.WARNING, "jobs are due whose type this application does not know"),
    events.DatabaseLost: (logging.ERROR, "database unavailable, retrying"),
    events.DatabaseBack: (logging.WARNING, "database is back"),
    events.ClockJumped: (logging.WARNING, "the clock of the database server has jumped"),
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


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    text = str(value)
    return json.dumps(text) if " " in text or "\n" in text else text
