"""Queries of limits: what code declares, how they are used, and what operators change."""

import json
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict

from treadle.db.queries.operations import audit_params
from treadle.db.query import Query, Rows, call, statement
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, UnknownLimit, shown
from treadle.words.limit_status import LimitKind, LimitStatus
from treadle.words.limits import MOST, MOST_PENDING, Declared
from treadle.words.naming import int_within, text_within
from treadle.words.options import Options

_COMPUTED = {"exact": "waiting < counted_to and lanes < counted_to"}
_COLUMNS = ", ".join(_COMPUTED.get(each, each) for each in LimitStatus._fields)


class LimitOptions(TypedDict, total=False):
    """What else can be said about a change."""

    period: Duration
    """For a limit per period."""
    burst: int
    """How many may start at once after a quiet time. 1: evenly spaced. As many as the amount if not given."""
    key: str
    """The change is for this value of the limit's argument only."""
    job_type: str
    """The limit is added, or is also for this job type."""
    queue: str
    """The limit is added, or is also for this queue."""
    per: str
    """The name of an argument: each of its values has the added limit for itself."""
    actor: str
    reason: str


_OPTIONS = Options("limits.set()", LimitOptions.__annotations__, is_value=True)


class Kind(NamedTuple):
    """What decides which changes a limit allows."""

    name: str
    per: str
    """Empty: it has no keys."""
    kind: LimitKind


def declare(declared: Declared) -> Query[None]:
    limits = [
        {
            **limit._asdict(),
            "digest": limit.digest,
            "job_types": sorted(targets.job_types),
            "queues": sorted(targets.queues),
        }
        for limit, targets in declared.limits
    ]
    settings = [{**each._asdict(), "digest": each.digest} for each in declared.settings]
    params = {"limits": json.dumps(limits), "settings": json.dumps(settings)}
    return call("declare_limits", params, lambda rows: None)


def find(
    name: str | None = None, limit: int = 100, *, key: str | None = None, search: str | None = None
) -> Query[list[LimitStatus]]:
    """At most `limit` rows, those that jobs wait for first. With `key`, of the limit `name` the keys that begin with
    it; with `search`, the limits whose name, job type or queue contains it, without their keys."""
    if key is not None and name is not None:
        return find_keys(name, key, limit)
    if search is not None:
        return find_matching(search, limit)
    params = {"name": None if name is None else limit_name(name), "limit": limit}
    return call("find_limits", params, lambda rows: list(map(_status, rows)), columns=_COLUMNS)


def find_matching(text: str, limit: int = 100) -> Query[list[LimitStatus]]:
    """The limits whose name, job type or queue contains the text, without their keys."""
    return _search(None, None, text_within(text, 100, "search"), limit)


def find_keys(name: str, key: str, limit: int = 100) -> Query[list[LimitStatus]]:
    """A limit, with its keys that begin with `key`. The key that equals it is among them even if nothing uses it."""
    return _search(limit_name(name), key_text(key), None, limit)


def _search(name: str | None, key: str | None, text: str | None, limit: int) -> Query[list[LimitStatus]]:
    params = {"name": name, "key": key, "search": text, "limit": limit}
    return Query(
        statement("search_limits").replace("/* columns */", _COLUMNS), params, lambda rows: list(map(_status, rows))
    )


def get_kind(name: str) -> Query[Kind]:
    """Raises UnknownLimit if there is no such limit."""

    def read(rows: Rows) -> Kind:
        *kind, names = rows[0]
        if kind[0] is None:
            raise UnknownLimit(name, names)
        return Kind._make(kind)

    return Query(statement("get_limit"), {"name": limit_name(name)}, read)


def find_kind(name: str, options: LimitOptions) -> Query[Kind | None]:
    """None: there is no such limit yet, and these options add it."""
    _OPTIONS.check(options)
    query = get_kind(name)

    def read(rows: Rows) -> Kind | None:
        return None if rows[0][0] is None and adds(options) else query.read(rows)

    return Query(query.text, query.params, read)


def change(name: str, known: Kind | None, amount: int | None, options: LimitOptions) -> Query[None]:
    """Change the limit that is known, or add it. Raises InvalidArgument if it cannot have these values."""
    period, burst, key = options.get("period"), options.get("burst"), options.get("key")
    target = {"job_type": options.get("job_type"), "queue": options.get("queue"), "per": options.get("per")}
    most = {"pending": MOST_PENDING, "aging": 100}.get(known.kind if known else "", MOST)
    params = {
        "name": limit_name(name),
        "amount": None if amount is None else int_within(amount, 0, most, "the amount of a limit"),
        "period": None if period is None else _period(period),
        "burst": None if burst is None else int_within(burst, 1, MOST, "burst"),
        "key": None if key is None else key_text(key),
        **{each: None if given is None else text_within(given, 50, each) for each, given in target.items()},
        **audit_params(options.get("actor"), options.get("reason")),
    }
    if adds(options):
        _check_added(name, known, options)
    elif known:
        _check_changed(known, amount, options)

    def read(rows: Rows) -> None:
        if not rows[0][0]:  # it was removed in the meantime
            raise UnknownLimit(name, [])

    return call("set_limit", params, read, makes_due=True)


def pause(name: str, known: Kind, options: LimitOptions) -> Query[None]:
    """Raises InvalidArgument if it is no limit."""
    if known.kind not in ("concurrency", "rate"):
        raise InvalidArgument(f"{known.name!r} does not limit which jobs start: pause another limit, or the job type")
    return change(name, known, 0, options)


def adds(options: LimitOptions) -> bool:
    """The limit need not exist."""
    return any(options.get(each) is not None for each in ("job_type", "queue", "per"))


def reset(known: Kind, key: str | None = None, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Returns False if nothing was changed at run time."""
    if key is not None:
        _check_key(known)
    params = {"name": known.name, "key": None if key is None else key_text(key), **audit_params(actor, reason)}
    return call("reset_limit", params, lambda rows: bool(rows[0][0]), makes_due=True)


def limit_name(name: str) -> str:
    return text_within(name, 100, "the name of a limit")


def key_text(key: str) -> str:
    """The empty key is that of the jobs without a value."""
    return "" if key == "" else text_within(key, 200, "key")


def _check_added(name: str, known: Kind | None, options: LimitOptions) -> None:
    period, burst, key = options.get("period"), options.get("burst"), options.get("key")
    if options.get("job_type") is None and options.get("queue") is None:
        raise InvalidArgument(f"give the job type or the queue that limit {name!r} is for")
    if key is not None:
        raise InvalidArgument(f"first add limit {name!r} for all keys, then set it for key {shown(key)}")
    if burst is not None and period is None:
        raise InvalidArgument(f"burst is for a limit per period, got burst {burst} without a period")
    if known and (options.get("per") or "") != known.per:
        per = f"per {known.per}" if known.per else "for all its jobs together"
        raise InvalidArgument(f"there is already a limit {name!r}, {per}; choose another name")
    if known and known.kind != ("concurrency" if period is None else "rate"):
        raise InvalidArgument(f"there is already a limit {name!r}, which {_counts(known)}; choose another name")


def _check_changed(known: Kind, amount: int | None, options: LimitOptions) -> None:
    has_period = options.get("period") is not None or options.get("burst") is not None
    if known.kind == "fairness" and options.get("key") is None:
        advice = f"set the weight of one {known.per}" if known.per else "all job types have the same weight"
        raise InvalidArgument(f"limit {known.name!r} {_counts(known)}: {advice}")
    if known.kind == "aging" and options.get("burst") is not None:
        raise InvalidArgument(f"limit {known.name!r} {_counts(known)}: it has no burst")
    if has_period and known.kind not in ("rate", "aging"):
        raise InvalidArgument(f"limit {known.name!r} {_counts(known)}: it has no period and no burst")
    if options.get("key") is None:
        return
    _check_key(known)
    if has_period:
        raise InvalidArgument(f"for one {known.per}, only the amount of limit {known.name!r} can be set")
    if amount is None:
        raise InvalidArgument(f"for one {known.per}, the amount of limit {known.name!r} must be a number, got None")


def _check_key(known: Kind) -> None:
    if not known.per:
        raise InvalidArgument(f"limit {known.name!r} has no keys: all its jobs have it together")


def _counts(known: Kind) -> str:
    return {
        "concurrency": "counts the jobs that run at once",
        "rate": "counts the jobs that start per period",
        "pending": "counts the jobs that wait",
        "fairness": "is about fairness",
        "aging": "is about aging",
    }[known.kind]


def _period(period: Duration) -> timedelta:
    span = duration(period, "period")
    if not span:
        raise InvalidArgument(f"period must be longer than 0, got {period!r}")
    return span


def _status(row: tuple[Any, ...]) -> LimitStatus:
    values = LimitStatus._make(row)
    if values.kind in ("fairness", "aging"):
        values = values._replace(in_use=None, available=None, opens_at=None)
    return values._replace(job_types=values.job_types or [], queues=values.queues or [])
