"""The limits of chaos/limits.py, and whether they held: a pure function of the ledger and of the moves of the jobs.

What counts as running. A run begins with its `start` line. It ends at the earliest of these moments:

    its `end` line, which the handler writes before the worker tells the database
    the moment before its process was killed
    the moment at which the database took the job from its worker: it was cancelled, or the lease had run out

The last one is for cancelled jobs, whose handlers are told to stop and may take some time, and for workers that were
stopped for longer than their lease: nobody can keep them from finishing the line of code that they were stopped in. So
that this hides nothing, each job that was taken away is checked as well: its process was killed before, or stopped for
most of a lease, or somebody cancelled the job.

Whether those that run fit into the limits, chaos/judge.py says.

What counts as a start, for a rate: the claim, exactly. And the `start` lines, as if each might be LATE seconds late.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.judge import Record, Run, most_used, over_limits
from chaos.moves import Move

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
    runs = list(_runs(records, claims, taken, lease, rules, verdict))
    verdict.runs = len(runs)
    verdict.problems += [text for _, text in over_limits(runs, _amounts(records, rules))]
    most = most_used(runs)
    starts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for name, key, _ in run.limits:
            if run.start - run.claimed <= LATE:
                starts[name, key].append(run.start)
    for rule in rules:
        if not rule.per_second:
            verdict.most[rule.name] = most[rule.name]
            continue
        times_of: dict[str, list[float]] = defaultdict(list)
        for (job_type, tenant), those_times in claimed.items():
            if job_type in rule.job_types:
                times_of[rule.key(tenant)] += those_times
        for key, times in times_of.items():
            _check_rate(f"{rule.name} {key}: claims", rule, times, 0.0, verdict)
            _check_rate(f"{rule.name} {key}: starts", rule, starts[rule.name, key], LATE, verdict)
            verdict.most[rule.name] = max(verdict.most[rule.name], *Counter(times).values())
            _check_closed(rule, key, records, times, taken, verdict)
    return verdict


def _amounts(records: list[Record], rules: Iterable[Rule]) -> list[Record]:
    """What was declared, for all keys, and each change; null undoes a change."""
    declared = {rule.name: rule.amount for rule in rules if not rule.per_second}
    always = float("-inf")
    return [
        *({"name": name, "amount": amount, "invoked": always, "at": always} for name, amount in declared.items()),
        *(
            each | {"amount": declared[each["name"]] if each["amount"] is None and not each["key"] else each["amount"]}
            for each in records
            if each["what"] == "limit"
        ),
    ]


def _runs(
    records: list[Record],
    claims: dict[tuple[str, int], float],
    taken: dict[tuple[str, int], Move],
    lease: float,
    rules: Iterable[Rule],
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
        limits = [
            (rule.name, rule.key(each["tenant"]), each["weight"]) for rule in rules if each["type"] in rule.job_types
        ]
        yield Run(*this, pid, claims[this], start, end, limits)


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
