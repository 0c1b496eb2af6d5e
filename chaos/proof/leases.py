"""The model of one job, two workers and recovery: leases, lease numbers, renewals, crashes, suspended workers.

The clock is the server's, and moves in steps. A worker that is not suspended stops its handler before its lease runs
out by its own count, so the clock waits for it. A suspended worker does nothing, for any time, and then goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The guards, by name: a model without one of them breaks a promise.
FENCED = "an outcome is accepted only from the worker and with the lease number of the last claim"
RECOVERY_RECHECKS = "recovery checks the lease again when it takes the job back"
COUNTED_FROM_REQUEST = "a worker counts its lease from before it asked for it"
STOPS_IN_TIME = "a worker stops its handler before its lease runs out"
GUARDS = (FENCED, RECOVERY_RECHECKS, COUNTED_FROM_REQUEST, STOPS_IN_TIME)

LEASE = 2
LAST_MOMENT = 4
CLAIMS = 3


class Worker(NamedTuple):
    until: int = LEASE
    """Its lease in the database."""
    deadline: int = LEASE
    """Its lease by its own count."""
    asked_at: int | None = None
    """When it sent a renewal that was not answered yet."""
    granted: bool = False
    """Whether the database has renewed the lease, and the worker does not know it yet."""
    number: int = 0
    """The lease number of its job; 0 if it has none."""
    running: bool = False
    finished: bool = False
    suspended: bool = False
    was_suspended: bool = False
    """While the present handler ran."""
    dead: bool = False


class State(NamedTuple):
    clock: int = 0
    claimed_by: int | None = None
    number: int = 0
    outcome_of: int = 0
    """The lease number of the accepted outcome; 0 if there is none."""
    workers: tuple[Worker, ...] = (Worker(), Worker())
    suspect: int | None = None
    """The worker whose lease recovery found to be over."""


@dataclass(frozen=True)
class Leases:
    without: str | None = None
    about = "leases"

    def has(self, guard: str) -> bool:
        return guard != self.without

    def first(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        waits = (each.running and not each.suspended and each.deadline <= state.clock + 1 for each in state.workers)
        if state.clock < LAST_MOMENT and not (self.has(STOPS_IN_TIME) and any(waits)):
            yield "the clock moves", state._replace(clock=state.clock + 1)
        yield from self._recovery(state)
        for nth, worker in enumerate(state.workers):
            if not worker.dead:
                for name, changed, rest in self._worker(state, nth, worker):
                    workers = (*state.workers[:nth], changed, *state.workers[nth + 1 :])
                    yield f"worker {nth} {name}", rest._replace(workers=workers)

    def violation(self, state: State) -> str | None:
        if state.outcome_of and state.outcome_of != state.number:
            return "the outcome of an earlier claim was accepted"
        running = [worker for worker in state.workers if worker.running]
        if len(running) > 1 and not any(worker.was_suspended for worker in running):
            return "the job runs twice at the same time"
        return None

    def _recovery(self, state: State) -> Iterator[tuple[str, State]]:
        if state.suspect is None:
            if state.claimed_by is not None and state.workers[state.claimed_by].until <= state.clock:
                yield "recovery finds a lease that is over", state._replace(suspect=state.claimed_by)
        else:
            over = state.workers[state.suspect].until <= state.clock or not self.has(RECOVERY_RECHECKS)
            back = over and state.claimed_by == state.suspect
            claimed_by = None if back else state.claimed_by
            yield (
                "recovery takes the job back" if back else "recovery leaves it",
                state._replace(suspect=None, claimed_by=claimed_by),
            )

    def _worker(self, state: State, nth: int, worker: Worker) -> Iterator[tuple[str, Worker, State]]:
        """What this worker may do next: its name, the worker and everything else afterwards."""
        done = Worker(worker.until, worker.deadline, worker.asked_at, worker.granted)
        yield "dies", Worker(worker.until, dead=True), state
        if worker.suspended:
            yield "resumes", worker._replace(suspended=False), state
            return
        if worker.running and not worker.was_suspended:
            yield "is suspended", worker._replace(suspended=True, was_suspended=True), state
        if worker.asked_at is None:
            yield "asks for a renewal", worker._replace(asked_at=state.clock), state
        elif not worker.granted:
            yield "is granted a renewal", worker._replace(until=state.clock + LEASE, granted=True), state
        else:
            deadline = worker.asked_at + LEASE if self.has(COUNTED_FROM_REQUEST) else state.clock + LEASE
            yield "learns of it", worker._replace(deadline=deadline, asked_at=None, granted=False), state
        if worker.running:
            yield "ends its handler", worker._replace(running=False, finished=True), state
            if worker.deadline <= state.clock + 1 and self.has(STOPS_IN_TIME):
                yield "stops its handler", done, state
        elif worker.finished:
            is_last = (state.claimed_by, state.number) == (nth, worker.number)
            accepted = state.claimed_by is not None and (is_last or not self.has(FENCED))
            outcome = state._replace(claimed_by=None, outcome_of=worker.number)
            yield "writes its outcome", done, outcome if accepted else state
            yield "gives the job back", done, state._replace(claimed_by=None) if accepted else state
        elif worker.deadline > state.clock + 1 and self._is_claimable(state, nth):
            number = state.number + 1
            claimed = worker._replace(number=number, running=True)
            yield "claims the job", claimed, state._replace(claimed_by=nth, number=number)

    def _is_claimable(self, state: State, nth: int) -> bool:
        """Both workers are alike, so the first claim is always made by the first."""
        pending = state.claimed_by is None and not state.outcome_of and state.number < CLAIMS
        return pending and (state.number > 0 or nth == 0)
