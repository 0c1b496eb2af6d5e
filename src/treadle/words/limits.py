"""How many jobs may run at once, start per period, or wait: the options `limits` and `fair_by`."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.json import Json
from treadle.words.naming import int_within, text_within
from treadle.words.options import checked_value

Per: TypeAlias = str | Callable[..., object]

WhenFull: TypeAlias = Literal["refuse", "drop"]

MOST = 100_000
MOST_PENDING = 10_000_000
LONGEST_PART, LONGEST_PARTITION = 200, 500


@checked_value
@dataclass(frozen=True)
class Limit:
    """How many jobs may run at once, on all workers together."""

    amount: int
    per: Per | None = None
    """The name of an argument: each of its values has the limit for itself. Or a function of the arguments."""
    name: str | None = None
    """Job types whose limits have the same name share one. By default, each type has its own."""

    def __post_init__(self) -> None:
        int_within(self.amount, 0, MOST, "Limit")
        _check(self.per, self.name)


@checked_value
@dataclass(frozen=True)
class Rate:
    """How many jobs may start per period, on all workers together."""

    amount: int
    period: Duration
    per: Per | None = None
    """The name of an argument: each of its values has the limit for itself. Or a function of the arguments."""
    burst: int | None = None
    """How many may start at once after a quiet time: as many as per period, if not given."""
    smooth: bool = False
    """Spread them evenly over the period: the same as burst=1."""
    name: str | None = None
    """Job types whose rates have the same name share one. By default, each type has its own."""

    def __post_init__(self) -> None:
        int_within(self.amount, 0, MOST, "Rate")
        if not duration(self.period, "the period of Rate"):
            raise InvalidArgument(f"the period of Rate must be longer than 0 s, got {self.period!r}")
        if self.burst is not None:
            int_within(self.burst, 1, MOST, "burst")
        if self.smooth and self.burst not in (None, 1):
            raise InvalidArgument(f"smooth=True means burst=1, got burst={self.burst}")
        _check(self.per, self.name)


@checked_value
@dataclass(frozen=True)
class MaxPending:
    """How many jobs may wait to be run."""

    amount: int
    per: Per | None = None
    """The name of an argument: each of its values has the limit for itself. Or a function of the arguments."""
    when_full: WhenFull = "refuse"
    """What happens when so many wait: "refuse" raises QueueFull; "drop" cancels the oldest, the lowest priority
    first, and none of a higher priority than the new job."""
    wait: Duration | None = None
    """First wait for this long at most until fewer do."""
    name: str | None = None
    """Job types that give the same name have the limit together. By default, each type has its own."""

    def __post_init__(self) -> None:
        int_within(self.amount, 0, MOST_PENDING, "MaxPending")
        if self.when_full not in ("refuse", "drop"):
            raise InvalidArgument(f'when_full must be "refuse" or "drop", got {self.when_full!r}')
        if self.wait is not None:
            duration(self.wait, "wait")
            if self.when_full == "drop":
                raise InvalidArgument('wait cannot be used with when_full="drop", which makes room at once')
        _check(self.per, self.name)


AnyLimit: TypeAlias = Limit | Rate | MaxPending


class LimitDeclaration(NamedTuple):
    """A limit as code declares it."""

    name: str
    kind: Literal["concurrency", "rate", "pending"]
    per: str
    amount: int
    seconds: float | None = None
    burst: int | None = None
    when_full: WhenFull | None = None

    @property
    def digest(self) -> str:
        """Two versions of the code that declare the same have the same digest."""
        return hashlib.sha256(repr(tuple(self)).encode()).hexdigest()


class TypeSettings(NamedTuple):
    """How claims choose among the jobs of a type, as code declares it. Those of the empty type are for all jobs."""

    job_type: str
    fair_by: str | None = None
    """The values of this part of the partition take turns. Empty, with the empty type: the job types do."""
    weights_of: str | None = None
    """The job type by whose name the weights of the values are set: another one, if this is an alias."""
    aging_seconds: float | None = None
    aging_share: int | None = None

    @property
    def digest(self) -> str:
        """Two versions of the code that declare the same have the same digest."""
        return hashlib.sha256(repr(tuple(self)).encode()).hexdigest()


def fair_settings(fair_by: Per, name: str, aliases: Iterable[str]) -> list[TypeSettings]:
    """The values of an argument take turns."""
    return [TypeSettings(each, part_name(fair_by), name) for each in (name, *aliases)]


class LimitTargets(NamedTuple):
    """Which jobs a limit is for."""

    job_types: set[str]
    queues: set[str]


@dataclass(frozen=True)
class Declared:
    """What the code of an application declares."""

    limits: Sequence[tuple[LimitDeclaration, LimitTargets]]
    settings: Sequence[TypeSettings] = ()

    def __bool__(self) -> bool:
        return bool(self.limits or self.settings)


def declared_limits(given: Iterable[AnyLimit], job_type: str) -> list[LimitDeclaration]:
    """The limits of a job type."""
    found = [declared_limit(each, job_type) for each in given]
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"two limits have the name {twice!r}; give one of them another: name=…")
    return found


def declared_limit(given: AnyLimit, subject: str) -> LimitDeclaration:
    part = "" if given.per is None else part_name(given.per)
    kind = {Limit: "", Rate: " rate", MaxPending: " max_pending"}[type(given)]
    name = given.name or f"{subject}{kind}{f' per {part}' if part else ''}"
    if isinstance(given, MaxPending):
        return LimitDeclaration(name, "pending", part, given.amount, when_full=given.when_full)
    if isinstance(given, Limit):
        return LimitDeclaration(name, "concurrency", part, given.amount)
    burst = 1 if given.smooth else given.burst
    return LimitDeclaration(name, "rate", part, given.amount, duration(given.period).total_seconds(), burst)


def check_limits(given: object) -> tuple[AnyLimit, ...]:
    """The option: one limit, or several of them."""
    several = given if isinstance(given, list | tuple) else () if given is None else (given,)
    for each in several:
        if not isinstance(each, Limit | Rate | MaxPending):
            raise InvalidArgument(f"limits must be Limit(…), Rate(…) or MaxPending(…), or a list of them, got {each!r}")
    return tuple(several)


def part_name(per: Per) -> str:
    """What a part of the partition is called: the argument, or the function."""
    if isinstance(per, str):
        return text_within(per, 50, "per")
    name = getattr(per, "__name__", "")
    return name[:50] if name.isidentifier() else "key"


def partition_of(parts: Mapping[str, Per], arguments: Mapping[str, Any], given: Mapping[str, object] | None) -> str:
    """The partition of a job, as JSON. `arguments` are those of the call, with defaults."""
    values: dict[str, str] = {name: _text(name, value) for name, value in (given or {}).items()}
    for name, per in parts.items():
        if name in values:
            continue
        if callable(per):
            values[name] = _text(name, per(**arguments))
        elif name in arguments:
            values[name] = _text(name, arguments[name])
        else:
            raise InvalidArgument(
                f"a limit of this job is per {name!r}, which is not one of its arguments; "
                f"give it: using(partition={{{name!r}: …}})"
            )
    text = json.dumps(values, ensure_ascii=False, sort_keys=True) if values else ""
    if len(text) > LONGEST_PARTITION:
        raise InvalidArgument(f"the partition must have at most {LONGEST_PARTITION} characters, got {len(text)}")
    return text


def _check(per: object, name: str | None) -> None:
    if per is not None and not callable(per) and not (isinstance(per, str) and per):
        raise InvalidArgument(f"per must be the name of an argument, or a function of the arguments, got {per!r}")
    if name is not None:
        text_within(name, 100, "the name of a limit")


def _text(name: str, value: Json | object) -> str:
    """As PostgreSQL's ->> shows a JSON value."""
    if isinstance(value, str):
        text = value
    elif value is None:
        text = ""
    elif isinstance(value, float) and isfinite(value):
        text = format(Decimal(repr(value)), "f")
    else:
        text = json.dumps(value, default=str, ensure_ascii=False)
    if len(text) > LONGEST_PART:
        raise InvalidArgument(f"{name} must have at most {LONGEST_PART} characters for a limit, got {len(text)}")
    return text
