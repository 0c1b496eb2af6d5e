"""Limits that jobs wait for longer than somebody may have intended."""

from collections.abc import Iterable, Sequence

from treadle.doctor.facts import UnopenedLimit, WaitingLimit, Worker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.text import lines, literal, plural
from treadle.words.formatting import count, span
from treadle.words.limit_status import limit_in_words, scope_in_words


def check_limits(context: Context, limits: Sequence[WaitingLimit]) -> list[Finding]:
    return [_paused(context, limits), _lowered(context, limits), _slow(context, limits)]


def _paused(context: Context, limits: Sequence[WaitingLimit]) -> Finding:
    paused = [(each, _paused_severity(context, each)) for each in limits if each.amount == 0]
    bad = [each for each, severity in paused if severity is not Severity.OK]
    if not bad:
        return ok("paused_limits", "No due jobs have waited for a limit of 0 for a long time.")
    declared = [each for each in bad if each.changed is None]
    changed = [each for each in bad if each.changed is not None]
    remedy = []
    if changed:
        remedy.append("If the pause is no longer needed: " + _several(_undo(context, each) for each in changed))
    if declared:
        remedy.append(
            "A limit that is 0 in code lets no job start: change the code, or: "
            + _several(_set(context, each) for each in declared)
        )
    return Finding(
        "paused_limits",
        highest(*(severity for _, severity in paused)),
        "Due jobs wait for a limit that is 0.",
        lines([f"{_named(each)}: {_waiting(each)}{_changed(each)}" for each in bad]),
        "\n".join(remedy),
    )


def _paused_severity(context: Context, limit: WaitingLimit) -> Severity:
    """A pause by an operator is deliberate, and may last for some time; a limit that is 0 in code may not."""
    if limit.changed is None:
        return severity_of(limit.due, *context.limits.unserved)
    return severity_of(min(limit.due, limit.changed), *context.limits.paused)


def _lowered(context: Context, limits: Sequence[WaitingLimit]) -> Finding:
    lowered = [each for each in limits if each.changed is not None and _is_lower(each)]
    severities = [severity_of(each.changed or 0, *context.limits.lowered_limit) for each in lowered]
    bad = [each for each, severity in zip(lowered, severities, strict=True) if severity is not Severity.OK]
    if not bad:
        return ok("lowered_limits", "No jobs wait for a limit that was lowered long ago.")
    return Finding(
        "lowered_limits",
        highest(*severities),
        "Jobs wait for limits that were lowered at run time, and not reset for a long time.",
        lines(
            [
                f"{_named(each)}: {_words(each.amount, each.seconds)} instead of "
                f"{_words(each.usual_amount, each.usual_seconds)}{_changed(each)}; {_waiting(each)}"
                for each in bad
            ]
        ),
        "If they may be as before: " + _several(_undo(context, each) for each in bad),
    )


def _is_lower(limit: WaitingLimit) -> bool:
    """Lower than it would be if the change were undone."""
    if not limit.amount or not (limit.in_code or limit.for_key):
        return False
    if limit.usual_amount is None:
        return True
    return limit.amount / (limit.seconds or 1) < limit.usual_amount / (limit.usual_seconds or 1)


def _slow(context: Context, limits: Sequence[WaitingLimit]) -> Finding:
    slow = [(each, _delay(each)) for each in limits if each.amount]
    severities = [severity_of(seconds, *context.limits.slow_limit) for _, seconds in slow]
    bad = [each for (each, _), severity in zip(slow, severities, strict=True) if severity is not Severity.OK]
    if not bad:
        return ok("slow_limits", "No limit makes jobs wait for more than a day.")
    return Finding(
        "slow_limits",
        highest(*severities),
        "Limits make jobs wait for more than a day.",
        lines([f"{_named(each)}: {_waiting(each)}{_backlog(each)}" for each in bad]),
        "If what the limit protects allows more: " + _several(_set(context, each) for each in bad) + "\n"
        "Otherwise enqueue fewer of these jobs, or cancel those that are no longer needed.",
    )


def _delay(limit: WaitingLimit) -> float:
    """How long jobs wait because of the limit. If all were counted, their number and the rate tell: that the oldest has
    waited for longer has other causes, such as missing workers."""
    return _needed(limit) if limit.seconds and limit.exact else max(limit.due, _needed(limit))


def _needed(limit: WaitingLimit) -> float:
    """How long the jobs that wait take at the rate of the limit; at least, if not all were counted."""
    return limit.waiting * limit.seconds / limit.amount if limit.seconds and limit.amount else 0.0


def _backlog(limit: WaitingLimit) -> str:
    if not limit.seconds:
        return ""
    least = "" if limit.exact else "at least "
    return f"; at {_words(limit.amount, limit.seconds)} they take {least}{span(_needed(limit))}"


def check_unopened(context: Context, workers: Sequence[Worker], limits: Sequence[UnopenedLimit]) -> list[Finding]:
    """Workers open lanes. If there are no workers, that is reported as `unserved_lanes`."""
    live = any(each.live and each.lease is not None for each in workers)
    bad = [each for each in limits if live and each.seconds >= context.limits.unopened[0]]
    if not bad:
        return [ok("unopened_limits", "Jobs that wait for a limit are claimed when it has room.")]
    names = list(dict.fromkeys(each.name for each in bad))
    statements = " ".join(
        f"update {context.schema}.lanes set dormant_xid = null, limit_name = null, limit_key = null"
        f" where limit_name = {literal(each)};"
        for each in names[:5]
    )
    return [
        Finding(
            "unopened_limits",
            highest(*(severity_of(each.seconds, *context.limits.unopened) for each in bad)),
            "Jobs wait for limits that have room, and no worker claims them.",
            lines(
                [
                    f"{each.name}{f' for {each.key}' if each.key else ''}: jobs of "
                    f"{plural(each.lanes, 'combination')} of queue, type and priority have waited for "
                    f"{span(each.seconds)} (job {each.job})"
                    for each in bad
                ]
            ),
            f"To let workers claim them: {statements}\n"
            "If this statement waits, a session has locked the rows: see pg_locks. "
            "Otherwise it is a defect of Treadle; please report it.",
        )
    ]


def _named(limit: WaitingLimit) -> str:
    return f"{limit.name}{scope_in_words(limit.per, limit.key)}"


def _waiting(limit: WaitingLimit) -> str:
    more = "" if limit.exact else "at least "
    jobs = "1 job waits" if limit.waiting == 1 else f"{more}{count(limit.waiting)} jobs wait"
    return f"{jobs}, the oldest for {span(max(0.0, limit.due))}"


def _changed(limit: WaitingLimit) -> str:
    if limit.changed is None:
        return ""
    return f"; changed {span(max(0.0, limit.changed))} ago by {limit.changed_by or 'somebody'}"


def _words(amount: int | None, seconds: float | None) -> str:
    return limit_in_words(amount, seconds, None)


def _several(statements: Iterable[str]) -> str:
    return " ".join(list(dict.fromkeys(statements))[:5])


def _undo(context: Context, limit: WaitingLimit) -> str:
    if limit.for_key or limit.in_code:
        return f"select {context.schema}.reset_limit({literal(limit.name)}{_key(limit) if limit.for_key else ''});"
    return _set(context, limit)


def _set(context: Context, limit: WaitingLimit) -> str:
    return f"select {context.schema}.set_limit({literal(limit.name)}, AMOUNT{_key(limit) if limit.for_key else ''});"


def _key(limit: WaitingLimit) -> str:
    return f", p_key => {literal(limit.key or '')}"
