"""Tells what becomes of jobs in plain lines, for a pipe or a file: when something has changed, and not too often."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from uuid import UUID

from rich.console import Console

from treadle.watching.bars import label_of
from treadle.words.phrases import facts, pace, printable, standing
from treadle.words.snapshot import JobSnapshot, Snapshot
from treadle.words.status import Status

# A job that only gets on has a line this often, at most, and only if it got on by so much or is at another stage.
SECONDS = 1.0
POINTS = 5


class Lines:
    """`with Lines(console) as lines: lines.show(sight)`."""

    def __init__(self, console: Console, labels: Mapping[UUID, str] | None = None) -> None:
        self._console = console
        self._labels = {} if labels is None else labels
        self._told: dict[UUID, tuple[JobSnapshot, float]] = {}
        self._counted: dict[UUID, int] = {}

    def show(self, sight: Snapshot) -> None:
        for job in sight.jobs:
            if not job.status.finished and self._news(job):
                self._tell(job)
        for event in sight.events:
            # The newest are looked up; a flood of them is not.
            missed = (event.number or 0) - self._counted.get(event.job_id, 0) - 1
            if missed > 0:
                self._print(f"{label_of(event, self._labels)}: … {missed:,} earlier event{'s' * (missed > 1)}")
            self._counted[event.job_id] = event.number or 0
            self._print(f"{label_of(event, self._labels)}: {printable(event.name)} {facts(event.data)}".rstrip())
        for job in sight.jobs:
            if job.status.finished and self._news(job):
                self._tell(job)

    def away(self, away: bool) -> None:
        self._print("the database is away; trying again" if away else "the database is back")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _news(self, job: JobSnapshot) -> bool:
        if job.status == Status.CLAIMED:  # it begins in a moment
            return False
        if job.id not in self._told:
            return True
        before, at = self._told[job.id]
        if (before.status, before.attempts) != (job.status, job.attempts):
            return True
        moved = (
            abs(before.progress.percent - job.progress.percent) >= POINTS or before.progress.stage != job.progress.stage
        )
        return job.status == Status.RUNNING and moved and time.monotonic() - at >= SECONDS

    def _tell(self, job: JobSnapshot) -> None:
        self._told[job.id] = (job, time.monotonic())
        if job.status == Status.RUNNING:
            stage = [printable(job.progress.stage)] if job.progress.stage else []
            said = ", ".join([f"{job.progress.percent}%", *stage, *pace(job.progress)])
        else:
            said = standing(job)
        self._print(f"{label_of(job, self._labels)}: {said}")

    def _print(self, line: str) -> None:
        # Not by rich, which would write a line again that was interrupted between its write and its books.
        self._console.file.write(f"{line}\n")
        self._console.file.flush()
