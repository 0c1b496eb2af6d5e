"""The options of `@app.job`: checked, with their defaults."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from treadle.app.function import UsingOptions
from treadle.app.policy import Policy
from treadle.db.queries.enqueueing import check_options, split_options
from treadle.words.backoff import Backoff
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.limits import AnyLimit, Limit, MaxPending, Per, Rate, check_limits, check_max_pending, part_name
from treadle.words.priority import Priority
from treadle.words.size import Size, size
from treadle.words.unique import OnConflict, Unique, While

Errors: TypeAlias = type[BaseException] | Iterable[type[BaseException]]

# Seconds between the interruption of a handler and its killing, if no deadline is given.
DEADLINE_GRACE = 10.0


class JobOptions(NamedTuple):
    name: str | None
    aliases: tuple[str, ...]
    policy: Policy
    defaults: UsingOptions
    limits: tuple[AnyLimit, ...] = ()
    fair_by: Per | None = None

    @property
    def wait(self) -> float | None:
        """How long an enqueue waits until fewer jobs do; None: max_pending is not given."""
        bounds = [each for each in self.limits if isinstance(each, MaxPending)]
        return max((duration(each.wait or 0).total_seconds() for each in bounds), default=None)

    @property
    def parts(self) -> dict[str, Per]:
        """What limits and fairness tell jobs apart by."""
        given = [*(each.per for each in self.limits), self.fair_by]
        return {part_name(per): per for per in given if per is not None}


def job_options(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    priority: int = Priority.DISCOVERED,
    queue: str = "default",
    max_attempts: int = 3,
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    backoff: Backoff | None = None,
    retry_on: Errors | None = None,
    give_up_on: Errors = (),
    process: bool = False,
    memory_limit: Size | None = None,
    logs: bool = True,
    prints: bool = False,
    expires: Duration | None = None,
    unique: Unique | None = None,
    while_: While | None = None,
    unique_for: Duration | None = None,
    on_conflict: OnConflict | Sequence[OnConflict] | None = None,
    debounce: Duration | None = None,
    debounce_limit: Duration | None = None,
    throttle: str | None = None,
    limit: Limit | Sequence[Limit] | None = None,
    rate: Rate | Sequence[Rate] | None = None,
    max_pending: int | MaxPending | Sequence[MaxPending] | None = None,
    fair_by: Per | None = None,
    weight: int | None = None,
) -> JobOptions:
    """Check the options of `@app.job`."""
    if isinstance(aliases, str):
        raise InvalidArgument(f"aliases must be a list of strings, got {aliases!r}")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise InvalidArgument(f"backoff must be a Backoff(…), got {backoff!r}")
    named = {
        "expires": expires,
        "unique": unique,
        "while_": while_,
        "unique_for": unique_for,
        "on_conflict": on_conflict,
        "debounce": debounce,
        "debounce_limit": debounce_limit,
        "throttle": throttle,
        "weight": weight,
    }
    chosen: Any = {name: value for name, value in named.items() if value is not None}
    defaults: UsingOptions = {"priority": priority, "queue": queue, "max_attempts": max_attempts}
    defaults.update(chosen)
    check_options(**split_options(defaults)[1])
    if memory_limit is not None and not process:
        raise InvalidArgument("memory_limit needs process=True: only a child process can be killed for exceeding it")
    soft = None if timeout is None else duration(timeout, "timeout").total_seconds()
    hard = None if deadline is None else duration(deadline, "deadline").total_seconds()
    if soft is not None and hard is not None and hard < soft:
        raise InvalidArgument(f"deadline must not be shorter than timeout, got {deadline!r} and {timeout!r}")
    if soft == 0 or hard == 0:
        raise InvalidArgument(f"timeout and deadline must be longer than 0 s, got {timeout!r} and {deadline!r}")
    policy = Policy(
        backoff=backoff or Backoff(),
        timeout=soft,
        deadline=soft + DEADLINE_GRACE if hard is None and soft is not None else hard,
        retry_on=None if retry_on is None else _classes(retry_on, "retry_on"),
        give_up_on=_classes(give_up_on, "give_up_on"),
        process=process,
        memory_limit=None if memory_limit is None else size(memory_limit, "memory_limit"),
        logs=bool(logs),
        prints=bool(prints),
    )
    limits = (
        *check_limits(limit, Limit, "limit"),
        *check_limits(rate, Rate, "rate"),
        *check_max_pending(max_pending),
    )
    if fair_by is not None:
        part_name(fair_by)
    return JobOptions(name, tuple(aliases), policy, defaults, limits, fair_by)


def _classes(given: Errors, name: str) -> tuple[type[BaseException], ...]:
    several = isinstance(given, Iterable) and not isinstance(given, type | str)
    classes: tuple[Any, ...] = tuple(given) if several else (given,)  # type: ignore[arg-type]
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidArgument(f"{name} must be exception classes, got {each!r}")
    return classes
