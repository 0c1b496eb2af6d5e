"""The log lines of a worker, made from events. Payloads are left out."""

import logging
from dataclasses import fields
from typing import Any
from weakref import WeakKeyDictionary

from treadle.jobs.listeners import Listeners
from treadle.text.log import log
from treadle.words import events
from treadle.worker.log_message import shown as shown_value

LINES: dict[type[events.Event], tuple[int, str]] = {
    events.JobClaimed: (logging.DEBUG, "job claimed"),
    events.JobStarted: (logging.DEBUG, "job started"),
    events.JobCompleted: (logging.DEBUG, "job completed"),
    events.JobReplaced: (logging.DEBUG, "job replaced by other jobs"),
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


_LEFT_OUT = {"data", "traceback", "exception", "on_purpose"}
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
    if not log.isEnabledFor(level):
        return
    found = facts(event)
    shown = {key: shown_value(value) for key, value in found.items() if value not in (None, "")}
    # The message is the same for all events of a kind, so that tools can group them; the values are its arguments.
    message = " ".join([text, *(f"{key}=%({key})s" for key in shown)])
    raised = getattr(event, "exception", None)
    record = log.makeRecord(
        log.name,
        level,
        __file__,
        0,
        message,
        (shown,),
        None if raised is None else (type(raised), raised, raised.__traceback__),
        extra={"what": text, "event": found},
    )
    record.exc_text = getattr(event, "traceback", None)  # of a job in a child process, this is all that there is
    log.handle(record)


def facts(event: events.Event) -> dict[str, Any]:
    """An event without the payload and the exception."""
    return {each.name: getattr(event, each.name) for each in fields(event) if each.name not in _LEFT_OUT}
