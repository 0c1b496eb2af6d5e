"""What happens in a simulation and when, drawn from a seed: jobs that are enqueued, and faults.

A plan is a seed, which decides how long statements take, and a list of choices. With fewer choices it is a plan, too.
"""

import random
from dataclasses import dataclass, field
from typing import Any

MACHINES = 3
LEASE = 3.0
FAULTS = ("kill", "lose machine", "freeze", "deploy", "cut", "lose replies", "silence", "slow", "break logging")
BY_HAND = ("claim by hand", "claim by update")
WAYS = ("completed", "completed", "ended", "both")
"""How a job waits for another one. `both`: that was said twice, once that the other may fail."""


@dataclass(frozen=True)
class Choice:
    at: float
    what: str
    """`enqueue`, one of BY_HAND, `limit`, or a fault of a machine."""
    machine: int = 0
    how: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    seed: int
    choices: tuple[Choice, ...]
    poll: float = 1.0
    """How often workers check for jobs without a notification."""

    @property
    def is_calm(self) -> bool:
        """Without faults, no job may be late, although workers hardly poll."""
        return not any(
            each.what in (*FAULTS, "limit", *BY_HAND) or "dies" in each.how.get("work", ()) for each in self.choices
        )


def plan(seed: int, seconds: float = 6.0) -> Plan:
    chance = random.Random(seed)
    calm = chance.random() < 0.3
    times = sorted(chance.uniform(0, seconds) for _ in range(chance.randint(10, 80)))
    choices = [_enqueue(chance, n, at, calm) for n, at in enumerate(times)]
    by_hand = range(chance.choice([0, 0, 3, 10]))
    choices += [_claim_by_hand(chance, chance.uniform(0, seconds)) for _ in by_hand]
    if chance.random() < 0.4:  # of jobs that wait for others, most of them
        waiting = [at + 0.05 for at, each in zip(times, choices, strict=False) if "after" in each.how["options"]]
        choices += [_claim_by_update(chance, at + chance.uniform(0, 0.5)) for at in waiting]
    if chance.random() < 0.4:
        choices = _limited(chance, choices, chance.uniform(0, seconds))
    if not calm:
        faults = chance.sample(FAULTS, chance.randint(1, 4))
        choices += [
            _fault(chance, chance.choice(faults), chance.uniform(0, seconds)) for _ in range(chance.randint(1, 12))
        ]
    return Plan(seed, tuple(sorted(choices, key=lambda each: each.at)), chance.uniform(20, 40) if calm else 1.0)


def _limited(chance: random.Random, choices: list[Choice], at: float) -> list[Choice]:
    """A limit that is set while jobs run, some of them for long."""
    how = {"type": chance.choice(["plain", "keyed"]), "amount": chance.choice([1, 2])}
    for each in choices:
        if each.what == "enqueue" and each.how["type"] == how["type"] and each.at < at and chance.random() < 0.3:
            each.how["work"]["seconds"] = round(chance.uniform(3, 6), 3)
    return [*choices, Choice(round(at, 3), "limit", how=how)]


def _enqueue(chance: random.Random, n: int, at: float, calm: bool) -> Choice:
    job_type = chance.choice(["plain", "plain", "keyed", "limited", "tenanted"])
    work: dict[str, Any] = {"n": n, "seconds": round(chance.choice([0.0, 0.01, 0.05, 0.3, chance.uniform(0, 4)]), 3)}
    if job_type == "tenanted":
        work["tenant"] = chance.choice("ab")
    if chance.random() < 0.1:
        work["fails"] = chance.randint(1, 5)
    if chance.random() < 0.05:
        work["snoozes"] = 1
    if not calm and chance.random() < 0.03:
        work["dies"] = chance.choice(["running", "returned"])
    options: dict[str, Any] = {}
    if job_type == "keyed":
        options["key"] = chance.choice("xyz")
    is_open = chance.random() < 0.3
    if n and chance.random() < (0.5 if is_open else 0.2):
        # Of the last ones, which may not have ended.
        others = chance.sample(range(max(0, n - 8), n), min(n, chance.choice([1, 1, 2])))
        options["after"] = [(other, chance.choice(WAYS)) for other in others]
    if chance.random() < 0.2:
        options["delay"] = round(chance.uniform(0, 3), 3)
    if chance.random() < 0.1:
        options["priority"] = chance.choice([50, 200])
    how: dict[str, Any] = {"type": job_type, "work": work, "options": options}
    if is_open:  # in a transaction that stays open for so long
        how["commits"] = round(chance.choice([0.001, 0.06, 0.15, chance.uniform(0, 4)]), 3)
        how["flushes"] = chance.choice([0.0, 0.0, 0.1, 0.4])
        how["rolls_back"] = chance.random() < 0.2
    return Choice(round(at, 3), "enqueue", how=how)


def _claim_by_hand(chance: random.Random, at: float) -> Choice:
    how = {
        "type": chance.choice(["plain", "limited", "tenanted"]),
        "isolation": chance.choice(["read committed", "repeatable read"]),
        "waits": round(chance.choice([0.0, chance.uniform(0, 1)]), 3),
        "seconds": round(chance.choice([0.0, 0.1, chance.uniform(0, 2)]), 3),
        "rolls_back": chance.random() < 0.2,
    }
    return Choice(round(at, 3), "claim by hand", how=how)


def _claim_by_update(chance: random.Random, at: float) -> Choice:
    how = {"seconds": round(chance.choice([0.0, 0.5, chance.uniform(0, 2)]), 3), "plain": chance.random() < 0.5}
    return Choice(round(at, 3), "claim by update", how=how)


def _fault(chance: random.Random, what: str, at: float) -> Choice:
    how: dict[str, Any] = {}
    if what in ("freeze", "silence", "slow", "break logging"):
        how["seconds"] = round(chance.choice([0.2, 1.0, LEASE, 2 * LEASE]) * chance.uniform(0.5, 1.2), 3)
    if what == "lose replies":
        how["number"] = chance.randint(1, 4)
    return Choice(round(at, 3), what, chance.randrange(MACHINES), how)
