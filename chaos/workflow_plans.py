"""Random workflows as values: how they are built, and how each of their steps must end."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

COMPLETED, FAILED, CANCELLED, SKIPPED = "completed", "failed", "cancelled", "skipped"
ENDED = "ended"

Edge: TypeAlias = tuple[str, str]
"""The name of a step, and how it has to end: completed, ended or failed."""


@dataclass
class Node:
    name: str
    kind: str
    """step, listing, map, adding, signal or nested."""
    fate: str = "complete"
    """complete, fail, or retry: the first attempt fails."""
    edges: list[Edge] = field(default_factory=list)
    fates: list[str] = field(default_factory=list)
    """Of the jobs that it adds: by a listing and its map, or while it runs."""
    inner: "Plan | None" = None
    undo: bool = False
    may_be_skipped: bool = False


@dataclass
class Plan:
    name: str
    nodes: list[Node]

    def named(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def outcomes(self, outer: list[str] | None = None) -> dict[str, str]:
        """How each step ends. `outer` says how they end because of what this workflow waits for, if it does."""
        found: dict[str, str] = {}
        for node in self.nodes:
            stopped = [_stopped(found[name], needs) for name, needs in node.edges]
            if not any(needs == COMPLETED for _, needs in node.edges):
                stopped += outer or []
            why = next((each for each in stopped if each), None)
            if node.inner is not None:
                found[node.name] = _whole(list(node.inner.outcomes([why] if why else []).values()))
            elif why:
                found[node.name] = why
            elif node.kind == "map":
                found[node.name] = FAILED if "fail" in node.fates else COMPLETED
            else:
                found[node.name] = FAILED if node.fate == "fail" else COMPLETED
        return found

    def whole(self) -> str:
        """How the workflow ends."""
        outcomes = self.outcomes()
        added = [
            FAILED if fate == "fail" else COMPLETED
            for node in self.nodes
            if node.kind == "adding" and outcomes[node.name] == COMPLETED
            for fate in node.fates
        ]
        return _whole([*outcomes.values(), *added])


def _stopped(outcome: str, needs: str) -> str | None:
    """How a step ends because another one ended like this; None: it runs."""
    if needs == COMPLETED and outcome != COMPLETED:
        return SKIPPED if outcome == SKIPPED else CANCELLED
    if needs == FAILED and outcome not in (FAILED, CANCELLED):
        return SKIPPED
    return None


def _whole(outcomes: list[str]) -> str:
    if FAILED in outcomes or CANCELLED in outcomes:
        return FAILED
    return SKIPPED if outcomes and set(outcomes) == {SKIPPED} else COMPLETED


def random_plan(rng: random.Random, name: str, most: int = 200, nested: bool = False) -> Plan:
    """How a step that may be skipped ends must not depend on the order of events: it waits for one step only."""
    nodes: list[Node] = []
    size = min(most, int(2 + rng.expovariate(1 / 12)))
    clear = nested or rng.random() < 0.6  # without error handlers
    while len(nodes) < size:
        edges, may_be_skipped = _edges(rng, nodes, clear)
        kind = "step" if nested else rng.choices(["step", "map", "adding", "signal", "nested"], [80, 7, 5, 5, 3])[0]
        node = Node(f"n{len(nodes)}", kind, rng.choice(["complete"] * 12 + ["fail", "retry"]), edges)
        node.may_be_skipped = may_be_skipped
        if kind == "map":
            node.kind = "listing"
            node.fates = _fates(rng)
            nodes.append(node)
            mapped = Node(f"n{len(nodes)}", "map", edges=[(node.name, COMPLETED)], fates=node.fates)
            mapped.may_be_skipped = may_be_skipped
            nodes.append(mapped)
            continue
        if kind == "adding":
            node.fates = _fates(rng)
        if kind == "signal":
            node.fate = "complete"
        if kind == "nested":
            node.inner = random_plan(rng, f"{name}/{node.name}", 8, nested=True)
        node.undo = kind == "step" and not nested and rng.random() < 0.1
        nodes.append(node)
    return Plan(name, nodes)


def _edges(rng: random.Random, nodes: list[Node], clear: bool) -> tuple[list[Edge], bool]:
    if not nodes or rng.random() < 0.2:
        return [], False
    certain = [node for node in nodes if not node.may_be_skipped]
    if not clear and certain and rng.random() < 0.15:
        return [(rng.choice(certain).name, FAILED)], True
    if (one := rng.choice(nodes)).may_be_skipped:
        needs = rng.choice([COMPLETED, ENDED])
        return [(one.name, needs)], needs == COMPLETED
    chosen = rng.sample(certain, min(len(certain), rng.choice([1, 1, 2, 3, 6])))
    return [(node.name, ENDED if rng.random() < 0.25 else COMPLETED) for node in chosen], False


def _fates(rng: random.Random) -> list[str]:
    return [rng.choice(["complete"] * 20 + ["fail", "retry"]) for _ in range(rng.choice([0, 1, 3, 8]))]


def signals(plan: Plan) -> Iterator[Node]:
    return (node for node in plan.nodes if node.kind == "signal")
