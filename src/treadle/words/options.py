"""Refuses an option that does not exist where it is written, and names the one that was probably meant."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from treadle.words.errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_ATTEMPTS = "retry=Retries(5)"
_BACKOFF = "retry=Retries(5, backoff=Backoff(…))"
_KEEP = 'keep={"completed": "7d"}'
_LIMITS = "limits=[Limit(5), Rate(100, '1m'), MaxPending(1000)]"
_TIMEOUT = 'timeout=("25s", "30s")'

# What other queues call our options, and how we write them.
OURS = {
    "args": "enqueue(…), which takes the arguments",
    "kwargs": "enqueue(…), which takes the arguments",
    "attempts": _ATTEMPTS,
    "max_attempts": _ATTEMPTS,
    "max_retries": _ATTEMPTS,
    "max_tries": _ATTEMPTS,
    "retries": _ATTEMPTS,
    "backoff": _BACKOFF,
    "default_retry_delay": _BACKOFF,
    "min_backoff": _BACKOFF,
    "retry_backoff": _BACKOFF,
    "retry_delay": _BACKOFF,
    "autoretry_for": "retry=Retries(5, on=ConnectionError)",
    "retry_for": "retry=Retries(5, on=ConnectionError)",
    "retry_on": "retry=Retries(5, on=ConnectionError)",
    "dont_autoretry_for": "retry=Retries(5, give_up_on=ValueError)",
    "discard_on": "retry=Retries(5, give_up_on=ValueError)",
    "give_up_on": "retry=Retries(5, give_up_on=ValueError)",
    "throws": "retry=Retries(5, give_up_on=ValueError)",
    "countdown": 'delay="10m"',
    "defer_by": 'delay="10m"',
    "schedule_in": 'delay="10m"',
    "defer_until": "run_at=datetime(…)",
    "eta": "run_at=datetime(…)",
    "run_after": "run_at=datetime(…)",
    "schedule_at": "run_at=datetime(…)",
    "scheduled_at": "run_at=datetime(…)",
    "failure_ttl": _KEEP,
    "keep_result": _KEEP,
    "result_expires": _KEEP,
    "result_ttl": _KEEP,
    "retention": _KEEP,
    "ttl": 'expires="1h"',
    "cron": 'schedule=Cron("0 9 * * mon")',
    "crontab": 'schedule=Cron("0 9 * * mon")',
    "expression": 'schedule=Cron("0 9 * * mon")',
    "timezone": 'schedule=Cron("0 9 * * mon", timezone="Europe/Oslo")',
    "clocks_back": 'schedule=Cron("0 9 * * mon", clocks_back="run_twice")',
    "clocks_forward": 'schedule=Cron("0 9 * * mon", clocks_forward="skip")',
    "every": 'schedule=Every("90s")',
    "periodic": 'schedule=Every("90s")',
    "missed": 'schedule=Every("90s", missed="skip")',
    "missed_limit": 'schedule=Every("90s", missed="all", missed_limit=100)',
    "overlap": 'schedule=Every("90s", overlap="skip")',
    "jitter": 'schedule=Every("90s", jitter="10s")',
    "concurrency_limit": _LIMITS,
    "limit": _LIMITS,
    "max_pending": _LIMITS,
    "rate": _LIMITS,
    "rate_limit": _LIMITS,
    "deadline": _TIMEOUT,
    "hard_time_limit": _TIMEOUT,
    "job_timeout": _TIMEOUT,
    "max_runtime": _TIMEOUT,
    "soft_time_limit": _TIMEOUT,
    "time_limit": _TIMEOUT,
    "debounce": 'unique=Debounce("30s")',
    "debounce_limit": 'unique=Debounce("30s", at_most="5m")',
    "lock": 'key="user:7"',
    "ordering_key": 'key="user:7"',
    "on_conflict": 'unique=Once(on_conflict="replace")',
    "queueing_lock": 'unique=Once(key="user:7", while_pending=True)',
    "singleton": "unique=Once()",
    "throttle": 'unique=Throttle(1, "5m")',
    "unique_for": 'unique=Once(per="1h")',
    "unique_key": 'unique=Once(key="user:7")',
    "while_": "unique=Once(while_pending=True)",
    "meta": 'headers={"request": "7f3a"}',
    "metadata": 'headers={"request": "7f3a"}',
    "tags": 'headers={"request": "7f3a"}',
    "depends_on": "after=[handle]",
    "dsn": "database=URL",
    "url": "database=URL",
    "connect_timeout": 'connections=Connections(connect_timeout="5s")',
    "listen_url": "connections=Connections(listen_url=URL)",
    "pool_size": "connections=Connections(pool_size=10)",
    "statement_timeout": 'connections=Connections(statement_timeout="30s")',
    "store_grace": 'store=Store(grace="1h")',
    "store_limit": 'store=Store(limit="2GB")',
    "aging": 'fairness=Fairness(aging="1h")',
    "fair_types": "fairness=Fairness(by_type=True)",
    "max_workers": "concurrency=50",
    "threads": "concurrency=50",
    "burst": "drain=True",
}
# Whose options a message may point to, in this order.
_OWNERS = ("using()", "@app.job()", "Treadle()", "worker()", "JobQueue()")
_known: dict[str, frozenset[str]] = {}


class Options:
    """The options of a function, which messages call by this name."""

    def __init__(self, owner: str, names: Iterable[str], *, is_value: bool = False) -> None:
        self.owner = owner
        self.names = frozenset(names)
        self._is_value = is_value
        _known[owner] = self.names

    def check(self, given: Iterable[str]) -> None:
        """Raise InvalidArgument if one of these does not exist."""
        for name in given:
            if name not in self.names:
                raise InvalidArgument(f"{self.owner} has no option {name!r}{self._advice(name)}")

    def _advice(self, name: str) -> str:
        ours = OURS.get(name)
        if ours and not self._is_value:
            option = ours.partition("=")[0]
            return f"; use {ours}{'' if option in self.names else _of_owner(option)}"
        import difflib  # of no use to those who make no mistake

        owner = _of_owner(name)
        # Unless it is only misspelt, as queue for queues, it may be the option of another function.
        if close := difflib.get_close_matches(name, self.names, 1, 0.8 if owner else 0.6):
            return f"; did you mean {close[0]}?"
        if not self._is_value and (close := difflib.get_close_matches(name, OURS, 1, 0.8)):
            return f"; did you mean {close[0]}? Use {OURS[close[0]]}"
        return f": it is an option{owner}" if owner else f"; the options are {', '.join(sorted(self.names))}"


def _of_owner(option: str) -> str:
    return next((f" of {owner}" for owner in _OWNERS if option in _known.get(owner, ())), "")


def known_options(owner: str) -> Callable[[F], F]:
    """Decorate a function so that it raises InvalidArgument for a wrong keyword."""
    return lambda function: _checked(function, Options(owner, _keywords(function)))


def checked_value(value: type[T]) -> type[T]:
    """Decorate a dataclass so that it raises InvalidArgument for a wrong keyword."""
    made = Options(f"{value.__name__}(…)", _keywords(value.__init__), is_value=True)
    setattr(value, "__init__", _checked(value.__init__, made))  # noqa: B010 - type checkers refuse the assignment
    return value


def _keywords(function: Callable[..., Any]) -> list[str]:
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        each.name
        for each in inspect.signature(function).parameters.values()
        if each.kind in kinds and each.name != "self"
    ]


def _checked(function: F, options: Options) -> F:
    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if not given.keys() <= options.names:
            options.check(given)
        return function(*args, **given)

    return cast(F, checked)
