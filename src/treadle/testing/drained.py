"""What a drain did."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from treadle.jobs.listeners import Listeners
from treadle.words import events
from treadle.words.errors import TreadleError


class Drained(NamedTuple):
    """How many attempts ended how. A job that is retried counts once for each attempt."""

    completed: int = 0
    retried: int = 0
    """The attempt failed, and the job is tried again later."""
    failed: int = 0
    """The attempt failed, and the job is not tried again."""
    cancelled: int = 0
    """By its handler, or while its handler ran."""
    released: int = 0
    """Returned without using an attempt: snoozed, or told to wait by a limit."""


class DrainLimit(TreadleError):
    """A drain ran as many attempts as it may, and jobs are still due."""


_KINDS: dict[type[events.JobEvent], str] = {
    events.JobCompleted: "completed",
    events.JobReplaced: "completed",
    events.JobRetried: "retried",
    events.JobFailed: "failed",
    events.JobCancelled: "cancelled",
    events.LeaseWasLost: "cancelled",
    events.JobReleased: "released",
}


class Tally:
    """Counts the attempts of one drain, which are those of its worker id."""

    def __init__(self, worker_id: str, limit: int) -> None:
        self._worker_id = worker_id
        self._limit = limit
        self._endings: Counter[str] = Counter()
        self._types: Counter[str] = Counter()

    @contextmanager
    def counting(self, listeners: Listeners) -> Iterator[None]:
        added = [(kind, self._counter(name)) for kind, name in _KINDS.items()]
        for kind, listener in added:
            listeners.add(kind, listener)
        try:
            yield
        finally:
            for kind, listener in added:
                listeners.remove(kind, listener)

    def begin(self, job_type: str) -> None:
        """An attempt is about to run; DrainLimit if that is one too many."""
        if self._types.total() >= self._limit:
            most = ", ".join(f"{name} ({count:,})" for name, count in self._types.most_common(3))
            raise DrainLimit(
                f"drain() has run {self._limit:,} attempts, most of them of {most}, and jobs are still due. A job that "
                "snoozes or enqueues itself again and again never ends; if there are that many jobs, give a higher "
                "limit"
            )
        self._types[job_type] += 1

    def result(self) -> Drained:
        return Drained(**self._endings)

    def _counter(self, name: str) -> "_Counter":
        return _Counter(self._endings, name, self._worker_id)


class _Counter:
    def __init__(self, endings: Counter[str], name: str, worker_id: str) -> None:
        self._endings = endings
        self._name = name
        self._worker_id = worker_id

    def __call__(self, event: events.JobEvent) -> None:
        if event.worker_id == self._worker_id:
            self._endings[self._name] += 1
