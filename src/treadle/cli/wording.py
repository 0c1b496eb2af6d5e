"""The words for a change of jobs: retry, cancel, delete, run-now and priority."""

from treadle.words.changes import Action, Change

_IMPERATIVE = {
    Action.RETRY: "retry {}",
    Action.CANCEL: "cancel {}",
    Action.DELETE: "delete {}",
    Action.RUN_NOW: "run {} now",
    Action.PRIORITY: "set the priority of {} to {priority}",
}
_PAST = {
    Action.RETRY: "Retried {}",
    Action.CANCEL: "Cancelled {}",
    Action.DELETE: "Deleted {}",
    Action.RUN_NOW: "Made {} due now",
    Action.PRIORITY: "Set the priority of {} to {priority}",
}
_PARTICIPLE = {
    Action.RETRY: "retried",
    Action.CANCEL: "cancelled",
    Action.DELETE: "deleted",
    Action.RUN_NOW: "run now",
    Action.PRIORITY: "given another priority",
}


def imperative(change: Change, jobs: str) -> str:
    """retry 3 jobs."""
    return _IMPERATIVE[change.action].format(jobs, priority=change.priority)


def past(change: Change, jobs: str) -> str:
    """Retried 3 jobs."""
    return _PAST[change.action].format(jobs, priority=change.priority)


def participle(change: Change) -> str:
    """retried."""
    return _PARTICIPLE[change.action]
