"""Judges a job queue by its ledger alone: which guarantees held while it was used, and while faults were injected.

    python chaos/judge.py LEDGER

prints one line for each violation, and exits with 1 if there are any. It imports nothing but the standard library, and
nothing in it is about Treadle: whoever writes such a ledger can judge any queue.

A ledger is a file, or a folder of `*.jsonl` files, one for each process that writes. Each line is a JSON object with
`what` happened, and when it happened, `at`: seconds of a clock that all processes share. (A line that a killed process
has not finished is skipped.) Jobs have two names: `id`, which the queue gives them, and `token`, which the producer
puts into the payload, so that a job is recognized although the reply of its enqueue was lost. `lease` is the number of
an attempt: a later one of the same job has a larger number.

    By producers
    invoked      a call that adds jobs is about to begin: their `tokens`. All of them must be added, or none. What is
                 said here about the jobs, or later as `promised`, is what the queue has to keep:
                   key         jobs with one key run one at a time, in the order in which they were added
                   after       [[id or token, needs], …]: it runs when these have `completed`, `failed` or `ended`
                   not_before  no attempt starts before this time
                   once        [name, seconds]: of those with this name, at most one is added in any such period
                   unique      the call may return a job that exists, instead of adding one
    promised     more about some `tokens`
    returned     the call returned: `tokens`, and the `ids` of the jobs if it says them
    rolled_back  its transaction was rolled back, or failed before the commit: `tokens`
    unknown      its reply was lost: `tokens`. So it is if nothing follows `invoked`: the producer was killed
    cancelling   a job, `id`, is about to be cancelled by somebody
    moving       the same of a job that is retried, put off or brought forward: nothing is known of its order any more

    By handlers
    start        an attempt starts: `id`, `lease`, `token`, process `pid`; and if it has them:
                   others      runs that exclude this one and still go on, as locks outside of the queue show: `lock`,
                               and of the run that has it `id`, `lease`, `pid`
                   limits      [[name, key, weight], …] of the limits under which it runs
                   unasked     the client has taken it without asking the queue: it counts, and is not judged
                   schedule    and `scheduled_for`: the time of a schedule for which the job was added
    finishing    the handler is about to commit the completion of its job itself, before it ends: `id`, `lease`
    end          an attempt ends: `id`, `lease`, and `how`: returned, raised, snoozed, cancelled, stopped; or broke: the
                 handler has returned, and broken its process, so that it may complete or fail

    By those who watch
    accepted     the queue has accepted an `outcome` of an attempt: `id`, `lease`
    claimed      the queue has given the job out: `id`, `lease`. If it is not known, an attempt counts from its start
    taken        the queue has taken the job from its worker, also because it has ended: `id`, `lease`
    limit        the limit `name` has been changed to `amount` (null: there is none), for all keys or one `key`;
                 `invoked` is when that began. Until then, there is no limit
    fault        what was `did`: the processes `pids` were killed, stopped or continued; with `clock`, the clock of the
                 queue was set
    row          what the queue says at the end: `id`, `token`, `status`, `lease` of the last attempt, `max_attempts`,
                 and `excused`: it says why it has failed without having used all attempts
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Record: TypeAlias = dict[str, Any]
Claim: TypeAlias = tuple[str, int]
"""Id and lease."""

FINISHED = ("completed", "failed", "cancelled")
# A process that was stopped and continues needs this long to notice that it lost its job.
NOTICE_SECONDS = 5.0
EARLY_SECONDS = 0.02  # by which two clocks of one machine may differ
NEVER, FOREVER = float("-inf"), float("inf")


class Violation(NamedTuple):
    kind: str
    text: str


class Run(NamedTuple):
    """An attempt, as far as limits are concerned."""

    id: str
    lease: int
    pid: int
    claimed: float
    start: float
    end: float
    limits: Sequence[tuple[str, str, int]]
    """Name, key and weight."""
    is_judged: bool = True


@dataclass
class History:
    """The records of a ledger, by what they are about."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    invoked: dict[str, float] = field(default_factory=dict)
    returned: dict[str, float] = field(default_factory=dict)
    returned_ids: dict[str, str] = field(default_factory=dict)
    """Token by id."""
    unique: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    cancelling: dict[str, float] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)
    keys: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    after: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    once: defaultdict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    """Period and token, by name."""
    starts: list[Record] = field(default_factory=list)
    ends: dict[Claim, Record] = field(default_factory=dict)
    finishing: dict[Claim, float] = field(default_factory=dict)
    accepted: list[Record] = field(default_factory=list)
    claimed: dict[Claim, float] = field(default_factory=dict)
    taken: dict[Claim, float] = field(default_factory=dict)
    changes: list[Record] = field(default_factory=list)
    """Of limits."""
    killed: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    stops: list[tuple[int, float, float]] = field(default_factory=list)
    """Process id, and the times at which it was stopped and continued."""
    clock_was_set: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Record] = field(default_factory=dict)

    def ended(self, claim: Claim) -> float | None:
        """When an attempt ended for others: it may finish its job before."""
        if claim in self.finishing:
            return self.finishing[claim]
        return self.ends[claim]["at"] if claim in self.ends else None

    def how(self, claim: Claim) -> str:
        return str(self.ends[claim]["how"]) if claim in self.ends else "no end recorded"

    def was_stopped(self, process: int | None, at: float) -> bool:
        return any(process == each and since <= at <= until + NOTICE_SECONDS for each, since, until in self.stops)


def judge(records: Iterable[Record]) -> list[Violation]:
    """The records must be ordered by time."""
    history = read_history(records)
    return [
        *_lost_and_phantom(history),
        *_ends(history),
        *_outcomes(history),
        *_overlaps(history),
        *_too_early(history),
        *_order_of_keys(history),
        *_doubled(history),
        *over_limits(_runs(history), history.changes),
    ]


def read_history(records: Iterable[Record]) -> History:
    history = History()
    stopped: dict[int, float] = {}
    for record in records:
        _add(history, record)
        if record["what"] != "fault":
            continue
        history.faults[record["did"]] += 1
        for process in record.get("pids", ()):
            if record["did"] == "killed":
                history.killed[process].append(record["at"])
            elif record["did"] == "stopped":
                stopped[process] = record["at"]
            elif record["did"] == "continued" and process in stopped:
                history.stops.append((process, stopped.pop(process), record["at"]))
    history.stops += [(process, since, FOREVER) for process, since in stopped.items()]
    return history


def _add(history: History, record: Record) -> None:
    tokens, at = record.get("tokens", ()), record["at"]
    match record["what"]:
        case "invoked":
            history.calls.append(tuple(tokens))
            history.invoked |= dict.fromkeys(tokens, at)
            _promise(history, record)
        case "promised":
            _promise(history, record)
        case "returned":
            history.returned |= dict.fromkeys(tokens, at)
            history.returned_ids |= dict(zip(record["ids"], tokens, strict=False))
        case "rolled_back":
            history.rolled_back.update(tokens)
        case "cancelling":
            history.cancelling.setdefault(record["id"], at)
        case "moving":
            history.moving.add(record["id"])
        case "start":
            history.starts.append(record)
        case "finishing":
            history.finishing[record["id"], record["lease"]] = at
        case "end":
            history.ends[record["id"], record["lease"]] = record
        case "accepted":
            history.accepted.append(record)
        case "claimed":
            history.claimed[record["id"], record["lease"]] = at
        case "taken":
            history.taken[record["id"], record["lease"]] = at
        case "limit":
            history.changes.append(record)
        case "row":
            history.rows[record["id"]] = record
        case "fault" if record.get("clock"):
            history.clock_was_set = True


def _promise(history: History, record: Record) -> None:
    for token in record["tokens"]:
        if record.get("unique"):
            history.unique.add(token)
        if key := record.get("key"):
            history.keys[key].append(token)
        if after := record.get("after"):
            history.after[token] = [(str(other), str(needs)) for other, needs in after]
        if not_before := record.get("not_before"):
            history.not_before[token] = not_before
        if once := record.get("once"):
            history.once[once[0]].append((once[1], token))


def _lost_and_phantom(history: History) -> Iterator[Violation]:
    """What was added is there, and nothing else is."""
    tokens = Counter(row["token"] for row in history.rows.values())
    for job in sorted(history.returned_ids.keys() - history.rows.keys()):
        yield Violation("lost", f"job {job}: its enqueue returned, but it is not in the table")
    for token in sorted(history.returned.keys() - history.unique - tokens.keys()):
        yield Violation("lost", f"token {token}: its enqueue returned, but no job has this token")
    for token, number in tokens.items():
        if token not in history.invoked:
            yield Violation("phantom", f"token {token}: a job that was never enqueued")
        if token in history.rolled_back:
            yield Violation("rolled back", f"token {token}: its enqueue was rolled back, but the job exists")
        if number > 1:
            yield Violation("phantom", f"token {token}: enqueued once, but {number} jobs have it")
    for start in history.starts:
        if "schedule" in start:
            continue
        if start["token"] in history.rolled_back:
            yield Violation("rolled back", f"job {start['id']} ran, but its enqueue was rolled back")
        elif start["token"] not in history.invoked or start["id"] not in history.rows:
            yield Violation("phantom", f"job {start['id']} ran, but was never enqueued")
    for call in history.calls:
        found = [token for token in call if token in tokens]
        if found and len(found) < len(call) and not history.rolled_back.intersection(call):
            yield Violation("not atomic", f"{len(found)} of {len(call)} jobs of one call exist: {call[0]} …")


def _ends(history: History) -> Iterator[Violation]:
    """Each job is finished, and the ledger explains its status."""
    raised = Counter(job for (job, _), end in history.ends.items() if end["how"] in ("raised", "broke"))
    gave_up = {job for (job, _), end in history.ends.items() if end["how"] == "cancelled"}
    started = {(start["id"], start["lease"]) for start in history.starts}
    ids = {row["token"]: job for job, row in history.rows.items()}
    for job, row in history.rows.items():
        claim = (job, row["lease"])
        if row["status"] not in FINISHED:
            yield Violation("lost", f"job {job} never finished: it is {row['status']}, lease number {row['lease']}")
        elif row["status"] == "completed":
            if claim not in started:
                text = f"job {job}: completed under lease number {row['lease']}, but did not run under it"
                yield Violation("lost", text)
            elif claim not in history.finishing and history.how(claim) not in ("returned", "broke"):
                yield Violation("lost", f"job {job}: completed, but its handler did not return ({history.how(claim)})")
        elif row["status"] == "failed":
            # One that was cancelled after its claim, and then retried, has used an attempt, which may not have begun.
            used = raised[job] + (job in history.cancelling and job in history.moving)
            if used < row["max_attempts"] and not row.get("excused"):
                text = f"job {job}: failed too early, after {raised[job]} of {row['max_attempts']} attempts"
                yield Violation("lost", text)
        elif job not in history.cancelling.keys() | gave_up and not any(
            _id(other, ids) in history.moving or _is_refused(history.rows[_id(other, ids)]["status"], needs)
            for other, needs in history.after.get(row["token"], ())
        ):
            yield Violation("lost", f"job {job}: cancelled, but nothing cancelled it")


def _id(other: str, ids: dict[str, str]) -> str:
    """Of a job that is named by its token, or by its id."""
    return ids.get(other, other)


def _is_refused(status: str, needs: str) -> bool:
    """Whether a job that waited for one which ended like this must not run."""
    return needs != "ended" and (status == "completed") != (needs == "completed")


def _outcomes(history: History) -> Iterator[Violation]:
    """Each attempt has at most one outcome; each job has one final outcome, and it belongs to its last attempt."""
    by_claim: defaultdict[Claim, list[str]] = defaultdict(list)
    finals: defaultdict[str, list[str]] = defaultdict(list)
    last: Counter[str] = Counter()
    for start in history.starts:
        last[start["id"]] = max(last[start["id"]], start["lease"])
    for record in history.accepted:
        job, lease, outcome = record["id"], record["lease"], record["outcome"]
        if outcome in FINISHED:
            finals[job].append(f"{outcome} under lease number {lease}")
        by_claim[job, lease].append(outcome)
        row = history.rows.get(job)
        if row is None or row["status"] not in FINISHED or job in history.moving:
            continue
        if outcome in FINISHED and (row["lease"], row["status"]) != (lease, outcome):
            text = f"{outcome} accepted under lease number {lease}"
            yield Violation("stale", f"job {job}: {text}, but the table has {row['status']} under {row['lease']}")
        elif outcome not in FINISHED and row["lease"] == lease and row["status"] != "cancelled":
            text = f"{outcome} and then {row['status']}, both under lease number {lease}"
            yield Violation("duplicate", f"job {job}: {text}")
    for (job, lease), outcomes in by_claim.items():
        if len(outcomes) > 1:
            text = f"job {job}, lease number {lease}: several accepted outcomes: {', '.join(outcomes)}"
            yield Violation("duplicate", text)
    for job, ends in finals.items():
        if len(ends) > 1 and job not in history.moving:
            yield Violation("duplicate", f"job {job} finished more than once: {', '.join(ends)}")
    for job, row in history.rows.items():
        if last[job] > row["lease"]:
            text = f"job {job} ran under lease number {last[job]}, but its last is {row['lease']}"
            yield Violation("stale", text)


def _overlaps(history: History) -> Iterator[Violation]:
    """No attempt starts while another one of its job, or one that excludes it, goes on."""
    for (job, lease), number in Counter((start["id"], start["lease"]) for start in history.starts).items():
        if number > 1:
            yield Violation("overlap", f"job {job} ran {number} times under lease number {lease}")
    by_job: defaultdict[str, list[Record]] = defaultdict(list)
    for start in history.starts:
        by_job[start["id"]].append(start)
        for other in start.get("others", ()):
            if not history.was_stopped(other.get("pid"), start["at"]):
                text = f"{other['lock']}: a run under lease number {start['lease']} started in process {start['pid']}"
                still = f"while job {other.get('id')} under {other.get('lease')} was running in {other.get('pid')}"
                yield Violation("overlap", f"{text} {still}")
    for job, starts in by_job.items():
        for one, other in pairwise(starts):
            end = history.ended((job, one["lease"]))
            is_excused = job in history.cancelling or history.was_stopped(one["pid"], other["at"])
            if end is not None and end > other["at"] and one["lease"] != other["lease"] and not is_excused:
                text = f"ended {end - other['at']:.3f} s after the next had started"
                yield Violation("overlap", f"job {job}: the run under lease number {one['lease']} {text}")


def _too_early(history: History) -> Iterator[Violation]:
    """No job starts before its time, nor before those that it waits for have ended."""
    ids = {row["token"]: job for job, row in history.rows.items()}
    for start in history.starts:
        token = start["token"]
        if start["id"] not in history.moving and not history.clock_was_set:
            early = history.not_before.get(token, NEVER) - start["at"]
            if early > EARLY_SECONDS:
                yield Violation("too early", f"job {start['id']} started {early:.3f} s before its time")
        for other, needs in history.after.get(token, ()):
            row = history.rows.get(_id(other, ids))
            if row is None or start.get("unasked") or history.moving.intersection([row["id"], start["id"]]):
                continue
            if _is_refused(row["status"], needs):
                text = f"job {start['id']} ran, but job {row['id']} is {row['status']}"
                yield Violation("too early", f"{text}, and should have {needs}")
            ended = history.ended((row["id"], row["lease"]))
            if ended is not None and ended > start["at"] and row["id"] not in history.cancelling:
                yield Violation("too early", f"job {start['id']} started before job {row['id']} had ended")


def _order_of_keys(history: History) -> Iterator[Violation]:
    """Of two jobs with a key, of which one was added before the call for the other began, it also runs before."""
    rows = {row["token"]: row for row in history.rows.values()}
    first: dict[str, float] = {}
    for start in history.starts:
        first.setdefault(start["id"], start["at"])
    for key, tokens in history.keys.items():
        known = [rows[token] for token in tokens if token in rows and token in history.returned]
        latest, before = NEVER, ""
        # By when their calls returned: all of those before are done when the call for a later one begins.
        ends = sorted(
            (history.returned[row["token"]], end, row["id"])
            for row in known
            if row["id"] not in history.cancelling.keys() | history.moving
            and (end := history.ended((row["id"], row["lease"]))) is not None
        )
        position = 0
        for row in sorted(known, key=lambda row: history.invoked[row["token"]]):
            while position < len(ends) and ends[position][0] < history.invoked[row["token"]]:
                latest, before = max((latest, before), ends[position][1:])
                position += 1
            started = first.get(row["id"], FOREVER)
            if started < latest and row["id"] not in history.moving:
                text = f"job {row['id']} started {latest - started:.3f} s before {before} had ended"
                yield Violation("order", f"key {key}: {text}, which was added before it")


def _doubled(history: History) -> Iterator[Violation]:
    """Each time of a schedule has one job, and of jobs that may be added once per period, one was added."""
    by_time: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for start in history.starts:
        if "schedule" in start:
            by_time[start["schedule"], start["scheduled_for"]].add(start["id"])
    for (schedule, time), jobs in by_time.items():
        if len(jobs) > 1:
            yield Violation("duplicate", f"{schedule} has {len(jobs)} jobs for {time}: {', '.join(sorted(jobs))}")
    tokens = {row["token"] for row in history.rows.values()}
    if history.clock_was_set:
        return
    for name, calls in history.once.items():
        added = sorted(
            (history.invoked[token], history.returned.get(token, FOREVER), period, token)
            for period, token in calls
            if token in tokens
        )
        for (invoked, _, period, one), (_, returned, _, other) in pairwise(added):
            if returned - invoked < period:
                text = f"{other} was added {returned - invoked:.3f} s after {one}, within {period} s"
                yield Violation("duplicate", f"{name}: {text}")


def _runs(history: History) -> Iterator[Run]:
    """An attempt uses its limits until it ends, its process is killed, or the queue takes its job away. If nothing of
    that is known, it counts for nothing."""
    for start in history.starts:
        claim = start["id"], start["lease"]
        killed = next((at for at in history.killed.get(start["pid"], ()) if at >= start["at"]), FOREVER)
        end = min(killed, history.taken.get(claim, FOREVER), history.ended(claim) or FOREVER)
        if start.get("limits") and end != FOREVER:
            limits = [(name, key, weight) for name, key, weight in start["limits"]]
            claimed = min(history.claimed.get(claim, FOREVER), start["at"])
            yield Run(*claim, start["pid"], claimed, start["at"], end, limits, not start.get("unasked"))


def over_limits(runs: Iterable[Run], changes: Sequence[Record]) -> Iterator[Violation]:
    """At each start, the weights of those that run must fit into the limit; if it was changed, into the highest amount
    between the claim and the start: those that run stay when it becomes lower."""
    for (name, key), those in _by_limit(runs).items():
        amounts = _amounts(changes, name, key)
        for used, (run, _) in _uses(those):
            allowed = max(amount for since, until, amount in amounts if since <= run.start and run.claimed <= until)
            if used > allowed and run.is_judged:
                others = [
                    f"{each.id}/{each.lease} {each.start - run.start:+.4f} to {each.end - run.start:+.4f} by {each.pid}"
                    for each, _ in those
                    if each.start <= run.start < each.end
                ]
                moment = f"at {run.start:.4f}, claimed {run.claimed - run.start:+.4f}"
                yield Violation("over limit", f"{name} {key}: {used} of {allowed:g} {moment}: {others}")


def most_used(runs: Iterable[Run]) -> Counter[str]:
    """The greatest use of each limit."""
    most: Counter[str] = Counter()
    for (name, _), those in _by_limit(runs).items():
        most[name] = max([most[name], *(used for used, _ in _uses(those))])
    return most


def _by_limit(runs: Iterable[Run]) -> dict[tuple[str, str], list[tuple[Run, int]]]:
    found: defaultdict[tuple[str, str], list[tuple[Run, int]]] = defaultdict(list)
    for run in runs:
        for name, key, weight in run.limits:
            if run.start < run.end:
                found[name, key].append((run, weight))
    return found


def _uses(runs: list[tuple[Run, int]]) -> Iterator[tuple[int, tuple[Run, int]]]:
    """What is used at each start."""
    moments = sorted(
        [(each[0].start, 1, each) for each in runs] + [(each[0].end, 0, each) for each in runs],
        key=lambda moment: moment[:2],
    )
    used = 0
    for _, begins, each in moments:
        used += each[1] if begins else -each[1]
        if begins:
            yield used, each


def _amounts(changes: Sequence[Record], name: str, key: str) -> list[tuple[float, float, float]]:
    """From when to when each amount was in force; around a change, both were."""
    common, own = FOREVER, None
    found = [(NEVER, NEVER, common)]
    for each in changes:
        if each["name"] != name or each.get("key", "") not in ("", key):
            continue
        amount = FOREVER if each["amount"] is None else each["amount"]
        if each.get("key"):
            own = None if each["amount"] is None else amount
        else:
            common = amount
        found.append((each["invoked"], each["at"], common if own is None else own))
    untils = [at for _, at, _ in found[1:]] + [FOREVER]
    return [(since, until, amount) for (since, _, amount), until in zip(found, untils, strict=True)]


def read(ledger: Path) -> list[Record]:
    """Return the records of all processes, ordered by time."""
    files = sorted(ledger.glob("*.jsonl")) if ledger.is_dir() else [ledger]
    return sorted((record for file in files for record in _records(file)), key=lambda record: record["at"])


def _records(file: Path) -> Iterator[Record]:
    for line in file.read_text().split("\n"):
        if line.endswith("}"):
            yield json.loads(line)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    violations = judge(read(Path(sys.argv[1])))
    for kind, text in violations:
        print(f"{kind}: {text}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
