"""Watches jobs on a screen until they have ended."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from rich.console import Console
from rich.text import Text

from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.query import Query
from treadle.watching.bars import Bars
from treadle.watching.lines import Lines
from treadle.watching.snapshots import RUNNING_LIMIT, snapshots
from treadle.words.errors import JobNotFound
from treadle.words.masking import masked
from treadle.words.phrases import printable, standing
from treadle.words.snapshot import JobSnapshot, Snapshot
from treadle.words.status import Status

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle

# Where whatever runs is watched, one that has ended is shown for so many looks more.
LINGER = 12


class Viewer:
    """Of these jobs, in this order; or, for None, of everything that runs."""

    def __init__(self, app: "Treadle", ids: Sequence[UUID] | None, console: Console | None = None) -> None:
        self._app = app
        self._ids = None if ids is None else list(dict.fromkeys(ids))
        self._console = console or Console()
        self._labels: dict[UUID, str] = {}
        self._types: Counter[str] = Counter()
        # In the order in which they came, also where they are not drawn any more.
        self._jobs: dict[UUID, JobSnapshot] = {}
        self._lingering: Counter[UUID] = Counter()
        live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._screen = Bars(self._console, self._labels) if live else Lines(self._console, self._labels)

    def run(self) -> dict[UUID, Status]:
        """Until all have ended, or Ctrl-C. The status of each, as it was last seen."""
        self._begin(self._app.database.run(self._first()))
        with self._told(), self._screen:
            for sight in snapshots(self._app, self._ids, self._screen.away):
                self._show(sight)
        return self._statuses()

    async def arun(self) -> dict[UUID, Status]:
        self._begin(await self._app.database.arun(self._first()))
        with self._told(), self._screen:
            async for sight in snapshots(self._app, self._ids, self._screen.away):
                self._show(sight)
        return self._statuses()

    def _first(self) -> Query[list[JobSnapshot]]:
        """A look of its own before anything is drawn: what is wrong with the database or the ids is raised."""
        return snapshot_queries.find_snapshots(self._ids or (), RUNNING_LIMIT if self._ids is None else 0)

    def _begin(self, found: list[JobSnapshot]) -> None:
        known = {each.id for each in found}
        for job_id in self._ids or ():
            if job_id not in known:
                raise JobNotFound(job_id)
        self._know(masked(found))

    def _know(self, found: list[JobSnapshot]) -> None:
        for each in found:
            if each.id not in self._jobs:
                self._types[each.job_type] += 1
        places = {job_id: place for place, job_id in enumerate(self._ids or ())}
        for each in sorted(found, key=lambda each: places.get(each.id, 0)):
            self._jobs[each.id] = each
            tail = f" {each.id.hex[-4:]}" if self._types[each.job_type] > 1 else ""
            self._labels[each.id] = printable(each.job_type) + tail

    def _show(self, sight: Snapshot) -> None:
        sight = masked(sight)
        self._know(sight.jobs)
        shown = list(self._jobs.values())
        if self._ids is None:
            self._lingering.update(each.id for each in shown if each.status.finished)
            shown = [each for each in shown if self._lingering[each.id] <= LINGER]
        self._screen.show(Snapshot(shown, sight.events))

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What there is to say in the end. Ctrl-C is no error: a task that was cancelled is."""
        try:
            yield
        except KeyboardInterrupt:
            self._left()
        except asyncio.CancelledError:
            self._left()
            raise
        else:
            for each in self._jobs.values():
                if not each.status.finished and self._ids is not None:
                    raise JobNotFound(each.id)
                # In lines it was the last one.
                if each.status in (Status.FAILED, Status.CANCELLED) and isinstance(self._screen, Bars):
                    said = f"{self._labels[each.id]} {standing(each)}"
                    self._console.print(Text(said, style="red"), soft_wrap=True)

    def _left(self) -> None:
        left = sum(not each.status.finished for each in self._jobs.values())
        said = {0: "", 1: "; the job goes on"}.get(left, f"; {left} jobs go on")
        self._console.print(f"stopped watching{said}", highlight=False)

    def _statuses(self) -> dict[UUID, Status]:
        return {job_id: each.status for job_id, each in self._jobs.items()}
