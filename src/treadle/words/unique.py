"""Which calls are the same job, and what becomes of the second one: the option `unique`."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.json import Json
from treadle.words.naming import int_within, text_within
from treadle.words.options import checked_value

OnConflict: TypeAlias = Literal["keep", "replace", "reschedule", "prioritize", "raise"]

CHANGES = ("replace", "reschedule", "prioritize")
ON_CONFLICT = ("keep", *CHANGES, "raise")
MOST_PER_PERIOD = 1000


class Enqueued(NamedTuple):
    """What an enqueue returned for one job."""

    id: UUID
    is_new: bool = True
    is_changed: bool = False


@dataclass(frozen=True, init=False)
class _Unique:
    """Which calls of a job type are the same: those with the same values of these arguments, or of all of them if none
    is named; or, with `key`, those with the same text."""

    arguments: tuple[str, ...]
    key: str | None

    def _set(self, arguments: Sequence[str], key: str | None, **others: Any) -> None:
        if arguments and key is not None:
            raise InvalidArgument(
                f"give either names of arguments or key, got {', '.join(map(repr, arguments))} and key"
            )
        for name in arguments:
            if not isinstance(name, str):
                raise InvalidArgument(f"{type(self).__name__} takes names of arguments, got {name!r}")
        if key is not None:
            text_within(key, 200, "key")
        for name, value in {"arguments": tuple(arguments), "key": key, **others}.items():
            object.__setattr__(self, name, value)

    @property
    def delay(self) -> timedelta | None:
        """Instead of the job's own delay."""
        return None

    @property
    def raises(self) -> bool:
        """Whether DuplicateJob is raised if there is such a job."""
        return False

    def key_of(self, payload: str, defaults: Mapping[str, Json]) -> str:
        """The unique key of a job with this payload."""
        if self.key is not None:
            return self.key
        given = json.loads(payload)
        if isinstance(given, dict):
            given = {**defaults, **given}
        elif self.arguments:
            raise InvalidArgument(f"unique names {', '.join(self.arguments)}, but the payload is not an object")
        chosen = {name: given.get(name) for name in self.arguments} if self.arguments else given
        # A digest: whoever may read unique keys may not read payloads.
        text = json.dumps(chosen, sort_keys=True, separators=(",", ":"))
        return f"arguments:{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def options(self) -> dict[str, Any]:
        """As enqueue_with_options() reads them."""
        return {"all_or_none": self.raises}


@checked_value
@dataclass(frozen=True, init=False)
class Once(_Unique):
    """While such a job is unfinished, no other is added: `Once("user")` for the same user, `Once()` for the same
    arguments, `Once(key="import")` for all calls with this text.

    With `while_pending`, only until a worker claims the job. With `per`, for this long after it was enqueued instead,
    even if it has finished.

    `on_conflict` says what happens to the job that exists: "keep" (the default) changes nothing; "replace" gives it
    the new arguments, "reschedule" the new time, "prioritize" the new priority if that is higher. A job that has been
    claimed is not changed. "raise" raises DuplicateJob.
    """

    while_pending: bool
    per: timedelta | None
    on_conflict: tuple[str, ...]

    def __init__(
        self,
        *arguments: str,
        key: str | None = None,
        while_pending: bool = False,
        per: Duration | None = None,
        on_conflict: OnConflict | Sequence[OnConflict] = "keep",
    ) -> None:
        actions = _actions(on_conflict)
        if per is not None:
            if while_pending:
                raise InvalidArgument("give either while_pending or per: both say how long the job is the only one")
            if actions not in (("keep",), ("raise",)):
                raise InvalidArgument(
                    f"on_conflict={actions[0]!r} cannot be used with per: the job of that period may be finished"
                )
        self._set(
            arguments,
            key,
            while_pending=bool(while_pending),
            per=None if per is None else _positive(per, "per"),
            on_conflict=actions,
        )

    @property
    def raises(self) -> bool:
        return "raise" in self.on_conflict

    def options(self) -> dict[str, Any]:
        return {
            "unique_while": "pending" if self.while_pending else None,
            "period": self.per,
            "per_period": 1,
            "on_conflict": [each for each in self.on_conflict if each in CHANGES],
            "all_or_none": self.raises,
        }


@checked_value
@dataclass(frozen=True, init=False)
class Debounce(_Unique):
    """The job is due `wait` after the last of such calls, and gets the arguments of that call: `Debounce("30s",
    "product", at_most="5m")`. It is due not later than `at_most` after the first call."""

    wait: timedelta
    at_most: timedelta | None

    def __init__(
        self, wait: Duration, /, *arguments: str, key: str | None = None, at_most: Duration | None = None
    ) -> None:
        waits = _positive(wait, "Debounce")
        latest = None if at_most is None else _positive(at_most, "at_most")
        if latest is not None and latest < waits:
            raise InvalidArgument(f"at_most must not be shorter than Debounce({wait!r}), got {at_most!r}")
        self._set(arguments, key, wait=waits, at_most=latest)

    @property
    def delay(self) -> timedelta:
        return self.wait

    def options(self) -> dict[str, Any]:
        changes = ["replace", "reschedule"]
        return {"unique_while": "pending", "on_conflict": changes, "latest": self.at_most, "all_or_none": False}


@checked_value
@dataclass(frozen=True, init=False)
class Throttle(_Unique):
    """At most `amount` of such jobs are enqueued per period: `Throttle(1, "5m", "user")`. Further calls return the
    latest job, or raise DuplicateJob with on_conflict="raise"."""

    amount: int
    period: timedelta
    on_conflict: tuple[str, ...]

    def __init__(
        self,
        amount: int,
        period: Duration,
        /,
        *arguments: str,
        key: str | None = None,
        on_conflict: Literal["keep", "raise"] = "keep",
    ) -> None:
        int_within(amount, 1, MOST_PER_PERIOD, "Throttle")
        if on_conflict not in ("keep", "raise"):
            raise InvalidArgument(f'on_conflict of Throttle must be "keep" or "raise", got {on_conflict!r}')
        self._set(
            arguments,
            key,
            amount=amount,
            period=_positive(period, "the period of Throttle"),
            on_conflict=(on_conflict,),
        )

    @property
    def raises(self) -> bool:
        return "raise" in self.on_conflict

    def options(self) -> dict[str, Any]:
        return {"period": self.period, "per_period": self.amount, "on_conflict": [], "all_or_none": self.raises}


Unique: TypeAlias = Once | Debounce | Throttle


def check_unique(given: object) -> Unique | None:
    """The option. None: every call adds a job."""
    if given is None or isinstance(given, Once | Debounce | Throttle):
        return given
    text = f"Once(key={given!r})" if isinstance(given, str) else 'Once("user")'
    raise InvalidArgument(f"unique must be Once(…), Debounce(…) or Throttle(…), such as {text}, got {given!r}")


def _actions(given: Any) -> tuple[str, ...]:
    actions = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
    if not actions or not set(actions) <= set(ON_CONFLICT):
        raise InvalidArgument(f"on_conflict must be one or more of {', '.join(ON_CONFLICT)}, got {given!r}")
    if len(actions) > 1 and set(actions) & {"keep", "raise"}:
        raise InvalidArgument(f"on_conflict: keep and raise cannot be combined with others, got {given!r}")
    return actions


def _positive(given: Duration, name: str) -> timedelta:
    span = duration(given, name)
    if not span:
        raise InvalidArgument(f"{name} must be longer than 0 s, got {given!r}")
    return span
