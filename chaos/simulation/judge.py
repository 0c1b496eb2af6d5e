"""The verdict on a simulation, from its notes alone. It shares no code with Treadle.

A run begins with `start` and ends with `end`, or when its process is killed. A run whose process was frozen may be a
zombie: its lease may have run out while it could not notice. From then on it excuses what it overlaps.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from chaos.simulation.app import CRASH_LIMIT, FIRST_RETRY, LIMITS, RETRIES, SCHEDULES, TENANT_LIMITS
from chaos.simulation.plan import Plan
from chaos.simulation.record import Note

# Without faults, a plain job starts within this time: the checks after a notification, and jobs that wait in a worker
# until it gives them back.
LATE = 1.3
# Times of schedules that are younger than this, when all has drained, may still be to come.
YOUNG = 3.0
# A job that was claimed starts or is given back within this time, of a worker that is not frozen.
CLAIMED = 2.0
# Without faults, an outcome is stored within this time: a statement, a commit that takes long, and another attempt.
OUTCOME = 1.5
# Clocks are exact, but the database rounds to microseconds.
EXACT = 0.00001


@dataclass(slots=True)
class Run:
    n: int
    start: Note
    end: float = math.inf
    frozen: float = math.inf
    """When its process was frozen, if it was."""
    how: str = "killed"
    died: float = math.inf
    """When its process was killed, perhaps before what the run had done was stored."""

    def overlaps(self, other: "Run") -> bool:
        return self.start.at < min(other.end, other.frozen) and other.start.at < min(self.end, self.frozen)


def judge(plan: Plan, notes: list[Note]) -> list[str]:
    enqueued = {each.n: each for each in notes if each.what == "enqueued"}
    runs = _runs(notes)
    of_job: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        of_job[run.n].append(run)
    problems = [f"logged or raised: {each.message}" for each in notes if each.what == "error"]
    problems += _lost_or_doubled(notes, enqueued, of_job)
    for n, those in of_job.items():
        if n in enqueued:
            problems += _in_time(n, enqueued[n], those)
    problems += _after(notes, enqueued, of_job)
    problems += _keys(runs, enqueued)
    problems += _limits(runs)
    problems += _late_limits(runs, notes)
    problems += _schedules(notes)
    if plan.is_calm:
        problems += _late(runs, of_job, enqueued)
        problems += _late_outcomes(notes, of_job)
    return problems


def _runs(notes: list[Note]) -> list[Run]:
    runs: dict[tuple[int, int, str], Run] = {}
    of_process: dict[str, list[Run]] = defaultdict(list)
    for note in notes:
        if note.what == "start":
            runs[note.n, note.fence, note.process] = run = Run(note.n, note)
            of_process[note.process].append(run)
        elif note.what == "end":
            ended = runs[note.n, note.fence, note.process]
            ended.end, ended.how = note.at, note.how
        elif note.what == "killed":
            for run in of_process.pop(note.process, []):
                run.died, run.end = note.at, min(run.end, note.at)
        elif note.what == "frozen":
            for run in of_process[note.process]:
                run.frozen = min(run.frozen, note.at) if run.end == math.inf else run.frozen
    return list(runs.values())


def _lost_or_doubled(notes: list[Note], enqueued: dict[int, Note], of_job: dict[int, list[Run]]) -> Iterator[str]:
    found = {each.n: each for each in notes if each.what == "found" and each.type != "beat"}
    for n in enqueued.keys() - found.keys():
        yield f"job {n} is lost"
    for n in sorted(of_job.keys() - enqueued.keys()):
        yield f"job {n} ran and was not enqueued"
    outcomes = Counter(each.job for each in notes if each.what == "outcome")
    refused = Counter(each.n for each in notes if each.what == "refused by hand")
    for n, note in found.items():
        those = of_job.get(n, [])
        if n not in enqueued:
            yield f"job {n} is in the table and was not enqueued"
        if note.status not in ("completed", "failed") and (note.status != "cancelled" or not enqueued[n].after):
            yield f"job {n} is {note.status} at the end"
        if outcomes[note.job] > 1:
            yield f"job {n} has {outcomes[note.job]} outcomes"
        returned = [each for each in those if each.how == "returned"]
        interrupted = [
            each for each in those if each.how == "killed" or each.frozen < math.inf or not each.start.attempt
        ]
        failures = [each for each in those if each.how == "failed"]
        if note.status == "completed" and not returned:
            yield f"job {n} completed and did not return"
        # A run that has returned may have been killed before that was stored.
        blamed = len(
            [each for each in those if each.how in ("killed", "cancelled", "returned") or each.frozen < math.inf]
        )
        if note.status == "failed" and len(failures) + refused[n] <= RETRIES and blamed < CRASH_LIMIT:
            yield f"job {n} failed after {len(failures)} failures and {blamed} interrupted runs"
        if len(failures) > RETRIES + 1 + len(interrupted):
            yield f"job {n} failed {len(failures)} times"
        if len(those) > RETRIES + 2 + 3 * CRASH_LIMIT:
            yield f"job {n} ran {len(those)} times"


def _in_time(n: int, enqueued: Note, runs: list[Run]) -> Iterator[str]:
    due = enqueued.stored + enqueued.delay
    for run in runs:
        if run.start.at < max(due, enqueued.at) - EXACT:
            yield f"job {n} started {due - run.start.at:.3f} s early"
    for before, after in pairwise(runs):
        if before.overlaps(after):
            yield f"two runs of job {n} overlapped"
        pause = {"failed": FIRST_RETRY / 2, "snoozed": FIRST_RETRY}.get(before.how, 0.0)
        if before.died <= after.start.at:
            pause = 0.0
        if after.start.at < before.end + pause - EXACT and before.frozen == math.inf and before.end < math.inf:
            yield f"job {n} was retried too early, at {after.start.at:.3f}"


def _after(notes: list[Note], enqueued: dict[int, Note], of_job: dict[int, list[Run]]) -> Iterator[str]:
    """Jobs that wait for others. What failed or was cancelled ends them too, unless they said that it may."""
    status = {each.n: each.status for each in notes if each.what == "found" and each.type != "beat"}
    for n, note in enqueued.items():
        needed = [other for other, way in note.after or () if way != "ended"]
        if status.get(n) == "cancelled" and all(status.get(other) == "completed" for other in needed):
            yield f"job {n} was cancelled although all that it waited for completed"
        for other, _ in note.after or ():
            if not of_job.get(n):
                continue
            start = of_job[n][0].start.at
            if other in needed and status.get(other) != "completed":
                yield f"job {n} ran although job {other} is {status.get(other)}"
            ends = [each.end for each in of_job.get(other, ())]
            if ends and min(ends) > start:
                yield f"job {n} started before job {other} had ended, at {start:.3f}"


def _keys(runs: list[Run], enqueued: dict[int, Note]) -> Iterator[str]:
    by_key: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.start.key and run.n in enqueued:
            by_key[run.start.key].append(run)
    for key, those in by_key.items():
        first: dict[int, float] = {}
        for run in those:
            first.setdefault(run.n, run.start.at)
        for run in those:
            for other in those:
                if run.n == other.n:
                    continue
                if run.start.at <= other.start.at and run.overlaps(other):
                    yield f"jobs {run.n} and {other.n} of key {key} overlapped at {other.start.at:.3f}"
                # Enqueued by one transaction that had ended before the other enqueued its own.
                earlier = enqueued[run.n].at < enqueued[other.n].stored
                if earlier and run.start.at > first[other.n] and run.frozen == math.inf:
                    yield f"job {run.n} of key {key} ran after job {other.n}, which was enqueued later"


def _limits(runs: list[Run]) -> Iterator[str]:
    by_limit: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.start.type in LIMITS or run.start.type in TENANT_LIMITS:
            by_limit[run.start.type, run.start.tenant].append(run)
    for (name, tenant), those in by_limit.items():
        limit = LIMITS.get(name) or TENANT_LIMITS[name]
        for run in those:
            at_once = [each for each in those if each.start.at <= run.start.at < min(each.end, each.frozen)]
            if len(at_once) > limit:
                shown = ", ".join(str(each.n) for each in at_once)
                yield f"jobs {shown} ran at once under the limit of {name} {tenant} at {run.start.at:.3f}"


def _late_limits(runs: list[Run], notes: list[Note]) -> Iterator[str]:
    """Limits that an operator has set while jobs ran. What was claimed before may start soon after."""
    for limit in (each for each in notes if each.what == "limited"):
        those = [each for each in runs if each.start.type == limit.type]
        for run in those:
            at_once = [each for each in those if each.start.at <= run.start.at < min(each.end, each.frozen)]
            if run.start.at > limit.at + CLAIMED and len(at_once) > limit.amount:
                shown = ", ".join(str(each.n) for each in at_once)
                yield f"jobs {shown} ran at once at {run.start.at:.3f} under a limit set at {limit.at:.3f}"


def _schedules(notes: list[Note]) -> Iterator[str]:
    drained = max((each.at for each in notes if each.what == "found"), default=0.0)
    for name, every in SCHEDULES.items():
        jobs: dict[float, set[str]] = defaultdict(set)
        for note in notes:
            if note.what == "beat" and note.schedule == name:
                jobs[note.time].add(note.job)
        for time, those in jobs.items():
            if len(those) > 1:
                yield f"schedule {name} has {len(those)} jobs for {time:g}"
            if time % every:
                yield f"schedule {name} has a job for {time:g}, which is not one of its times"
        time = min(jobs, default=every)
        while (time := time + every) < drained - YOUNG:
            if time not in jobs:
                yield f"schedule {name} has no job for {time:g}"


def _late(runs: list[Run], of_job: dict[int, list[Run]], enqueued: dict[int, Note]) -> Iterator[str]:
    """Of jobs that nothing holds up. While all workers are busy, any job has to wait."""
    for n, note in enqueued.items():
        due = max(note.at, note.stored + note.delay)
        if note.type != "plain" or n not in of_job or note.after:
            continue
        start = of_job[n][0].start.at
        if start - due > LATE and not _all_busy(runs, due, start):
            yield f"job {n} started {start - due:.3f} s late"


def _all_busy(runs: Iterable[Run], begin: float, end: float) -> bool:
    """Whether there were at least as many runs as one worker takes, at any time in between."""
    during = [each for each in runs if each.start.at < end and each.end > begin]
    return len(during) >= 3


def _late_outcomes(notes: list[Note], of_job: dict[int, list[Run]]) -> Iterator[str]:
    """Nothing holds up the outcome of a job for longer than a commit takes."""
    ids = {each.n: each.job for each in notes if each.what == "found"}
    told = {each.job: each.at for each in notes if each.what == "outcome"}
    for n, those in of_job.items():
        at = told.get(ids.get(n, ""))
        if at is not None and at - those[-1].end > OUTCOME:
            yield f"the outcome of job {n} was stored {at - those[-1].end:.3f} s late"
