"""What the queue should do, in plain Python and without a clock: the oracle of the model-based test (test_model.py).

Time is a count of turns, and a job is due now or in an hour. A transaction that is open sees what was committed and
what it did itself; the rows that it touched are locked for the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

LIVE, HELD = ("pending", "claimed", "running"), ("claimed", "running")
CRASH_LIMIT = 2  # so that it is reached


@dataclass(frozen=True)
class Job:
    turn: int
    """Its place in its lane: the older, the sooner."""
    job_type: str
    priority: int
    max_attempts: int
    key: str | None = None
    unique: str | None = None
    later: bool = False
    status: str = "pending"
    attempts: int = 0
    lease: int = 0
    worker: str | None = None
    crashes: int = 0
    lifted: bool = False
    """It came back, or waited for its key: its place is no longer known exactly."""
    born: int = 0

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def held(self) -> bool:
        return self.status in HELD

    def facts(self) -> tuple[object, ...]:
        """What the table has to say of it."""
        counts = (self.attempts, self.max_attempts, self.lease, self.crashes)
        return (self.status, self.job_type, self.priority, self.key, self.unique, self.worker, self.later, *counts)


Rows: TypeAlias = dict[UUID, Job]


@dataclass
class Transaction:
    rows: dict[UUID, Job | None] = field(default_factory=dict)
    locks: set[UUID] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """Of jobs that it brought, or ended: what waits behind them may be locked, too."""
    uniques: set[tuple[str, str | None]] = field(default_factory=set)
    """Type and unique key of all that it wrote: what it added and deleted again stands in the index until its end."""


class Oracle:
    def __init__(self) -> None:
        self.committed: Rows = {}
        self.open: dict[int, Transaction] = {}
        self.pauses: set[str] = set()
        self.unclear: set[str] = set()
        """Keys whose jobs were enqueued in transactions that overlapped, or revived: in which order is not promised."""
        self.turns = 0

    # Transactions

    def view(self, who: int) -> Rows:
        own = self.open[who].rows if who in self.open else {}
        return {each: job for each, job in {**self.committed, **own}.items() if job is not None}

    def write(self, who: int, job_id: UUID, job: Job | None, before: Job | None = None) -> None:
        key = (job or before or Job(0, "", 0, 0)).key
        if key and (before is None or (before.live and not (job and job.live))):
            self._touch(who, key)
        if who in self.open:
            self.open[who].rows[job_id] = job
            self.open[who].locks.add(job_id)
            self.open[who].uniques |= {(each.job_type, each.unique) for each in (job, before) if each and each.unique}
        elif job is None:
            self.committed.pop(job_id, None)
        else:
            self.committed[job_id] = job
        self._settle_keys()

    def commit(self, who: int) -> None:
        for job_id, job in self.open.pop(who).rows.items():
            self.write(-1, job_id, job, job)
        self._settle_keys()

    def others(self, who: int) -> list[Transaction]:
        return [each for other, each in self.open.items() if other != who]

    def locked(self, who: int) -> set[UUID]:
        """By others, for certain."""
        return {job_id for each in self.others(who) for job_id in each.locks}

    def doubtful(self, who: int, job: Job) -> bool:
        """Whether others may have locked it, because of its key."""
        return job.key is not None and any(job.key in each.keys for each in self.others(who))

    def hindered(self, who: int, job: Job) -> bool:
        """Whether its end may have to wait: it lets the next of its key go, which others may have locked."""
        kin = {each for each, other in self.committed.items() if job.key is not None and other.key == job.key}
        return self.doubtful(who, job) or bool(kin & self.locked(who))

    def in_doubt(self, who: int, job_type: str, unique: str | None) -> bool:
        """Whether it depends on the end of another transaction if such a job is there."""
        return any((job_type, unique) in each.uniques for each in self.others(who))

    def _touch(self, who: int, key: str) -> None:
        if any(key in each.keys for each in self.others(who)):
            self.unclear.add(key)
        if who in self.open:
            self.open[who].keys.add(key)

    def _settle_keys(self) -> None:
        """A key of which nothing is left begins anew."""
        if not self.open:
            self.unclear &= {job.key for job in self.committed.values() if job.live and job.key}

    # Claims

    def judge_claim(self, who: int, worker: str, types: Iterable[str], limit: int, taken: list[UUID]) -> None:
        view, locked = self.view(who), self.locked(who)
        wanted = set(types) - self.pauses
        must: Rows = {}
        may: Rows = {}
        for job_id, job in view.items():
            due = job.status == "pending" and not job.later and job.attempts < job.max_attempts
            if not due or job.job_type not in wanted or job_id in locked:
                continue
            # What its own transaction brought back, ticks cannot see yet: it is found for certain after the commit.
            own = who in self.open and (job_id in self.open[who].rows or job.key in self.open[who].keys)
            if job.key is None:
                may[job_id] = job
                if not own:
                    must[job_id] = job
                continue
            kin = [each for each in view.values() if each.key == job.key and each.live]
            if any(each.held for each in kin):
                continue
            unclear = job.key in self.unclear or self.doubtful(who, job)
            if unclear or job.born == min(each.born for each in kin):
                may[job_id] = job
                if not (unclear or own):
                    must[job_id] = job
        assert len(taken) <= limit, f"{len(taken)} claimed, and {limit} asked for"
        assert set(taken) <= may.keys(), f"claimed, and not to be had: {[view.get(e) for e in set(taken) - may.keys()]}"
        keys = [view[each].key for each in taken if view[each].key]
        assert len(keys) == len(set(keys)), f"two of a key at once: {keys}"
        missed = [job for job_id, job in must.items() if job_id not in taken]
        if len(taken) < limit:
            assert not missed, f"not found: {missed}"
        for job in missed:
            for other in (view[each] for each in taken):
                assert job.priority <= other.priority, f"{other} was claimed before {job}"
                same = (job.job_type, job.priority) == (other.job_type, other.priority)
                if same and not (job.lifted or other.lifted or job.key or other.key):
                    assert job.turn > other.turn, f"{other} was claimed before {job}, which is older"
        for job_id in taken:
            job = view[job_id]
            taken_job = replace(
                job, status="claimed", worker=worker, attempts=job.attempts + 1, lease=job.lease + 1, lifted=True
            )
            self.write(who, job_id, taken_job, job)

    # What becomes of a job

    def ended(self, job: Job, how: str, worker: str | None, lease: int | None) -> Job | None:
        """What a holder's word makes of it; None: it is not the holder's any more."""
        if lease is not None and not (job.held and job.lease == lease and job.worker == worker):
            return None
        if lease is None and not job.live:
            return None
        left = job.attempts < job.max_attempts
        match how:
            case "complete":
                return replace(job, status="completed")
            case "fail" | "fail later" if left:
                self.turns += 1
                return replace(job, status="pending", worker=None, later=how == "fail later", turn=self.turns)
            case "fail" | "fail later" | "final":
                return replace(job, status="failed", worker=None)
            case "release" | "snooze":
                return replace(
                    job, status="pending", worker=None, attempts=job.attempts - 1, later=how == "snooze", lifted=True
                )
            case "start":
                return replace(job, status="running")
            case "progress":
                return job
            case "cancel":
                return replace(job, status="cancelled")
            case "crash":
                status = "pending" if job.crashes + 1 < CRASH_LIMIT else "failed"
                back = replace(job, status=status, worker=None, attempts=job.attempts - 1, lifted=True)
                return replace(back, crashes=job.crashes + 1)
        raise AssertionError(how)

    def operated(self, view: Rows, job: Job, action: str, priority: int) -> tuple[bool, Job | None]:
        """Whether it fits, and what it is then."""
        if action == "retry" and not job.live:
            taken = any(
                each.live and each.job_type == job.job_type and each.unique == job.unique for each in view.values()
            )
            self.turns += 1
            revived = replace(
                job,
                status="pending",
                max_attempts=max(job.max_attempts, job.attempts + 1),
                worker=None,
                later=False,
                turn=self.turns,
                unique=None if taken else job.unique,
            )
            if job.key:
                self.unclear.add(job.key)
            return True, revived
        if action == "cancel" and job.live:
            return True, replace(job, status="cancelled")
        if action == "delete" and not job.held:
            return True, None
        if action == "run_now" and job.status == "pending" and job.later:
            self.turns += 1
            return True, replace(job, later=False, turn=self.turns)
        if action == "priority" and job.live and job.priority != priority:
            return True, replace(job, priority=priority, lifted=True)
        return False, job

    def stale(self, job: Job) -> Job:
        """Its holder, by hand, went silent."""
        status = "pending" if job.attempts < job.max_attempts else "failed"
        return replace(job, status=status, worker=None, crashes=job.crashes + 1, lifted=True)

    def lost(self, job: Job) -> Job:
        """Its worker, with a lease, went silent."""
        after = self.ended(job, "crash" if job.status == "running" else "release", job.worker, job.lease)
        assert after is not None
        return after
