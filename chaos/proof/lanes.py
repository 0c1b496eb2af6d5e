"""The model of one lane: its floors, its ticks, and when it is dormant. See sql/functions/public/tick.sql.

Time is a counter that every reader of the clock advances. Everything that depends on how much time has passed may
Time is a counter that every reader of the clock advances. Everything that depends on how much time has passed may
happen or not: a floor is raised or left alone, a lane without jobs becomes dormant or stays active. So the proof does
not rely on speed.
A transaction sees what its statements' snapshots see. What one statement does is one step: between two statements, any
other transaction may run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The guards, by name: a model without one of them loses jobs.
ID_BEFORE_CLOCK = "an enqueue takes its transaction id before it reads the clock"
SNAPSHOT_BEFORE_ID = "a tick takes its snapshot before its transaction id"
PLACED_AT_FLOOR = "a job is placed no lower than the floor"
ENDED_SEARCHED = "a tick searches below the floors that an ended transaction may not have seen"
RUNNING_NOT_SEEN = "a floor of a tick that was not committed yet does not count as seen"
AFTER_SNAPSHOT_NOT_SEEN = "what has a lower id than a tick, but began after its snapshot, does not count as seen"
IDLE_EXAMINED = "a tick examines lanes that became dormant while a transaction was open"
DORMANT_KEPT = "a dormant lane is deleted only when every running transaction has seen it dormant"
LISTED_AGAIN = "an enqueue into a dormant lane lists it again"
GUARDS = (
    ID_BEFORE_CLOCK,
    SNAPSHOT_BEFORE_ID,
    PLACED_AT_FLOOR,
    ENDED_SEARCHED,
    RUNNING_NOT_SEEN,
    AFTER_SNAPSHOT_NOT_SEEN,
    IDLE_EXAMINED,
    DORMANT_KEPT,
    LISTED_AGAIN,
)

NEVER = -1  # the floor of a lane that has none, and the time of a job that comes back


class Snapshot(NamedTuple):
    next_id: int
    running: frozenset[int]

    def sees(self, xid: int, aborted: frozenset[int]) -> bool:
        return xid < self.next_id and xid not in self.running and xid not in aborted


class Job(NamedTuple):
    run_at: int
    by: int
    claimed_by: int = 0


class Lane(NamedTuple):
    """A version of a row of the table lanes."""

    row: int
    by: int
    replaced_by: int = 0
    dormant: int = 0


class Tick(NamedTuple):
    xid: int
    next_id: int
    running: frozenset[int]


class Process(NamedTuple):
    """An open transaction, or one that has not begun (step 0), or one that has ended (step -1)."""

    kind: str
    step: int = 0
    xid: int = 0
    clock: int = 0
    start: int = 0
    snapshot: Snapshot | None = None
    safe: Tick | None = None


class State(NamedTuple):
    clock: int
    next_id: int
    running: frozenset[int]
    aborted: frozenset[int]
    jobs: tuple[Job, ...]
    floors: tuple[tuple[int, int], ...]  # the transaction that wrote it, and the floor
    ticks: tuple[Tick, ...]
    lanes: tuple[Lane, ...]
    processes: tuple[Process, ...]

    def snapshot(self) -> Snapshot:
        return Snapshot(self.next_id, self.running)


@dataclass(frozen=True)
class Lanes:
    """Which transactions there are, and which guards."""

    kinds: tuple[str, ...]
    without: str | None = None
    rests: bool = True
    """Whether the lane can become dormant."""
    crashes: bool = True
    """Whether transactions can end without a commit."""

    @property
    def about(self) -> str:
        return " + ".join(self.kinds)

    def first(self) -> State:
        """One job was claimed and completed long ago, so the lane is active and has a floor and ticks."""
        return State(
            clock=2,
            next_id=5,
            running=frozenset(),
            aborted=frozenset(),
            jobs=(),
            floors=((2, 0),),
            ticks=(Tick(3, 3, frozenset()), Tick(4, 4, frozenset())),
            lanes=(Lane(1, 1),),
            processes=tuple(Process(kind) for kind in self.kinds),
        )

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for nth, process in enumerate(state.processes):
            if process.step < 0:
                continue
            if nth and state.processes[nth - 1] == process == Process(process.kind):
                continue  # of two equal ones, the first begins
            for name, after in PROGRAMS[process.kind](self, state, nth, process):
                if self.crashes or name not in ("crash", "roll back"):
                    yield f"{process.kind} {nth}: {name}", after

    def violation(self, state: State) -> str | None:
        """When no transaction is open, one tick and one claim must find every job."""
        if state.running or any(each.step > 0 for each in state.processes):
            return None
        pending = [job for job in state.jobs if _exists(state, job.by) and not _exists(state, job.claimed_by)]
        if not pending:
            return None
        # The tick may raise the floor or not; both must find the jobs.
        for after in _whole_tick(self, state):
            snapshot = after.snapshot()
            lowest = _floor(after, snapshot)
            for job in pending:
                if not any(lane.dormant == 0 for lane in _lanes(after, snapshot)):
                    return f"no claim searches the lane of the job at {job.run_at}"
                if job.run_at < lowest:
                    return f"the job at {job.run_at} is below the floor {lowest}"
        return None

    def has(self, guard: str) -> bool:
        return guard != self.without


# What a snapshot sees


def _exists(state: State, xid: int) -> bool:
    return 0 < xid < state.next_id and xid not in state.running and xid not in state.aborted


def _floor(state: State, snapshot: Snapshot) -> int:
    seen = [(xid, floor) for xid, floor in state.floors if snapshot.sees(xid, state.aborted)]
    return max(seen)[1] if seen else NEVER


def _lanes(state: State, snapshot: Snapshot) -> list[Lane]:
    def sees(xid: int) -> bool:
        return snapshot.sees(xid, state.aborted)

    return [lane for lane in state.lanes if sees(lane.by) and not (lane.replaced_by and sees(lane.replaced_by))]


def _ticks(state: State, snapshot: Snapshot) -> list[Tick]:
    return sorted(tick for tick in state.ticks if snapshot.sees(tick.xid, state.aborted))


# Transactions


def _changed(state: State, nth: int, process: Process, **changes: object) -> State:
    processes = (*state.processes[:nth], process, *state.processes[nth + 1 :])
    return state._replace(processes=processes, **changes)  # type: ignore[arg-type]


def _took_id(state: State, nth: int, process: Process) -> State:
    changed = process._replace(step=process.step + 1, xid=state.next_id)
    return _changed(state, nth, changed, next_id=state.next_id + 1, running=state.running | {state.next_id})


def _read_clock(state: State, nth: int, process: Process) -> State:
    return _changed(state, nth, process._replace(step=process.step + 1, clock=state.clock), clock=state.clock + 1)


def _ended(state: State, nth: int, process: Process, *, commit: bool) -> State:
    aborted = state.aborted if commit or not process.xid else state.aborted | {process.xid}
    return _changed(state, nth, Process(process.kind, -1), running=state.running - {process.xid}, aborted=aborted)


def _enqueue(model: Lanes, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
    """A new job takes the time of the clock, and one that comes back has an older time; both are placed by the floor.
    A transaction on an old snapshot, such as REPEATABLE READ, does not see the floor: it relies on the clock, and lists
    the lane itself."""
    first, second = (_took_id, _read_clock) if model.has(ID_BEFORE_CLOCK) else (_read_clock, _took_id)
    if process.step == 0:
        yield "begin", first(state, nth, process)
    elif process.step == 1:
        yield "clock", second(state, nth, process)
    elif process.step == 2:
        snapshot = state.snapshot()
        run_at = NEVER if process.kind == "release" else process.clock
        old = process.kind == "old enqueue"
        if model.has(PLACED_AT_FLOOR) and not old:
            run_at = max(run_at, _floor(state, snapshot))
        lanes = state.lanes
        listed = _lanes(state, snapshot)
        if (old or not any(lane.dormant == 0 for lane in listed)) and (model.has(LISTED_AGAIN) or not listed):
            lanes = (*lanes, Lane(1 + max((lane.row for lane in lanes), default=0), process.xid))
        jobs = (*state.jobs, Job(run_at, process.xid))
        yield "insert", _changed(state, nth, process._replace(step=3), jobs=jobs, lanes=lanes)
    else:
        yield "commit", _ended(state, nth, process, commit=True)
        yield "roll back", _ended(state, nth, process, commit=False)


def _claim(model: Lanes, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
    """Takes the first job from the floor on, and may raise the floor (raise_floors.sql). If there is no job, it may
    make the lane dormant (make_dormant.sql). If it does not commit, all that is undone."""
    if process.step == 0:
        clock = _read_clock(state, nth, process)
        snapshot = state.snapshot()
        if any(lane.dormant == 0 for lane in _lanes(state, snapshot)):
            start = clock.processes[nth]._replace(start=_floor(state, snapshot))
            yield "floor", _changed(clock, nth, start)
        else:
            yield "nothing", _changed(clock, nth, Process(process.kind, -1))
    elif process.step == 1:
        found = [(job.run_at, place) for place, job in _free(state, process.start)]
        if found:
            after = _took_id(state, nth, process)
            jobs = list(state.jobs)
            place = min(found)[1]
            jobs[place] = jobs[place]._replace(claimed_by=after.processes[nth].xid)
            yield "claim", after._replace(jobs=tuple(jobs))
            return
        yield "nothing", _changed(state, nth, Process(process.kind, -1))
        listed = _lanes(state, state.snapshot())
        active = [lane for lane in listed if lane.dormant == 0]
        if model.rests and active and not any(lane.replaced_by in state.running for lane in active):
            after = _took_id(state, nth, process)
            own = after.processes[nth]
            lanes = _switched(state, active, active, own.xid, dormant=True)
            yield "dormant", _changed(after, nth, own._replace(step=3), lanes=lanes)
    else:
        if process.step == 2:
            head = min((job.run_at for _, job in _free(state, process.start)), default=process.clock)
            if (floor := min(head, process.clock)) > process.start:
                floors = (*state.floors, (process.xid, floor))
                yield f"floor {floor}", _changed(state, nth, process._replace(step=3), floors=floors)
        yield "commit", _ended(state, nth, process, commit=True)
        yield "crash", _ended(state, nth, process, commit=False)


def _free(state: State, start: int) -> list[tuple[int, Job]]:
    """The jobs from this time on that nobody has claimed or locked, with their numbers."""
    return [
        (place, job)
        for place, job in enumerate(state.jobs)
        if _exists(state, job.by)
        and job.run_at >= start
        and job.claimed_by not in state.running
        and not _exists(state, job.claimed_by)
    ]


def _tick(model: Lanes, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
    """One at a time; but a late tick no longer waits for one that does not end."""
    in_order = model.has(SNAPSHOT_BEFORE_ID)
    if process.step == 0:
        if process.kind == "tick" and any(each.kind.endswith("tick") and each.step > 0 for each in state.processes):
            return
        clock = _read_clock(state, nth, process)
        process = clock.processes[nth]
        if in_order:
            yield "snapshot", _changed(clock, nth, process._replace(snapshot=state.snapshot()))
        else:
            yield "id", _took_id(clock, nth, process._replace(step=0))
    elif process.step == 1:
        if in_order:
            yield "id", _took_id(state, nth, process)
        else:
            snapshot = state.snapshot()
            snapshot = snapshot._replace(running=snapshot.running - {process.xid})
            yield "snapshot", _changed(state, nth, process._replace(step=2, snapshot=snapshot))
    elif process.step == 2:
        known = _ticks(state, state.snapshot())
        if known and known[-1].xid > process.xid:
            yield "overtaken", _ended(state, nth, process, commit=True)
            return
        assert process.snapshot
        tick = Tick(process.xid, process.snapshot.next_id, process.snapshot.running)
        safe = _safe_tick(model, state, process.snapshot)
        changed = process._replace(step=3, safe=safe)
        yield "write tick", _changed(state, nth, changed, ticks=(*state.ticks, tick))
    elif process.step == 3:
        yield from _examine(model, state, nth, process)
    elif process.step == 4:
        yield "commit", _ended(state, nth, process, commit=True)
        yield "crash", _ended(state, nth, process, commit=False)


def _safe_tick(model: Lanes, state: State, snapshot: Snapshot) -> Tick:
    """safe_tick.sql"""
    known = _ticks(state, state.snapshot())
    nothing = Tick(0, 0, frozenset())
    if not known or known[-1].next_id > snapshot.next_id:
        return nothing
    ended = [xid for xid in known[-1].running if xid not in snapshot.running]
    limit = min([known[-1].next_id, *ended]) if model.has(ENDED_SEARCHED) else known[-1].next_id
    return max((tick for tick in known if tick.xid < limit), default=nothing)


def _safe_floor(model: Lanes, state: State, snapshot: Snapshot, safe: Tick) -> int:
    """safe_floor.sql"""
    known = sorted((xid, floor) for xid, floor in state.floors if snapshot.sees(xid, state.aborted))
    seen = [
        xid for xid, _ in known if xid < _end(model, safe) and not (model.has(RUNNING_NOT_SEEN) and xid in safe.running)
    ]
    return min((floor for xid, floor in known if xid >= seen[-1]), default=NEVER) if seen else NEVER


def _end(model: Lanes, tick: Tick) -> int:
    """The tick has seen nothing with this id or a higher one."""
    return tick.next_id if model.has(AFTER_SNAPSHOT_NOT_SEEN) else tick.xid


def _examine(model: Lanes, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
    """The statement that decides about the lane, with a snapshot of its own."""
    own, safe = process.xid, process.safe
    assert process.snapshot
    assert safe
    snapshot = state.snapshot()
    listed = _lanes(state, snapshot)
    active = [lane for lane in listed if lane.dormant == 0]
    doubtful = [
        lane
        for lane in listed
        if lane.dormant
        and model.has(IDLE_EXAMINED)
        and (lane.dormant >= _end(model, safe) or lane.dormant in safe.running)
    ]
    after = process._replace(step=4)
    if not active and not doubtful:
        yield "nothing", _deleted(model, _changed(state, nth, after), process)
        return
    lockers = {xid for xid in process.snapshot.running if xid < safe.xid}
    lowest = _safe_floor(model, state, snapshot, safe)
    heads = [
        job.run_at
        for job in state.jobs
        if snapshot.sees(job.by, state.aborted)
        and not (job.claimed_by and snapshot.sees(job.claimed_by, state.aborted))
        and job.run_at >= lowest
        and job.claimed_by not in lockers
    ]
    head = min(heads, default=None)
    floor = _floor(state, snapshot)
    now = process.clock
    if head is not None and head < floor:
        floors = [head]
    else:
        floors = sorted({floor, max(floor, now if head is None else min(head, now))})
    for new in floors:
        for dormant in [False] if head is not None or not model.rests else [False, True] if active else [True]:
            lanes = _switched(state, listed, active, own, dormant=dormant)
            written = state.floors if new == floor else (*state.floors, (own, new))
            changed = _changed(state, nth, after, floors=written, lanes=lanes)
            name = f"floor {new}" + (", dormant" if dormant else "")
            yield name, _deleted(model, changed, process)


def _switched(state: State, listed: list[Lane], active: list[Lane], own: int, *, dormant: bool) -> tuple[Lane, ...]:
    """Make the lane dormant or active. If it is listed more than once, one row is left."""
    kept = (active or listed)[0]
    lanes = list(state.lanes)
    for lane in listed:
        if lane.replaced_by in state.running:
            continue  # locked: another tick changes it
        place = lanes.index(lane)
        if lane.row != kept.row:
            lanes[place] = lane._replace(replaced_by=own)
        elif bool(lane.dormant) != dormant:
            lanes[place] = lane._replace(replaced_by=own)
            lanes.append(Lane(lane.row, own, 0, own if dormant else 0))
    return tuple(lanes)


def _deleted(model: Lanes, state: State, process: Process) -> State:
    """Delete dormant lanes that no running transaction has seen active."""
    assert process.snapshot
    snapshot = state.snapshot()
    oldest_running = min(process.snapshot.running, default=process.snapshot.next_id)
    oldest = max((tick for tick in _ticks(state, snapshot) if tick.xid < oldest_running), default=None)
    lanes = list(state.lanes)
    for lane in _lanes(state, snapshot):
        if not lane.dormant or lane.replaced_by in state.running:
            continue
        if model.has(DORMANT_KEPT) and (
            oldest is None or lane.dormant >= _end(model, oldest) or lane.dormant in oldest.running
        ):
            continue
        lanes[lanes.index(lane)] = lane._replace(replaced_by=process.xid)
    return state._replace(lanes=tuple(lanes))


def _whole_tick(model: Lanes, state: State) -> Iterator[State]:
    """A tick while nothing else runs."""
    nth = len(state.processes)
    states = [state._replace(processes=(*state.processes, Process("tick")))]
    while states:
        current = states.pop()
        if current.processes[nth].step == -1:
            yield current
        else:
            for name, after in _tick(model, current, nth, current.processes[nth]):
                if name != "crash":
                    states.append(after)


def _clock(model: Lanes, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
    """The server's clock is set back."""
    yield "set back", _changed(state, nth, process._replace(step=-1), clock=1)


PROGRAMS: dict[str, Callable[[Lanes, State, int, Process], Iterator[tuple[str, State]]]] = {
    "enqueue": _enqueue,
    "old enqueue": _enqueue,
    "release": _enqueue,
    "claim": _claim,
    "tick": _tick,
    "late tick": _tick,
    "clock": _clock,
}
