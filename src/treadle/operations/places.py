"""Job types and queues, for the command line, the dashboard and the API."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from treadle.db.database import Database
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import throughput as throughput_queries
from treadle.db.queries.overview import Chart, Depth, LaneDepth
from treadle.db.queries.throughput import Finished, FinishedPlace
from treadle.db.query import Query
from treadle.operations.overview import STEPS, add_totals, serves
from treadle.operations.state import QueueState, state_queries
from treadle.words.changes import Pause
from treadle.words.errors import InvalidArgument, shown
from treadle.words.graph import SIGNAL, WORKFLOW
from treadle.words.naming import text_within
from treadle.words.overview import Total, WorkerRow
from treadle.words.places import Activity, Place, PlaceDetails, Places

Kind: TypeAlias = Literal["type", "queue"]
Name: TypeAlias = tuple[str | None, str | None]
# No worker runs these, and nobody declares them.
NOT_RUN = (WORKFLOW, SIGNAL)


def get_places(database: Database, kind: Kind, window: int = 3600) -> Places:
    """All job types or queues: those of jobs that wait or finished within the window, and those that workers claim."""
    finished, *state = database.read_together([find_finished(window), *state_queries()])
    return make_places(kind, window, QueueState(*state), finished)


async def aget_places(database: Database, kind: Kind, window: int = 3600) -> Places:
    finished, *state = await database.aread_together([find_finished(window), *state_queries()])
    return make_places(kind, window, QueueState(*state), finished)


def get_place(database: Database, kind: Kind, name: str, window: int = 3600) -> PlaceDetails:
    """One type or queue. One that nobody has used has no jobs."""
    history = history_queries(kind, name, window)
    found = database.read_together([*history, *state_queries()])
    return make_details(kind, name, window, QueueState(*found[len(history) :]), *found[: len(history)])


async def aget_place(database: Database, kind: Kind, name: str, window: int = 3600) -> PlaceDetails:
    history = history_queries(kind, name, window)
    found = await database.aread_together([*history, *state_queries()])
    return make_details(kind, name, window, QueueState(*found[len(history) :]), *found[: len(history)])


def get_activities(database: Database, kind: Kind, name: str) -> list[Activity]:
    """Of each window of STEPS, the shortest first."""
    return _activities(database.read_together(_activity_queries(kind, name)))


async def aget_activities(database: Database, kind: Kind, name: str) -> list[Activity]:
    return _activities(await database.aread_together(_activity_queries(kind, name)))


def checked_name(kind: Kind, name: str) -> str:
    return text_within(name, 50, "job type" if kind == "type" else "queue")


def find_finished(window: int, job_type: str | None = None, queue: str | None = None) -> Query[list[FinishedPlace]]:
    if window not in STEPS:
        choices = ", ".join(map(str, STEPS))
        raise InvalidArgument(f"window must be one of {choices} seconds, got {shown(window)}")
    return throughput_queries.find_finished_places(window, STEPS[window], job_type, queue)


def _filter(kind: Kind, name: str) -> tuple[str | None, str | None]:
    checked = checked_name(kind, name)
    return (checked, None) if kind == "type" else (None, checked)


def history_queries(kind: Kind, name: str, window: int) -> list[Query[Any]]:
    """What make_details() needs besides the state of the queue."""
    of = _filter(kind, name)
    return [
        find_finished(window, *of),
        throughput_queries.get_throughput(window, STEPS[window], *of),
        overview_queries.get_depths(window, STEPS[window], *of),
    ]


def _activity_queries(kind: Kind, name: str) -> list[Query[Any]]:
    of = _filter(kind, name)
    return [throughput_queries.find_finished_places(window, step, *of) for window, step in STEPS.items()]


def _activities(found: Sequence[Sequence[FinishedPlace]]) -> list[Activity]:
    return [_activity(window, (each.finished for each in rows)) for window, rows in zip(STEPS, found, strict=True)]


def make_places(kind: Kind, window: int, state: QueueState, finished: Sequence[FinishedPlace]) -> Places:
    pairs = _names(finished, state.depths)
    known = {_name(kind, *each) for each in pairs if kind == "queue" or each[0] not in NOT_RUN}
    for worker in state.workers:
        if worker.alive:
            known |= {_name(kind, each, each) for each in (worker.job_types if kind == "type" else worker.queues) or ()}
    makes = _Places(window, state, finished)
    return Places(state.at, window, [makes.place(*each) for each in sorted(known, key=_order)])


def make_details(
    kind: Kind,
    name: str,
    window: int,
    state: QueueState,
    finished: Sequence[FinishedPlace],
    chart: Chart,
    history: Sequence[Depth],
) -> PlaceDetails:
    of = _name(kind, name, name)
    makes = _Places(window, state, finished)
    parts = {each for each in _names(finished, state.depths) if of[0] in (None, each[0]) and of[1] in (None, each[1])}
    at = {each.at: each.jobs for each in history}
    return PlaceDetails(
        state.at,
        makes.place(*of),
        [makes.place(*each) for each in sorted(parts, key=_order)],
        chart.spans,
        chart.step,
        [at.get(span.at) for span in chart.spans],
    )


def _name(kind: Kind, job_type: str, queue: str) -> Name:
    return (job_type, None) if kind == "type" else (None, queue)


def _order(name: Name) -> tuple[str, str]:
    return name[0] or "", name[1] or ""


def _names(finished: Sequence[FinishedPlace], depths: Sequence[LaneDepth]) -> set[tuple[str, str]]:
    return {(each.job_type, each.queue) for each in finished} | {(each.job_type, each.queue) for each in depths}


class _Places:
    """Makes places of what was read."""

    def __init__(self, window: int, state: QueueState, finished: Sequence[FinishedPlace]) -> None:
        self._window, self._now = window, state.at
        self._finished, self._depths = _by_names(finished), _by_names(state.depths)
        self._alive = [each for each in state.workers if each.alive]
        self._pauses = state.pauses
        self._pairs = _names(finished, state.depths)

    def place(self, job_type: str | None, queue: str | None) -> Place:
        name = job_type, queue
        depths: list[LaneDepth] = self._depths.get(name, [])
        due = [each.due_first for each in depths if each.due_first is not None and each.due_first <= self._now]
        stopping = [each for each in self._pauses if self._touches(each, name)]
        paused = any(_covers(each, name) for each in stopping) or (bool(depths) and all(each.paused for each in depths))
        return Place(
            job_type,
            queue,
            add_totals([Total(each.depth, each.exact, each.counted_at) for each in depths]),
            min(due, default=None),
            paused,
            not paused and bool(stopping),
            sum(_works(worker, name) for worker in self._alive),
            any(each.depth and not any(serves(worker, each) for worker in self._alive) for each in depths),
            _activity(self._window, (each.finished for each in self._finished.get(name, []))),
        )

    def _touches(self, pause: Pause, name: Name) -> bool:
        """Whether it stops some of these jobs. A pause of a type touches only the queues where there are such jobs."""
        if not _overlaps(pause, name):
            return False
        if pause.job_type is not None and name[0] is None and pause.queue is None:
            return (pause.job_type, name[1]) in self._pairs
        if pause.queue is not None and name[1] is None and pause.job_type is None:
            return (name[0], pause.queue) in self._pairs
        return True


def _by_names(rows: Iterable[Any]) -> Mapping[Name, list[Any]]:
    found: dict[Name, list[Any]] = {}
    for row in rows:
        for name in ((row.job_type, None), (None, row.queue), (row.job_type, row.queue)):
            found.setdefault(name, []).append(row)
    return found


def _covers(pause: Pause, name: Name) -> bool:
    return pause.job_type in (None, name[0]) and pause.queue in (None, name[1])


def _overlaps(pause: Pause, name: Name) -> bool:
    return (pause.job_type is None or name[0] in (None, pause.job_type)) and (
        pause.queue is None or name[1] in (None, pause.queue)
    )


def _works(worker: WorkerRow, name: Name) -> bool:
    if worker.concurrency == 0 or worker.job_types is None:
        return False
    has_type = name[0] is None or name[0] in worker.job_types
    return has_type and (name[1] is None or worker.queues is None or name[1] in worker.queues)


def _activity(window: int, finished: Iterable[Finished]) -> Activity:
    done = sum(finished, Finished())
    return Activity(
        window,
        done.completed,
        done.failed,
        done.cancelled,
        done.errors,
        done.waited.times(done.completed),
        done.ran.times(done.completed),
    )
