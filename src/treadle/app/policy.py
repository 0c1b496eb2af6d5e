"""How the jobs of a function are run."""

from dataclasses import dataclass

from treadle.words.backoff import Backoff


@dataclass(frozen=True)
class Policy:
    backoff: Backoff
    timeout: float | None = None
    deadline: float | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()
    process: bool = False
    memory_limit: int | None = None
    logs: bool = True
    prints: bool = False
