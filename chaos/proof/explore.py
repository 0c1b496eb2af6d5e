"""Visits every state of a model, in order of distance, so that the first violation has the shortest trace."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    @property
    def about(self) -> str: ...

    @property
    def without(self) -> str | None:
        """The guard that this model does without."""

    def first(self) -> S: ...

    def steps(self, state: S, /) -> Iterable[tuple[str, S]]:
        """What can happen next: its name, and the state afterwards."""

    def violation(self, state: S, /) -> str | None:
        """The promise that is broken in this state."""


@dataclass(frozen=True)
class Exploration:
    states: int
    violation: str | None
    trace: tuple[str, ...]
    """The steps that lead to the violation."""


def explore(model: Model[S]) -> Exploration:
    first = model.first()
    seen: dict[S, tuple[S, str] | None] = {first: None}
    level = [first]
    while level:
        following: list[S] = []
        for state in level:
            if (found := model.violation(state)) is not None:
                return Exploration(len(seen), found, tuple(_trace(seen, state)))
            for name, after in model.steps(state):
                if after not in seen:
                    seen[after] = (state, name)
                    following.append(after)
        level = following
    return Exploration(len(seen), None, ())


def _trace(seen: dict[S, tuple[S, str] | None], state: S) -> Iterator[str]:
    before = seen[state]
    if before is not None:
        yield from _trace(seen, before[0])
        yield before[1]
