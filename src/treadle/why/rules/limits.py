"""Limits that keep a pending job from being claimed."""

import shlex
from datetime import datetime
from typing import Any

from treadle.why.facts import COUNT_LIMIT, Facts, LimitUse
from treadle.why.reason import Reason
from treadle.why.text import clipped, elapsed, utc
from treadle.why.text import limited as up_to
from treadle.words.formatting import count, printable, span
from treadle.words.limit_status import limit_in_words, scope_in_words


def limited(facts: Facts) -> list[Reason]:
    """One for each limit that the job waits for, those that are 0 first. Whether the others will be reached when a job
    is due is not known."""
    waiting = [] if facts.run_at > facts.at else [each for each in facts.limits if _waits(facts, each)]
    return [
        *(_paused(facts, each) for each in facts.limits if each.amount == 0),
        *(_reached(facts, each) for each in waiting),
    ]


def _waits(facts: Facts, limit: LimitUse) -> bool:
    if not limit.amount:
        return False
    return bool(limit.opens_at and limit.opens_at > facts.at) or _free(limit) < _needed(limit)


def _needed(limit: LimitUse) -> int:
    """A job that weighs more than the limit allows in all runs when nothing else uses it."""
    most = limit.amount or 0
    return min(limit.weight, (limit.burst or most) if limit.kind == "rate" else most)


def _free(limit: LimitUse) -> int:
    return (limit.available or 0) if limit.kind == "rate" else max(0, (limit.amount or 0) - (limit.in_use or 0))


def _paused(facts: Facts, limit: LimitUse) -> Reason:
    since, remedy = "", f"Change it in code, or: treadle limits set {_argument(limit.name)} AMOUNT"
    if limit.changed_at:
        since = f" since {utc(limit.changed_at)}, {elapsed(facts.at, limit.changed_at)} ago, set by "
        since += clipped(limit.changed_by or "somebody")
        remedy = f"To end this: treadle limits set {_argument(limit.name)} AMOUNT"
        if limit.in_code or limit.for_key:
            remedy = f"To end this: treadle limits reset {_argument(limit.name)}"
    return Reason(
        "limit_paused",
        f"No job starts: the limit {clipped(limit.name)} is 0{_scope(limit)}{since}.",
        f"{remedy}{_key_option(limit) if limit.for_key else ''}",
        f"is paused (limit {clipped(limit.name)} is 0{_scope(limit)})",
        _data(limit, None),
    )


def _reached(facts: Facts, limit: LimitUse) -> Reason:
    if limit.kind == "rate" or limit.opens_at:
        return _too_soon(facts, limit)
    used = f"{count(limit.in_use or 0)} of {count(limit.amount or 0)}"
    verb = "running" if limit.running == limit.in_use else "in use"
    name, free = clipped(limit.name), _free(limit)
    sentence = f"The limit {name} is reached: {used} {verb}{_scope(limit)}"
    if _needed(limit) > 1:
        are = "is" if free == 1 else "are"
        sentence = f"The job needs {count(_needed(limit))} of limit {name}{_scope(limit)}, {count(free)} {are} free"
        sentence += f" ({used} in use)"
    if limit.frees_at:
        left = (limit.frees_at - facts.at).total_seconds()
        sentence += f"; first free in about {span(left)}" if left >= 1 else "; the next should be free any moment"
    return Reason(
        "limited",
        f"{sentence}{_ahead(facts)}.",
        f"It starts automatically when there is room. To allow more: {_raise(limit)}",
        f"waits for the limit {name} ({used} {verb}{_scope(limit)})",
        _data(limit, limit.frees_at),
    )


def _too_soon(facts: Facts, limit: LimitUse) -> Reason:
    name = clipped(limit.name)
    when = "any moment"
    if limit.opens_at:
        when = f"in about {span(max(0.0, (limit.opens_at - facts.at).total_seconds()))}"
    words = limit_in_words(limit.amount, limit.seconds, limit.burst)
    needs = f", and the job needs {count(_needed(limit))}" if _needed(limit) > 1 else ""
    return Reason(
        "rate_limited",
        f"The limit {name} allows {words}{_scope(limit)}{needs}; the next may start {when}{_ahead(facts)}.",
        f"It starts automatically then. To allow more: {_raise(limit)}",
        f"waits for the limit {name} ({words}{_scope(limit)})",
        _data(limit, limit.opens_at),
    )


def _ahead(facts: Facts) -> str:
    number = facts.ahead.in_lane
    if not number:
        return ""
    jobs = "1 similar job is" if number == 1 else f"{up_to(number, COUNT_LIMIT)} similar jobs are"
    return f"; {jobs} ahead of it"


def _scope(limit: LimitUse) -> str:
    return scope_in_words(limit.per and clipped(limit.per), clipped(limit.key))


def _raise(limit: LimitUse) -> str:
    return f"treadle limits set {_argument(limit.name)} AMOUNT{_key_option(limit) if limit.per else ''}"


def _key_option(limit: LimitUse) -> str:
    return f" --key {_argument(limit.key)}"


def _argument(text: str) -> str:
    return shlex.quote(printable(text))


def _data(limit: LimitUse, starts_at: datetime | None) -> dict[str, Any]:
    return {
        "limit": limit.name,
        "per": limit.per,
        "key": limit.key if limit.per else None,
        "amount": limit.amount,
        "period": limit.seconds,
        "burst": limit.burst,
        "weight": limit.weight,
        "in_use": limit.in_use,
        "available": limit.available,
        "starts_at": starts_at,
        "changed_by": limit.changed_by,
        "changed_at": limit.changed_at,
    }
