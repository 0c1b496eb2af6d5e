"""The model of the jobs with one key: which of them are blocked, and who unblocks them. See triggers/job_ended.sql.

Every transaction is READ COMMITTED. A row has the version that all see, and the one that its writer will commit.
Writing waits for another writer and for share locks, except where the statement skips locked rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The guards, by name: a model without one of them blocks a job for ever, or runs two at once.
CONFIRMED = "a blocked job checks at commit that another one will unblock it"
SHARE_LOCKED = "the job that will unblock it cannot finish before that commit"
SEARCHED_AGAIN = "a job that finishes looks for another one if the blocked job has changed meanwhile"
ONE_RUNS = "two jobs with one key cannot be claimed at the same time"
GUARDS = (CONFIRMED, SHARE_LOCKED, SEARCHED_AGAIN, ONE_RUNS)

PENDING, BLOCKED, CLAIMED, DONE = "pending", "blocked", "claimed", "done"


class Row(NamedTuple):
    seen: str | None
    """What everybody sees; None: it is not committed."""
    written: str | None = None
    """What its writer sees."""
    writer: int | None = None
    sharers: frozenset[int] = frozenset()


class Process(NamedTuple):
    kind: str
    step: str = "begin"
    row: int | None = None
    unblocks: int | None = None


class State(NamedTuple):
    rows: tuple[Row, ...]
    processes: tuple[Process, ...]

    def write(self, nth: int, row: int, status: str) -> "State":
        return self.replace(row, self.rows[row]._replace(written=status, writer=nth))

    def replace(self, number: int, row: Row) -> "State":
        return self._replace(rows=(*self.rows[:number], row, *self.rows[number + 1 :]))

    def go(self, nth: int, **changes: object) -> "State":
        changed = self.processes[nth]._replace(**changes)  # type: ignore[arg-type]
        return self._replace(processes=(*self.processes[:nth], changed, *self.processes[nth + 1 :]))

    def end(self, nth: int, *, commit: bool) -> "State":
        rows = []
        for row in self.rows:
            own = row.writer == nth
            seen = row.written if own and commit else row.seen
            kept = (None, None) if own else (row.written, row.writer)
            rows.append(Row(seen if seen is not None or not own else DONE, *kept, row.sharers - {nth}))
        return self._replace(rows=tuple(rows))

    def seen_by(self, nth: int) -> list[tuple[int, str]]:
        """The rows that this transaction sees, with their status."""
        found = ((number, row.written if row.writer == nth else row.seen) for number, row in enumerate(self.rows))
        return [(number, status) for number, status in found if status is not None]

    def is_free(self, nth: int, number: int) -> bool:
        row = self.rows[number]
        return row.writer in (None, nth) and not row.sharers - {nth}


@dataclass(frozen=True)
class Keys:
    kinds: tuple[str, ...]
    without: str | None = None

    @property
    def about(self) -> str:
        return " + ".join(self.kinds) + " with one key"

    def has(self, guard: str) -> bool:
        return guard != self.without

    def first(self) -> State:
        """One job was enqueued before."""
        return State((Row(PENDING),), tuple(Process(kind) for kind in self.kinds))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for nth, process in enumerate(state.processes):
            if nth and state.processes[nth - 1] == process == Process(process.kind):
                continue  # of two equal ones, the first begins
            program = {"enqueue": self._enqueue, "claim": self._claim, "cancel": self._cancel}[process.kind]
            for name, after in program(state, nth, process):
                yield f"{process.kind} {nth}: {name}", after

    def violation(self, state: State) -> str | None:
        seen = [row.seen for row in state.rows]
        if seen.count(CLAIMED) > 1:
            return "two jobs of the key run"
        if all(process.step in ("begin", "end") for process in state.processes):
            if BLOCKED in seen and PENDING not in seen and CLAIMED not in seen:
                return "a job is blocked for ever"
        elif not any(True for _ in self.steps(state)):
            return "transactions wait for each other"
        return None

    def _enqueue(self, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
        if process.step == "begin":
            unfinished = any(status != DONE for _, status in state.seen_by(nth))
            row = Row(None, BLOCKED if unfinished else PENDING, nth)
            after = state._replace(rows=(*state.rows, row))
            yield "insert", after.go(nth, step="confirm", row=len(state.rows))
        elif process.step == "confirm" and process.row is not None:
            after = state.go(nth, step="commit")
            if state.rows[process.row].written == BLOCKED and self.has(CONFIRMED):
                # Rows that others are writing are skipped.
                unblocked = [
                    number
                    for number, status in state.seen_by(nth)
                    if status in (PENDING, CLAIMED) and state.rows[number].writer is None
                ]
                if not unblocked:
                    after = after.write(nth, process.row, PENDING)
                elif self.has(SHARE_LOCKED):
                    row = state.rows[unblocked[0]]
                    after = after.replace(unblocked[0], row._replace(sharers=row.sharers | {nth}))
            yield "confirm", after
        elif process.step == "commit":
            yield "commit", state.end(nth, commit=True).go(nth, step="end")
            yield "roll back", state.end(nth, commit=False).go(nth, step="end")

    def _claim(self, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
        if process.step == "begin":
            seen = state.seen_by(nth)
            running = any(status == CLAIMED for _, status in seen)
            waiting = [number for number, status in seen if status == PENDING]
            # The unique index: another claim of the key makes this one give up.
            claimed = any(row.written == CLAIMED or row.seen == CLAIMED for row in state.rows)
            if waiting and not running and state.is_free(nth, waiting[0]) and not (claimed and self.has(ONE_RUNS)):
                yield "claim", state.write(nth, waiting[0], CLAIMED).go(nth, step="commit claim", row=waiting[0])
            else:
                yield "nothing", state.go(nth, step="end")
        elif process.step == "commit claim":
            yield "commit", state.end(nth, commit=True).go(nth, step="finish")
            yield "crash", state.end(nth, commit=False).go(nth, step="end")
        else:
            yield from self._finish(state, nth, process)

    def _cancel(self, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
        if process.step == "begin":
            for number, status in state.seen_by(nth):
                if status in (PENDING, BLOCKED):
                    yield f"find job {number}", state.go(nth, step="finish", row=number)
            yield "nothing", state.go(nth, step="end")
        else:
            yield from self._finish(state, nth, process)

    def _finish(self, state: State, nth: int, process: Process) -> Iterator[tuple[str, State]]:
        """Finish the row, and unblock the next one."""
        if process.step == "finish" and process.row is not None:
            if not state.is_free(nth, process.row):
                return  # waits
            status = state.rows[process.row].seen
            if status == DONE or (status == CLAIMED) != (process.kind == "claim"):
                yield "refused", state.end(nth, commit=False).go(nth, step="end")
                return
            after = state.write(nth, process.row, DONE)
            yield "finish", after.go(nth, step="commit" if status == BLOCKED else "search")
        elif process.step == "search":
            blocked = [number for number, status in state.seen_by(nth) if status == BLOCKED]
            yield "search", state.go(nth, step="unblock" if blocked else "commit", unblocks=min(blocked, default=None))
        elif process.step == "unblock" and process.unblocks is not None:
            if not state.is_free(nth, process.unblocks):
                return  # waits
            if dict(state.seen_by(nth)).get(process.unblocks) == BLOCKED:
                yield "unblock", state.write(nth, process.unblocks, PENDING).go(nth, step="commit", unblocks=None)
            else:
                step = "search" if self.has(SEARCHED_AGAIN) else "commit"
                yield "search again", state.go(nth, step=step, unblocks=None)
        elif process.step == "commit":
            yield "commit", state.end(nth, commit=True).go(nth, step="end")
            yield "crash", state.end(nth, commit=False).go(nth, step="end")
