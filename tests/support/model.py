"""A model of the queue in plain Python, without a clock: the oracle of the model-based test (test_model.py).

Time is a count of turns, and a job is due now or in an hour. An open transaction sees what was committed and its own
changes; the rows that it changed are locked for the other transactions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

UNFINISHED, CLAIMED = ("pending", "claimed", "running"), ("claimed", "running")
CRASH_LIMIT = 2  # low, so that it is reached
LIMITED = "c"  # the job type that has a limit


@dataclass(frozen=True)
class Job:
    turn: int
    """Its place in its lane: lower turns are claimed first."""
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
    losses: int = 0
    place_unknown: bool = False
    """It was returned to its lane, or was blocked by its key: its place is no longer known exactly."""
    enqueued_at_turn: int = 0

    @property
    def unfinished(self) -> bool:
        return self.status in UNFINISHED

    @property
    def claimed(self) -> bool:
        return self.status in CLAIMED

    def facts(self) -> tuple[object, ...]:
        """The columns of the table that must match."""
        counts = (self.attempts, self.max_attempts, self.lease, self.crashes, self.losses)
        return (self.status, self.job_type, self.priority, self.key, self.unique, self.worker, self.later, *counts)


Rows: TypeAlias = dict[UUID, Job]


@dataclass
class Transaction:
    rows: dict[UUID, Job | None] = field(default_factory=dict)
    locks: set[UUID] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """Keys of jobs that it enqueued or finished: the jobs blocked by them may be locked, too."""
    may_lock_limit: bool = False
    """It has claimed jobs under the limit, or tried to: no other claim can until it ends."""
    uniques: set[tuple[str, str | None]] = field(default_factory=set)
    """Type and unique key of each row that it wrote, even if deleted again: the index keeps them until it ends."""


class Oracle:
    def __init__(self) -> None:
        self.committed: Rows = {}
        self.open: dict[int, Transaction] = {}
        self.pauses: set[str] = set()
        self.amount = 2
        """How many jobs of the type that has a limit may run at once."""
        self.unclear: set[str] = set()
        """Keys of which jobs were enqueued in overlapping transactions, or retried: their order is not guaranteed."""
        self.turns = 0

    # Transactions

    def view(self, actor: int) -> Rows:
        own = self.open[actor].rows if actor in self.open else {}
        return {each: job for each, job in {**self.committed, **own}.items() if job is not None}

    def write(self, actor: int, job_id: UUID, job: Job | None, before: Job | None = None) -> None:
        key = (job or before or Job(0, "", 0, 0)).key
        if key and (before is None or (before.unfinished and not (job and job.unfinished))):
            self._note_key(actor, key)
        if actor in self.open:
            self.open[actor].rows[job_id] = job
            self.open[actor].locks.add(job_id)
            self.open[actor].uniques |= {(each.job_type, each.unique) for each in (job, before) if each and each.unique}
        elif job is None:
            self.committed.pop(job_id, None)
        else:
            self.committed[job_id] = job
        self._settle_keys()

    def commit(self, actor: int) -> None:
        for job_id, job in self.open.pop(actor).rows.items():
            self.write(-1, job_id, job, job)
        self._settle_keys()

    def others(self, actor: int) -> list[Transaction]:
        return [each for other, each in self.open.items() if other != actor]

    def locked(self, actor: int) -> set[UUID]:
        """The rows that other transactions have certainly locked."""
        return {job_id for each in self.others(actor) for job_id in each.locks}

    def key_may_be_locked(self, actor: int, job: Job) -> bool:
        """Whether other transactions may have locked it, because of its key."""
        return job.key is not None and any(job.key in each.keys for each in self.others(actor))

    def may_have_to_wait(self, actor: int, job: Job) -> bool:
        """Whether finishing it may wait for a lock: it unblocks the next job of its key, which may be locked."""
        same_key = {each for each, other in self.committed.items() if job.key is not None and other.key == job.key}
        return self.key_may_be_locked(actor, job) or bool(same_key & self.locked(actor))

    def unique_key_is_undecided(self, actor: int, job_type: str, unique: str | None) -> bool:
        """Whether only the end of another transaction decides if a job with this unique key exists."""
        return any((job_type, unique) in each.uniques for each in self.others(actor))

    def _note_key(self, actor: int, key: str) -> None:
        if any(key in each.keys for each in self.others(actor)):
            self.unclear.add(key)
        if actor in self.open:
            self.open[actor].keys.add(key)

    def _settle_keys(self) -> None:
        """The order of a key is clear again once none of its jobs is left."""
        if not self.open:
            self.unclear &= {job.key for job in self.committed.values() if job.unfinished and job.key}

    # Claims

    def check_claim(self, actor: int, worker: str, types: Iterable[str], limit: int, claimed_ids: list[UUID]) -> None:
        view, locked = self.view(actor), self.locked(actor)
        wanted = set(types) - self.pauses
        required: Rows = {}
        allowed: Rows = {}
        for job_id, job in view.items():
            due = job.status == "pending" and not job.later and job.attempts < job.max_attempts
            if not due or job.job_type not in wanted or job_id in locked:
                continue
            # Ticks cannot see jobs that this open transaction returned; they are certainly found only after the commit.
            own = actor in self.open and (job_id in self.open[actor].rows or job.key in self.open[actor].keys)
            if job.key is None:
                allowed[job_id] = job
                if not own:
                    required[job_id] = job
                continue
            same_key = [each for each in view.values() if each.key == job.key and each.unfinished]
            if any(each.claimed for each in same_key):
                continue
            unclear = job.key in self.unclear or self.key_may_be_locked(actor, job)
            if unclear or job.enqueued_at_turn == min(each.enqueued_at_turn for each in same_key):
                allowed[job_id] = job
                if not (unclear or own):
                    required[job_id] = job
        assert len(claimed_ids) <= limit, f"{len(claimed_ids)} jobs claimed with a limit of {limit}"
        wrong = [view.get(each) for each in set(claimed_ids) - allowed.keys()]
        assert set(claimed_ids) <= allowed.keys(), f"claimed although not claimable: {wrong}"
        keys = [view[each].key for each in claimed_ids if view[each].key]
        assert len(keys) == len(set(keys)), f"two jobs of a key at once: {keys}"
        may_miss = self._check_limit(actor, wanted, [view[each] for each in claimed_ids])
        missed = [job for job_id, job in required.items() if job_id not in claimed_ids and job.job_type not in may_miss]
        if len(claimed_ids) < limit:
            assert not missed, f"claimable but not claimed: {missed}"
        for job in missed:
            for other in (view[each] for each in claimed_ids):
                assert job.priority <= other.priority, f"{other} was claimed before {job}"
                same = (job.job_type, job.priority) == (other.job_type, other.priority)
                if same and not (job.place_unknown or other.place_unknown or job.key or other.key):
                    assert job.turn > other.turn, f"{other} was claimed before {job}, which is older"
        for job_id in claimed_ids:
            job = view[job_id]
            claimed_job = replace(
                job, status="claimed", worker=worker, attempts=job.attempts + 1, lease=job.lease + 1, place_unknown=True
            )
            self.write(actor, job_id, claimed_job, job)

    def _check_limit(self, actor: int, wanted: set[str], claimed: list[Job]) -> set[str]:
        """No more run than the limit allows. Returns the types of which jobs may stay."""
        if LIMITED not in wanted:
            return set()
        new = sum(job.job_type == LIMITED for job in claimed)
        locked = any(each.may_lock_limit for each in self.others(actor))
        # What another transaction has claimed or finished is not committed: both count.
        views: list[Mapping[UUID, Job | None]] = [self.view(actor), *(each.rows for each in self.others(actor))]
        used = {
            job_id for rows in views for job_id, job in rows.items() if job and job.claimed and job.job_type == LIMITED
        }
        assert not new or len(used) + new <= self.amount, f"{len(used)} + {new} run under a limit of {self.amount}"
        if actor in self.open:
            self.open[actor].may_lock_limit = True
        # A claim that finds some room does not look for all of it: the next claim does.
        return {LIMITED} if locked or new or len(used) >= self.amount else set()

    # Changes of a job

    def apply_outcome(self, job: Job, how: str, worker: str | None, lease: int | None) -> Job | None:
        """The job after a worker reported this outcome; None if the worker has lost the job."""
        if lease is not None and not (job.claimed and job.lease == lease and job.worker == worker):
            return None
        if lease is None and not job.unfinished:
            return None
        left = job.attempts < job.max_attempts
        match how:
            case "complete":
                return replace(job, status="completed")
            case "fail" | "fail later" if left:
                self.turns += 1
                return replace(job, status="pending", worker=None, later=how == "fail later", turn=self.turns, losses=0)
            case "fail" | "fail later" | "final":
                return replace(job, status="failed", worker=None, losses=0)
            case "release" | "snooze":
                return replace(
                    job,
                    status="pending",
                    worker=None,
                    attempts=job.attempts - 1,
                    later=how == "snooze",
                    place_unknown=True,
                )
            case "start":
                return replace(job, status="running")
            case "progress":
                return job
            case "cancel":
                return replace(job, status="cancelled")
            case "crash":
                status = "pending" if job.crashes + 1 < CRASH_LIMIT else "failed"
                back = replace(job, status=status, worker=None, attempts=job.attempts - 1, place_unknown=True)
                return replace(back, crashes=job.crashes + 1)
            case "loss":
                status = "pending" if job.crashes + job.losses < CRASH_LIMIT else "failed"
                back = replace(job, status=status, worker=None, attempts=job.attempts - 1, place_unknown=True)
                return replace(back, losses=job.losses + 1)
        raise AssertionError(how)

    def apply_operation(self, view: Rows, job: Job, action: str, priority: int) -> tuple[bool, Job | None]:
        """Whether the action is possible in this status, and the job after it (None: deleted)."""
        if action == "retry" and not job.unfinished:
            unique_key_in_use = any(
                each.unfinished and each.job_type == job.job_type and each.unique == job.unique
                for each in view.values()
            )
            self.turns += 1
            revived = replace(
                job,
                status="pending",
                max_attempts=max(job.max_attempts, job.attempts + 1),
                worker=None,
                later=False,
                turn=self.turns,
                unique=None if unique_key_in_use else job.unique,
            )
            if job.key:
                self.unclear.add(job.key)
            return True, revived
        if action == "cancel" and job.unfinished:
            return True, replace(job, status="cancelled")
        if action == "delete" and not job.claimed:
            return True, None
        if action == "run_now" and job.status == "pending" and job.later:
            self.turns += 1
            return True, replace(job, later=False, turn=self.turns)
        if action == "priority" and job.unfinished and job.priority != priority:
            return True, replace(job, priority=priority, place_unknown=True)
        return False, job

    def recover_stale(self, job: Job) -> Job:
        """The job after its client, which has no lease, has given no sign of life for too long."""
        status = "pending" if job.attempts < job.max_attempts else "failed"
        return replace(job, status=status, worker=None, crashes=job.crashes + 1, place_unknown=True)

    def recover_lost(self, job: Job) -> Job:
        """The job after its worker has missed its lease."""
        after = self.apply_outcome(job, "loss" if job.status == "running" else "release", job.worker, job.lease)
        assert after is not None
        return after


def difference(found: Mapping[UUID, object], expected: Mapping[UUID, object]) -> str:
    both = found.keys() | expected.keys()
    return "\n".join(
        f"{each}: {found.get(each)} instead of {expected.get(each)}"
        for each in both
        if found.get(each) != expected.get(each)
    )
