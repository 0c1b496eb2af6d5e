"""How the jobs of a function are run."""

from dataclasses import dataclass, replace

from treadle.words.job import Claim
from treadle.words.retries import Retries


@dataclass(frozen=True)
class Policy:
    retry: Retries
    timeout: float | None = None
    deadline: float | None = None
    process: bool = False
    memory_limit: int | None = None
    logs: bool = True
    prints: bool = False
    at_most_once: bool = False
    """An attempt that has begun is not repeated if its process dies."""

    def of(self, claim: Claim) -> "Policy":
        """For this job, which may have its own timeout."""
        if claim.timeout is None:
            return self
        soft, hard = claim.timeout
        return replace(self, timeout=soft, deadline=hard)
