"""Invariants of the tables that hold in every snapshot, and the ledger of the calls made by chaos/threads.py."""

import threading
from collections import Counter, defaultdict
from time import monotonic
from typing import NamedTuple, TypeAlias
from uuid import UUID

from treadle import JobRow

# Claimable jobs that no claim or tick would find: below the floors that a tick would search, or without a lane. A job
# that a running transaction has locked is found when that transaction ends.
LOST = """
    select job.id, job.run_at, bound.floor
    from jobs as job
    cross join safe_tick(pg_current_snapshot()) as safe
    left join lateral safe_floor(row(job.queue, job.job_type, job.priority, job.partition)::lane, safe) as bound on true
    where job.status = 'pending' and job.holds = 0 and job.attempts < job.max_attempts
      and not job.xmax = any (array(select running::xid from pg_snapshot_xip(pg_current_snapshot()) as running))
      and (
            job.run_at < bound.floor
            or not exists (
                select from lanes as lane
                where (lane.queue, lane.job_type, lane.priority) = (job.queue, job.job_type, job.priority)
                  and (
                        lane.dormant_xid is null
                        or lane.wakes_at <= job.run_at
                        or lane.dormant_xid >= safe.xid
                        or lane.dormant_xid = any (safe.running)
                      )
            )
          )
"""

# Queries that must return no rows in any snapshot.
BROKEN = {
    "claimable jobs that no claim or tick would find": LOST,
    "two running jobs with the same key": """
        select key, array_agg(id) from jobs
        where key is not null and status in ('claimed', 'running') group by key having count(*) > 1""",
    "a key whose jobs are all blocked": """
        select key, array_agg(id) from jobs
        where key is not null and status in ('pending', 'claimed', 'running')
        group by key having bool_and(status = 'pending' and holds & 1 = 1)""",
    "a job that waits for others and that nothing would free": """
        select job.id from jobs as job
        where job.status = 'pending' and job.holds & 2 = 2
          and not exists (
                select from dependencies as edge join jobs as source on source.id = edge.after_id
                where edge.job_id = job.id and edge.watched and source.finished_at is null
                  and source.flags & flag_watched() <> 0
          )
          and not exists (
                select from dependency_checks as noted
                left join dependencies as edge on edge.job_id = job.id and edge.after_id = any (noted.jobs)
                where job.id = any (noted.jobs) or edge.job_id is not null
          )""",
}
UNFINISHED = """
    select jobs.id, job_type, priority, status, holds, key, run_at::text, dormant_xid::text, wakes_at::text,
      (select array_agg(floor::text || ' by ' || xid order by xid desc) from floors
       where (floors.queue, floors.job_type, floors.priority) = (jobs.queue, jobs.job_type, jobs.priority))
    from jobs left join lanes using (queue, job_type, priority, partition)
    where status in ('pending', 'claimed', 'running') limit 20"""

Outcome: TypeAlias = tuple[JobRow, str, float]


class Enqueued(NamedTuple):
    id: UUID
    key: str | None
    began: float


class CallLedger:
    """What the threads did and saw. Each call took place between its start and its return, by the caller's clock."""

    def __init__(self) -> None:
        self.jobs: dict[UUID, tuple[Enqueued, float]] = {}  # with the time after their commit
        self.found_at: dict[UUID, float] = {}
        self.finished_at: dict[UUID, float] = {}
        self.claims: set[tuple[UUID, int]] = set()
        self.outcomes: dict[tuple[UUID, int], str] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.longest = 0.0
        self.lock = threading.RLock()

    def committed(self, made: list[Enqueued]) -> None:
        now = monotonic()
        with self.lock:
            self.jobs.update({job.id: (job, now) for job in made})

    def claim_returned(self, rows: list[JobRow]) -> None:
        now = monotonic()
        with self.lock:
            for row in rows:
                self.found_at.setdefault(row.id, now)

    def finished(self, job_id: UUID, began: float) -> None:
        with self.lock:
            self.finished_at[job_id] = min(began, self.finished_at.get(job_id, began))

    def claimed(self, rows: list[JobRow], outcomes: list[Outcome]) -> None:
        """Record a committed claim, and the outcomes that were accepted."""
        with self.lock:
            for row in rows:
                if (row.id, row.lease) in self.claims:
                    self.problems.append(f"claimed twice under one lease number: {row}")
                self.claims.add((row.id, row.lease))
            for row, outcome, began in outcomes:
                if known := self.outcomes.get((row.id, row.lease)):
                    self.problems.append(f"two accepted outcomes of one claim, {known} and {outcome}: {row}")
                self.outcomes[row.id, row.lease] = outcome
                self.counts[outcome] += 1
                if outcome in ("complete", "final"):
                    self.finished(row.id, began)

    def verify(self, rows: list[tuple[UUID, str, int]], deleted: set[UUID], probes: set[UUID]) -> None:
        """Compare with the table after the run: the id, status and lease number of each job."""
        for job_id in self.jobs.keys() - {row[0] for row in rows} - deleted:
            self.problems.append(f"missing from the table: {job_id}")
        for job_id, status, lease in rows:
            if job_id not in self.jobs:
                self.problems.append(f"never committed, but in the table: {job_id}")
            if status == "completed" and self.outcomes.get((job_id, lease)) != "complete":
                self.problems.append(
                    f"completed, but not by the worker that claimed it: {job_id} under lease number {lease}"
                )
        by_key: dict[str | None, list[tuple[Enqueued, float]]] = defaultdict(list)
        for job, committed in self.jobs.values():
            by_key[job.key].append((job, committed))
            if job.id in probes:
                self.longest = max(self.longest, self.found_at.get(job.id, 1e99) - committed)
        by_key.pop(None, None)
        for key, jobs in by_key.items():
            for job, _ in jobs:
                for older, committed in jobs:
                    if committed < job.began and self.found_at.get(job.id, 1e99) < self.finished_at.get(older.id, 0.0):
                        self.problems.append(f"out of order in {key}: {job.id} was claimed before {older.id} finished")
