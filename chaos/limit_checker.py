"""The limits of chaos/limits.py, and whether they held: a pure function of the ledger and of the moves of the jobs.

What counts as running. A run begins with its `start` line. It ends at the earliest of these moments:

    its `end` line, which the handler writes before the worker tells the database
    the moment before its process was killed
    the moment at which the database took the job from its worker: it was cancelled, or the lease had run out

The last one is for cancelled jobs, whose handlers are told to stop and may take some time, and for workers that were
stopped for longer than their lease: nobody can keep them from finishing the line of code that they were stopped in. So
that this hides nothing, each job that was taken away is checked as well: its process was killed before, or stopped for
most of a lease, or somebody cancelled the job.

At each start, the weights of those that run must fit into the limit. If it was changed, into the highest value between
the claim and the start: those that run stay when it becomes lower.

What counts as a start, for a rate: the claim, exactly. And the `start` lines, as if each might be LATE seconds late.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.ledger import Record

LATE = 1.0
CLOSED_SLACK = 0.25  # a claim that began before the limit was closed may still commit
RENEWED = 1 / 3  # of a lease: the last renewal may be that old when a worker is stopped
BUSY = 0.5  # seconds by which a renewal may be late on a busy machine


class Rule(NamedTuple):
    name: str
    job_types: tuple[str, ...]
    amount: int
    per_tenant: bool = False
    per_second: bool = False
    burst: int = 0

    def key(self, tenant: str) -> str:
        return tenant if self.per_tenant else ""


RULES = (
    Rule("typed", ("typed",), 20),
    Rule("tenanted per tenant", ("tenanted",), 3, per_tenant=True),
    Rule("both", ("both",), 12),
    Rule("both per tenant", ("both",), 2, per_tenant=True),
    Rule("weighted", ("weighted",), 10),
    Rule("crm", ("pull", "push"), 5),
    Rule("rated rate", ("rated",), 50, per_second=True, burst=20),
    Rule("tenant_rated rate per tenant", ("tenant_rated",), 5, per_tenant=True, per_second=True, burst=3),
    Rule("both_kinds", ("both_kinds",), 4),
    Rule("both_kinds rate", ("both_kinds",), 40, per_second=True, burst=10),
)


class Move(NamedTuple):
    """A job was claimed, or taken or given back by its worker, as a trigger noted it. Times are those of the ledger."""

    job: str
    lease: int
    at: float
    status: str
    job_type: str = ""
    tenant: str = ""


class Run(NamedTuple):
    job: str
    lease: int
    job_type: str
    tenant: str
    weight: int
    pid: int
    claimed: float
    start: float
    end: float
    last: bool


@dataclass
class Verdict:
    problems: list[str] = field(default_factory=list)
    runs: int = 0
    lost: int = 0
    """Runs that a worker lost: it was killed, or stopped for longer than its lease."""
    cancelled: int = 0
    """Runs that were cancelled from outside."""
    most: Counter[str] = field(default_factory=Counter)
    """The greatest use of each limit, and of each rate the largest number of claims at one moment."""
    late: float = 0.0
    """The longest time between a claim and its start, of those that count."""

    def __str__(self) -> str:
        most = ", ".join(f"{name} {most}" for name, most in self.most.items())
        return (
            f"{self.runs} runs, {self.lost} lost, {self.cancelled} cancelled; most at once: {most}; "
            f"{f'{len(self.problems)} violations' if self.problems else 'held'}"
        )


def check(records: list[Record], moves: Iterable[Move], lease: float, rules: Iterable[Rule] = RULES) -> Verdict:
    verdict = Verdict()
    claims: dict[tuple[str, int], float] = {}
    # All claims, also those of jobs that never started.
    claimed: dict[tuple[str, str], list[float]] = defaultdict(list)
    taken: dict[tuple[str, int], Move] = {}
    for move in moves:
        if move.status == "claimed":
            claims[move.job, move.lease] = move.at
            claimed[move.job_type, move.tenant].append(move.at)
        else:
            taken[move.job, move.lease] = move
    runs = list(_runs(records, claims, taken, lease, verdict))
    verdict.runs = len(runs)
    by_type: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_type[run.job_type].append(run)
    for rule in rules:
        by_key: dict[str, list[Run]] = defaultdict(list)
        for each in rule.job_types:
            for run in by_type[each]:
                by_key[rule.key(run.tenant)].append(run)
        if not rule.per_second:
            for key, those in by_key.items():
                _check_limit(rule, key, those, _changes(records, rule, key), verdict)
            continue
        times_of: dict[str, list[float]] = defaultdict(list)
        for (job_type, tenant), those_times in claimed.items():
            if job_type in rule.job_types:
                times_of[rule.key(tenant)] += those_times
        for key, times in times_of.items():
            starts = [run.start for run in by_key[key] if run.start - run.claimed <= LATE]
            _check_rate(f"{rule.name} {key}: claims", rule, times, 0.0, verdict)
            _check_rate(f"{rule.name} {key}: starts", rule, starts, LATE, verdict)
            verdict.most[rule.name] = max(verdict.most[rule.name], *Counter(times).values())
            _check_closed(rule, key, records, times, taken, verdict)
    return verdict


def _runs(
    records: list[Record],
    claims: dict[tuple[str, int], float],
    taken: dict[tuple[str, int], Move],
    lease: float,
    verdict: Verdict,
) -> Iterator[Run]:
    ends = {(each["id"], each["lease"]): each["at"] for each in records if each["what"] == "end"}
    cancels = {each["id"]: each["at"] for each in reversed(records) if each["what"] == "cancelling"}
    kills: dict[int, list[tuple[float, float]]] = defaultdict(list)
    stops: dict[int, list[float]] = defaultdict(list)
    for each in records:
        for pid in each["pids"] if each["what"] == "fault" else []:
            if each["did"] == "stopped":
                stops[pid].append(each["begin"])
            elif each["did"] == "killed":
                kills[pid].append((each["begin"], each["at"]))
    for each in records:
        if each["what"] != "start":
            continue
        this = each["id"], each["lease"]
        if this not in claims:
            verdict.problems.append(f"job {this} started and was never claimed")
            continue
        start, pid = each["at"], each["pid"]
        end = ends.get(this, float("inf"))
        killed = min((max(begin, start) for begin, until in kills[pid] if until >= start), default=float("inf"))
        away = taken.get(this)
        if away and away.at < min(end, killed):
            if away.status == "cancelled" and cancels.get(this[0], float("inf")) <= away.at:
                verdict.cancelled += 1
            else:
                verdict.lost += 1
                stopped = max((at for at in stops[pid] if at <= away.at), default=None)
                if stopped is None or away.at < stopped + (1 - RENEWED) * lease - BUSY:
                    verdict.problems.append(
                        f"job {this} became {away.status} {away.at - start:.3f} s after its start, while its process "
                        + ("ran" if stopped is None else f"was stopped for only {away.at - stopped:.3f} s")
                    )
            end = away.at
        elif killed < end:
            verdict.lost += 1
            end = killed
        elif end == float("inf"):
            verdict.problems.append(f"job {this} has no end, and its process {pid} was not killed")
            continue
        if start < end:
            verdict.late = max(verdict.late, start - claims[this])
        yield Run(
            *this, each["type"], each["tenant"], each["weight"], pid, claims[this], start, end, each.get("last", False)
        )


def _changes(records: list[Record], rule: Rule, key: str) -> list[tuple[float, float, int]]:
    """From when to when each amount was in force; around a change, both were."""
    general = [each for each in records if each["what"] == "limit" and each["name"] == rule.name]
    found = [(float("-inf"), rule.amount)]
    since = [float("-inf")]
    own: int | None = None
    common = rule.amount
    for each in general:
        if each["key"] not in ("", key):
            continue
        if each["key"] == "" or not rule.per_tenant:
            common = each["amount"] if each["amount"] is not None else rule.amount
        else:
            own = each["amount"]
        found.append((each["at"], common if own is None else own))
        since.append(each["invoked"])
    ends = [at for at, _ in found[1:]] + [float("inf")]
    return [(begin, end, amount) for begin, end, (_, amount) in zip(since, ends, found, strict=True)]


def _check_limit(
    rule: Rule, key: str, runs: list[Run], amounts: list[tuple[float, float, int]], verdict: Verdict
) -> None:
    moments = sorted(
        [(run.start, 1, run) for run in runs if run.start < run.end]
        + [(run.end, 0, run) for run in runs if run.start < run.end],
        key=lambda moment: moment[:2],
    )
    used = 0
    for at, begins, run in moments:
        used += run.weight if begins else -run.weight
        verdict.most[rule.name] = max(verdict.most[rule.name], used)
        if begins and used > rule_amount(amounts, run.claimed, run.start):
            allowed = rule_amount(amounts, run.claimed, run.start)
            others = [
                f"{each.job}/{each.lease} {each.start - at:+.4f} to {each.end - at:+.4f} by {each.pid}"
                for each in runs
                if each.start <= at < each.end
            ]
            verdict.problems.append(
                f"{rule.name} {key}: {used} of {allowed} at {at:.4f}, claimed {run.claimed - at:+.4f}: {others}"
            )


def rule_amount(amounts: list[tuple[float, float, int]], begin: float, end: float) -> int:
    """The highest amount that was in force in between."""
    return max(amount for since, until, amount in amounts if since <= end and begin <= until)


def _check_rate(what: str, rule: Rule, times: list[float], slack: float, verdict: Verdict) -> None:
    """The bucket that is full at first, which is the same as to look at every window."""
    burst = rule.burst + slack * rule.amount
    full_at = float("-inf")
    for at in sorted(times):
        full_at = max(full_at, at) + 1 / rule.amount
        if (over := (full_at - at) * rule.amount - burst) > 1e-3:
            before = [f"{each - at:.4f}" for each in sorted(times) if at - 3 < each < at + 1]
            verdict.problems.append(f"{what}: at {at:.4f} a window has {over:.3f} too many; around it: {before}")


def _check_closed(
    rule: Rule,
    key: str,
    records: list[Record],
    times: list[float],
    taken: dict[tuple[str, int], Move],
    verdict: Verdict,
) -> None:
    """Nothing was claimed while the limit was closed."""
    for each in records:
        if each["what"] != "end" or not each["told"] or each["type"] not in rule.job_types:
            continue
        away = taken.get((each["id"], each["lease"]))
        # Not if the worker had lost the job before, or had to try again.
        if rule.key(each["tenant"]) != key or away is None or not each["at"] <= away.at <= each["at"] + LATE:
            continue
        for at in times:
            if away.at + CLOSED_SLACK < at < each["at"] + each["told"]:
                verdict.problems.append(
                    f"{rule.name} {key}: claimed {at - each['at']:.3f} s after it was closed for {each['told']} s"
                )
