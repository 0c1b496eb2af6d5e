"""The graph of a workflow: its jobs, and which of them wait for which."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.status import Status

WORKFLOW = "workflow"
"""The type of a job that is a workflow."""
SIGNAL = "signal"
"""The type of a job that waits for a signal."""
DELETED = "deleted"
BLOCKED = "blocked"
SKIPPED = "skipped"
# The order in which the states of a group are listed: what needs attention first.
STATES = ("failed", "running", "claimed", "pending", BLOCKED, "cancelled", DELETED, SKIPPED, "completed")


class Node(NamedTuple):
    """A job in the graph."""

    id: UUID
    name: str | None = None
    """What the workflow calls it."""
    job_type: str | None = None
    """None: it was deleted."""
    status: str | None = None
    """A status, or `skipped`: it was cancelled because it was not needed. None: it was deleted."""
    blocked: bool = False
    """It waits for other jobs, or for a signal."""
    progress: int = 0
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    title: str | None = None
    """Of a nested workflow: its name. It is a part of its payload."""
    outside: bool = False
    """A job of this workflow waits for it, but it is not a part of the workflow."""

    @property
    def state(self) -> str:
        """Its status, `blocked`, `skipped` or `deleted`."""
        if self.status is None:
            return DELETED
        return BLOCKED if self.status == Status.PENDING and self.blocked else self.status

    @property
    def label(self) -> str:
        return self.name or self.title or self.job_type or DELETED

    @property
    def ended(self) -> bool:
        return self.status is None or self.status not in ("pending", "claimed", "running")


class Graph(NamedTuple):
    id: UUID
    """Of the workflow."""
    at: datetime
    """The time by the database's clock."""
    nodes: Sequence[Node]
    """The jobs of the workflow in the order of their ids, then the jobs outside of it that they wait for."""
    after: Sequence[Sequence[int]]
    """For each node, the numbers of the nodes that it waits for."""
    more: bool = False
    """The workflow has more jobs than these."""
    sampled: bool = False
    """There are so many connections that some are left out."""

    @property
    def members(self) -> list[Node]:
        return [each for each in self.nodes if not each.outside]

    def is_same(self, other: "Graph | None") -> bool:
        """A later clock alone is not a change."""
        return other is not None and self._replace(at=other.at) == other


def states(nodes: Sequence[Node]) -> dict[str, int]:
    """How many are in which state."""
    return in_order(Counter(each.state for each in nodes))


def in_order(counts: Mapping[str, int]) -> dict[str, int]:
    return {state: counts[state] for state in STATES if counts.get(state)}
