"""Shows jobs on a terminal, or in lines, until they have finished."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from rich.console import Console
from rich.text import Text

from treadle.db.database import Database
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.query import Query
from treadle.text.masking import masked
from treadle.watching.bars import Bars
from treadle.watching.ctrl_c import is_ctrl_c
from treadle.watching.lines import Lines
from treadle.watching.snapshots import RUNNING_LIMIT, snapshots
from treadle.watching.states import describe_state
from treadle.watching.streams import Stream
from treadle.watching.watch import Watch
from treadle.words.errors import JobNotFound
from treadle.words.formatting import printable
from treadle.words.snapshot import JobSnapshot, Snapshot
from treadle.words.status import Status

# If all running jobs are shown, a finished one stays for this many more snapshots.
LINGER = 12


class Viewer:
    """Shows these jobs, in this order; with None, all running jobs."""

    def __init__(
        self, database: Database, watch: Watch, ids: Sequence[UUID] | None, console: Console | None = None
    ) -> None:
        self._database = database
        self._watch = watch
        self._ids = None if ids is None else list(dict.fromkeys(ids))
        self._console = console or Console()
        self._labels: dict[UUID, str] = {}
        self._types: Counter[str] = Counter()
        # In the order of their appearance, including those that are no longer shown.
        self._jobs: dict[UUID, JobSnapshot] = {}
        self._lingering: Counter[UUID] = Counter()
        live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._screen = Bars(self._console, self._labels) if live else Lines(self._console, self._labels)

    def run(self) -> dict[UUID, Status]:
        """Until all have finished, or Ctrl-C. Returns the last known status of each."""
        self._begin(self._database.run(self._first()))
        with self._summarized(), self._screen:
            for snapshot in self._snapshots():
                self._show(snapshot)
        return self._statuses()

    async def arun(self) -> dict[UUID, Status]:
        self._begin(await self._database.arun(self._first()))
        with self._summarized(), self._screen:
            async for snapshot in self._snapshots():
                self._show(snapshot)
        return self._statuses()

    def _snapshots(self) -> Stream[Snapshot]:
        return snapshots(self._database, self._watch, self._ids, self._screen.unavailable)

    def _first(self) -> Query[list[JobSnapshot]]:
        """Run before anything is drawn, so that a wrong id or an unreachable database is raised."""
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
        order = {job_id: nth for nth, job_id in enumerate(self._ids or ())}
        for each in sorted(found, key=lambda each: order.get(each.id, 0)):
            self._jobs[each.id] = each
            tail = f" {each.id.hex[-4:]}" if self._types[each.job_type] > 1 else ""
            self._labels[each.id] = printable(each.job_type) + tail

    def _show(self, snapshot: Snapshot) -> None:
        snapshot = masked(snapshot)
        self._know(snapshot.jobs)
        shown = list(self._jobs.values())
        if self._ids is None:
            self._lingering.update(each.id for each in shown if each.status.finished)
            shown = [each for each in shown if self._lingering[each.id] <= LINGER]
        self._screen.show(Snapshot(shown, snapshot.events))

    @contextlib.contextmanager
    def _summarized(self) -> Iterator[None]:
        """Print a summary at the end. Ctrl-C is not an error; the cancellation of a task is raised."""
        try:
            yield
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_ctrl_c(error):
                raise
            self._stopped()
        except asyncio.CancelledError:
            self._stopped()
            raise
        else:
            for each in self._jobs.values():
                if not each.status.finished and self._ids is not None:
                    raise JobNotFound(each.id)
                # Lines have already printed it.
                if each.status in (Status.FAILED, Status.CANCELLED) and isinstance(self._screen, Bars):
                    line = f"{self._labels[each.id]} {describe_state(each)}"
                    self._console.print(Text(line, style="red"), soft_wrap=True)

    def _stopped(self) -> None:
        left = sum(not each.status.finished for each in self._jobs.values())
        rest = {0: "", 1: "; the job continues"}.get(left, f"; {left} jobs continue")
        self._console.print(f"stopped watching{rest}", highlight=False)

    def _statuses(self) -> dict[UUID, Status]:
        return {job_id: each.status for job_id, each in self._jobs.items()}
