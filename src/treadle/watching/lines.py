"""Prints jobs as plain lines, for a pipe or a file: one for each change, but not too often."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from uuid import UUID

from rich.console import Console

from treadle.watching.bars import label_of
from treadle.watching.states import describe_state
from treadle.words.formatting import facts, pace, printable
from treadle.words.snapshot import JobSnapshot, Snapshot
from treadle.words.status import Status

# Progress alone is printed at most every SECONDS, and only if it moved by POINTS percent or the stage has changed.
SECONDS = 1.0
POINTS = 5


class Lines:
    """`with Lines(console) as lines: lines.show(snapshot)`."""

    def __init__(self, console: Console, labels: Mapping[UUID, str] | None = None) -> None:
        self._console = console
        self._labels = {} if labels is None else labels
        self._printed: dict[UUID, tuple[JobSnapshot, float]] = {}
        self._counted: dict[UUID, int] = {}

    def show(self, snapshot: Snapshot) -> None:
        for job in snapshot.jobs:
            if not job.status.finished and self._is_new(job):
                self._print_job(job)
        for event in snapshot.events:
            # A snapshot has only the newest events.
            missed = (event.number or 0) - self._counted.get(event.job_id, 0) - 1
            if missed > 0:
                self._print(f"{label_of(event, self._labels)}: … {missed:,} earlier event{'s' * (missed > 1)}")
            self._counted[event.job_id] = event.number or 0
            self._print(f"{label_of(event, self._labels)}: {printable(event.name)} {facts(event.data)}".rstrip())
        for job in snapshot.jobs:
            if job.status.finished and self._is_new(job):
                self._print_job(job)

    def unavailable(self, unavailable: bool) -> None:
        self._print("the database is unavailable; retrying" if unavailable else "the database is back")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _is_new(self, job: JobSnapshot) -> bool:
        if job.status == Status.CLAIMED:  # it starts in a moment
            return False
        if job.id not in self._printed:
            return True
        before, at = self._printed[job.id]
        if (before.status, before.attempts) != (job.status, job.attempts):
            return True
        moved = (
            abs(before.progress.percent - job.progress.percent) >= POINTS or before.progress.stage != job.progress.stage
        )
        goes_on = job.status == Status.RUNNING or (job.status == Status.PENDING and job.may_be_blocked)  # a workflow
        return goes_on and moved and time.monotonic() - at >= SECONDS

    def _print_job(self, job: JobSnapshot) -> None:
        self._printed[job.id] = (job, time.monotonic())
        if job.status == Status.RUNNING:
            stage = [printable(job.progress.stage)] if job.progress.stage else []
            state = ", ".join([f"{job.progress.percent}%", *stage, *pace(job.progress)])
        else:
            state = describe_state(job)
        self._print(f"{label_of(job, self._labels)}: {state}")

    def _print(self, line: str) -> None:
        # Not by rich: interrupted by Ctrl-C after a write, it would write that line again.
        self._console.file.write(f"{line}\n")
        self._console.file.flush()
