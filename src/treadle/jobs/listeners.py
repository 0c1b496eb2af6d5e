"""Functions that are called when something happens in a worker, by the class of the event."""

from collections.abc import Callable
from typing import Any, TypeVar

from treadle.text.log import log
from treadle.words.events import Event

Kind = TypeVar("Kind", bound=Event)


class Listeners:
    """A listener is called synchronously, so it should be quick. An exception that it raises is logged."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Event], list[Callable[[Any], object]]] = {}
        self._of = _Resolved(self._by_kind)

    def add(self, kind: type[Kind], listener: Callable[[Kind], object]) -> None:
        self._by_kind.setdefault(kind, []).append(listener)
        self._of.clear()

    def remove(self, kind: type[Kind], listener: Callable[[Kind], object]) -> None:
        if listener in self._by_kind.get(kind, ()):
            self._by_kind[kind].remove(listener)
        self._of.clear()

    def wants(self, kind: type[Event]) -> bool:
        """Whether there is a listener: at 20,000 jobs per second, creating events without one costs too much."""
        return bool(self._of[kind])

    def emit(self, event: Event) -> None:
        for listener in self._of[type(event)]:
            try:
                listener(event)
            except Exception:
                log.exception("a listener for %s failed", type(event).__name__)


class _Resolved(dict[type[Event], tuple[Callable[[Any], object], ...]]):
    """The listeners for a class of events and for its base classes, found when they are first asked for."""

    def __init__(self, by_kind: dict[type[Event], list[Callable[[Any], object]]]) -> None:
        self._by_kind = by_kind

    def __missing__(self, kind: type[Event]) -> tuple[Callable[[Any], object], ...]:
        self[kind] = tuple(each for base in kind.__mro__ for each in self._by_kind.get(base, ()))
        return self[kind]
