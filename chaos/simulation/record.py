"""What happened in a simulation: notes for the judge, and a trace to read and to compare."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Note:
    at: float
    """Seconds since the simulation began."""
    what: str
    facts: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.facts.get(name)


class Record:
    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self.notes: list[Note] = []
        self.ids: dict[int, UUID] = {}
        """Of the jobs that clients have enqueued."""
        self.trace: list[str] = []

    def note(self, what: str, **facts: Any) -> None:
        self.notes.append(Note(self._elapsed(), what, facts))
        self.line(f"** {what}", *(f"{name}={value}" for name, value in facts.items()))

    def line(self, *words: str) -> None:
        self.trace.append(" ".join((f"{self._elapsed():10.6f}", *words)))
