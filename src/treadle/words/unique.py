"""Which calls are the same job, and what becomes of the second one: the options `unique`, `debounce` and `throttle`."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.json import Json
from treadle.words.naming import text_within

Unique: TypeAlias = str | bool | Sequence[str]
While: TypeAlias = Literal["pending", "unfinished"]
OnConflict: TypeAlias = Literal["keep", "replace", "reschedule", "prioritize", "raise"]

CHANGES = ("replace", "reschedule", "prioritize")
ON_CONFLICT = ("keep", *CHANGES, "raise")
MOST_PER_PERIOD = 1000

_THROTTLE = re.compile(r"\s*(\d+)\s+per\s+(.+?)\s*")


class UniqueOptions(TypedDict, total=False):
    """Options that decide whether a call adds a job."""

    unique: Unique | None
    """Which calls are the same: those with this text, with True those with the same arguments, with a list of names
    those with the same values of these arguments. While there is such a job, no other is added."""
    while_: While
    """How long: until the job is finished ("unfinished", the default), or until a worker claims it ("pending")."""
    unique_for: Duration | None
    """Instead of while_: for this long after the job was enqueued, whatever has become of it."""
    on_conflict: OnConflict | Sequence[OnConflict]
    """What happens to the job that exists: "keep" (the default) changes nothing; "replace" gives it the new arguments,
    "reschedule" the new time, "prioritize" the new priority if that is higher. A job that has been claimed is not
    changed. "raise" raises DuplicateJob."""
    debounce: Duration | None
    """The job is due this long after the last call, and gets the arguments of that call."""
    debounce_limit: Duration | None
    """But not later than this long after the first call."""
    throttle: str | None
    """At most so many jobs per period, such as "1 per 5m". Further calls return the latest job."""


class Enqueued(NamedTuple):
    """What an enqueue returned for one job."""

    id: UUID
    is_new: bool = True
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """UniqueOptions after the checks."""

    unique: Unique
    pending: bool = False
    period: timedelta | None = None
    per_period: int = 1
    changes: tuple[str, ...] = ()
    raises: bool = False
    delay: timedelta | None = None
    """Of debounce: instead of the job's own delay."""
    latest: timedelta | None = None

    def key_of(self, payload: str, defaults: Mapping[str, Json]) -> str:
        """The unique key of a job with this payload."""
        if isinstance(self.unique, str):
            return self.unique
        given = json.loads(payload)
        if isinstance(given, dict):
            given = {**defaults, **given}
        names = argument_names(self.unique)
        if names and not isinstance(given, dict):
            raise InvalidArgument(f"unique names {', '.join(names)}, but the payload is not an object")
        chosen = {name: given.get(name) for name in names} if names else given
        # A digest: whoever may read unique keys may not read payloads.
        text = json.dumps(chosen, sort_keys=True, separators=(",", ":"))
        return f"arguments:{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def unique_rule(options: UniqueOptions) -> UniqueRule | None:
    """Check the options; None if every call adds a job. unique=None switches off what the function declares."""
    if "unique" in options and (options["unique"] is None or options["unique"] is False):
        return None
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if not given:
        return None
    for one, other in (
        ("debounce", "throttle"),
        ("debounce", "unique_for"),
        ("debounce", "while_"),
        ("debounce", "on_conflict"),
        ("throttle", "unique_for"),
        ("throttle", "while_"),
        ("unique_for", "while_"),
    ):
        if one in given and other in given:
            raise InvalidArgument(f"{one} cannot be used with {other}")
    if "debounce_limit" in given and "debounce" not in given:
        raise InvalidArgument("debounce_limit needs debounce")
    if "unique" not in given and not given.keys() & {"debounce", "throttle"}:
        raise InvalidArgument(f"{next(iter(given))} needs unique, which says which calls are the same")
    unique = _checked(given.get("unique", True))

    if "debounce" in given:
        delay = _positive(given["debounce"], "debounce")
        latest = _positive(given["debounce_limit"], "debounce_limit") if "debounce_limit" in given else None
        if latest is not None and latest < delay:
            raise InvalidArgument(f"debounce_limit must not be shorter than debounce, got {given['debounce_limit']!r}")
        return UniqueRule(unique, pending=True, changes=("replace", "reschedule"), delay=delay, latest=latest)

    actions = _actions(given.get("on_conflict", "keep"))
    changes = tuple(each for each in actions if each in CHANGES)
    raises = "raise" in actions
    if "throttle" in given or "unique_for" in given:
        if changes:
            raise InvalidArgument(
                f"on_conflict={changes[0]!r} cannot be used with a period: the job of that period may be finished"
            )
        per_period, period, name = 1, given.get("unique_for"), "unique_for"
        if "throttle" in given:
            per_period, period = _throttle(given["throttle"])
            name = "the period of throttle"
        return UniqueRule(unique, period=_positive(period, name), per_period=per_period, raises=raises)

    pending = given.get("while_", "unfinished")
    if pending not in ("pending", "unfinished"):
        raise InvalidArgument(f'while_ must be "pending" or "unfinished", got {pending!r}')
    return UniqueRule(unique, pending=pending == "pending", changes=changes, raises=raises)


def argument_names(unique: object) -> Sequence[str]:
    """The arguments that the option names."""
    return () if isinstance(unique, str | bool) or not isinstance(unique, Sequence) else unique


def _checked(unique: Any) -> Unique:
    if unique is True:
        return True
    if isinstance(unique, str):
        return text_within(unique, 200, "unique")
    if isinstance(unique, list | tuple) and unique and all(isinstance(name, str) for name in unique):
        return tuple(unique)
    raise InvalidArgument(f"unique must be a text, True, or a list of names of arguments, got {unique!r}")


def _actions(given: Any) -> tuple[str, ...]:
    actions = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
    if not actions or not set(actions) <= set(ON_CONFLICT):
        raise InvalidArgument(f"on_conflict must be one or more of {', '.join(ON_CONFLICT)}, got {given!r}")
    if len(actions) > 1 and set(actions) & {"keep", "raise"}:
        raise InvalidArgument(f"on_conflict: keep and raise cannot be combined with others, got {given!r}")
    return actions


def _throttle(given: Any) -> tuple[int, str]:
    match = _THROTTLE.fullmatch(given) if isinstance(given, str) else None
    if match is None or not 1 <= int(match[1]) <= MOST_PER_PERIOD:
        raise InvalidArgument(
            f'throttle must be a number from 1 to {MOST_PER_PERIOD:,} per period, such as "1 per 5m", got {given!r}'
        )
    return int(match[1]), match[2]


def _positive(given: Any, name: str) -> timedelta:
    span = duration(given, name)
    if not span:
        raise InvalidArgument(f"{name} must be longer than 0 s, got {given!r}")
    return span
