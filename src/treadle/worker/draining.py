"""Finds out when a draining worker is done."""

import asyncio
from collections.abc import Callable, Sequence

from treadle.worker.claimer import Claimer


class Draining:
    """The worker is done when all claimers found nothing after it had stopped being busy: a job that finishes may
    unblock another."""

    def __init__(self, claimers: Sequence[Claimer], busy: Callable[[], bool]) -> None:
        self._claimers = claimers
        self._busy = busy
        self.done = asyncio.Event()

    def found_nothing(self, claimer: Claimer, quiet: bool) -> None:
        """A claimer found nothing; `quiet` says whether the worker was not busy before the claimer checked."""
        if self._busy():
            return
        claimer.idle = quiet
        if not quiet:
            claimer.wake()
        elif all(each.idle for each in self._claimers):
            self.done.set()

    def look_again(self) -> None:
        """Jobs of other workers were given back: the worker is not done."""
        self.done.clear()
        for claimer in self._claimers:
            claimer.idle = False
            claimer.wake()

    def claim_no_more(self) -> bool:
        """Stop the claimers, unless they have claimed something since the worker was done: another worker that saw such
        a job as claimed has left what it unblocks to this one. Returns whether they were stopped."""
        if self._busy() or not all(each.idle for each in self._claimers):
            self.done.clear()
            return False
        for claimer in self._claimers:
            claimer.stop()
        return True

    def outcomes_written(self) -> None:
        """No outcome is left to be written: unless the worker is busy again, the claimers check once more."""
        if not self._busy():
            for claimer in self._claimers:
                claimer.wake()
