"""How often a failed job is retried, after which errors, and when: the option `retry`."""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.naming import int_within
from treadle.words.options import checked_value


@checked_value
@dataclass(frozen=True)
class Backoff:
    """Exponential: `first`, multiplied by `factor` after each further attempt, at most `limit`.

    `jitter` is the random part of the delay, from 0 to 1, so that jobs that failed together are not retried together.
    """

    first: Duration = "1s"
    factor: float = 2.0
    limit: Duration = "1h"
    jitter: float = 0.5

    def __post_init__(self) -> None:
        duration(self.first, "first")
        duration(self.limit, "limit")
        if not 1 <= self.factor < math.inf:
            raise InvalidArgument(f"factor must be at least 1, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise InvalidArgument(f"jitter must be from 0 to 1, got {self.jitter!r}")

    def seconds(self, attempt: int) -> float:
        """After this attempt, counted from 1."""
        first, limit = duration(self.first).total_seconds(), duration(self.limit).total_seconds()
        try:
            whole = min(first * float(self.factor) ** (attempt - 1), limit)
        except OverflowError:
            whole = limit if first else 0.0
        return whole * (1 - self.jitter * random.random())  # noqa: S311 - jitter, not a secret


Errors: TypeAlias = type[BaseException] | Iterable[type[BaseException]]

_MOST = 2**31 - 2
_BACKOFF = Backoff()


@checked_value
@dataclass(frozen=True)
class Retries:
    """How often a failed job is retried: after its first attempt, at most `amount` times more. So Retries(2), the
    default, makes up to three attempts, and Retries(0) a single one."""

    amount: int = 2
    on: Errors | None = None
    """Only these exceptions are retried. By default, all are."""
    give_up_on: Errors = ()
    """These exceptions are never retried."""
    backoff: Backoff | None = None
    """The delay before each retry: by default exponential, 1 s doubling to at most 1 h, with 50 % jitter."""

    def __post_init__(self) -> None:
        int_within(self.amount, 0, _MOST, "Retries")
        if self.on is not None:
            object.__setattr__(self, "on", _classes(self.on, "on"))
        object.__setattr__(self, "give_up_on", _classes(self.give_up_on, "give_up_on"))
        if self.backoff is not None and not isinstance(self.backoff, Backoff):
            raise InvalidArgument(f"backoff must be a Backoff(…), got {self.backoff!r}")

    @property
    def max_attempts(self) -> int:
        """How many attempts a job has."""
        return self.amount + 1

    @property
    def is_amount_alone(self) -> bool:
        """Whether it says nothing about errors and delays, which belong to the function and not to a job."""
        return self.on is None and self.give_up_on == () and self.backoff is None

    def gives_up_on(self, error: BaseException) -> bool:
        """Whether the job fails for good, whatever attempts it has left."""
        retried: Any = self.on
        refused: Any = self.give_up_on
        return isinstance(error, refused) or (retried is not None and not isinstance(error, retried))

    def delay(self, attempt: int) -> float:
        """How many seconds to wait after this attempt, counted from 1."""
        return (self.backoff or _BACKOFF).seconds(attempt)


def check_retry(given: object) -> Retries:
    """The option of a function."""
    if not isinstance(given, Retries):
        raise InvalidArgument(f"retry must be Retries(…), such as Retries(5), got {given!r}; Retries(0) never retries")
    return given


def check_retry_of_job(given: object) -> Retries:
    """The option of a single job, which has a number of attempts alone."""
    retries = check_retry(given)
    if not retries.is_amount_alone:
        raise InvalidArgument(
            "for one job, retry can only say how often, such as Retries(5): on, give_up_on and backoff belong to the "
            "function, @app.job(retry=…)"
        )
    return retries


def _classes(given: Errors, name: str) -> tuple[type[BaseException], ...]:
    several = isinstance(given, Iterable) and not isinstance(given, type | str)
    classes: tuple[Any, ...] = tuple(given) if several else (given,)  # type: ignore[arg-type]
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidArgument(f"{name} must be exception classes, got {each!r}")
    return classes
