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
        self._resolved: dict[type[Event], tuple[Callable[[Any], object], ...]] = {}

    def add(self, kind: type[Kind], listener: Callable[[Kind], object]) -> None:
        self._by_kind.setdefault(kind, []).append(listener)
        self._resolved.clear()

    def remove(self, kind: type[Kind], listener: Callable[[Kind], object]) -> None:
        if listener in self._by_kind.get(kind, ()):
            self._by_kind[kind].remove(listener)
        self._resolved.clear()

    def wants(self, kind: type[Event]) -> bool:
        """Whether there is a listener: at 20,000 jobs per second, creating events without one costs too much."""
        return bool(self._of(kind))

    def emit(self, event: Event) -> None:
        for listener in self._of(type(event)):
            try:
                listener(event)
            except Exception:
                log.exception("a listener for %s failed", type(event).__name__)

    def _of(self, kind: type[Event]) -> tuple[Callable[[Any], object], ...]:
        found = self._resolved.get(kind)
        if found is None:
            found = tuple(each for base in kind.__mro__ for each in self._by_kind.get(base, ()))
            self._resolved[kind] = found
        return found
