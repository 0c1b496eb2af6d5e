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

    def gives_up_on(self, error: BaseException) -> bool:
        """Whether the job fails for good, whatever attempts it has left."""
        return isinstance(error, self.give_up_on) or (
            self.retry_on is not None and not isinstance(error, self.retry_on)
        )
