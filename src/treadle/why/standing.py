"""Jobs that do not wait in line: held by somebody, or ended. And those for which it is only a matter of time."""

from datetime import timedelta
from typing import Any

from treadle.why.facts import COUNTED, Facts
from treadle.why.reason import Reason, because, clipped, clock, counted, plural, since
from treadle.words.phrases import span
from treadle.words.status import Status

# A client by hand has not said how often it gives a sign of life.
PATIENCE = timedelta(minutes=5)
# Whoever claims looks after the lanes twice a second.
QUIET_SECONDS = 5.0


def held(facts: Facts) -> Reason:
    """Claimed or running."""
    sign = max(facts.claimed_at, facts.sign or facts.claimed_at)
    silent = (facts.at - sign).total_seconds()
    who = clipped(facts.worker_id or "somebody")
    data: dict[str, Any] = {
        "worker": facts.worker_id,
        "claimed_at": facts.claimed_at,
        "started_at": facts.started_at,
        "seen_at": sign,
        "progress": facts.progress,
        "stage": facts.stage,
        "attempt": facts.attempts,
        "max_attempts": facts.max_attempts,
    }
    lease = facts.holder.lease
    if lease is not None and (facts.holder.lost_at or silent > lease):
        return _lost(facts, who, lease, silent, data)
    if lease is None and facts.at - sign > PATIENCE:
        return Reason(
            "holder_silent",
            f"The job is held by hand by {who} since {since(facts.at, facts.claimed_at)}, without a sign of life "
            f"{f'for {span(silent)}' if facts.sign else 'at all'}.",
            'If that client is gone: queue.recover_stale_jobs("5m"); one that lives sends heartbeats',
            f"is held by {who}, who is silent for {span(silent)}",
            data,
        )
    if facts.status == Status.RUNNING:
        began = since(facts.at, facts.started_at or facts.claimed_at)
        at = f", at {facts.progress or 0}%" + (f" ({clipped(facts.stage)})" if facts.stage else "")
        return Reason(
            "running",
            f"The job runs: {who} works on attempt {facts.attempts} of {facts.max_attempts} since {began}{at}; "
            f"the last sign of life came {span(silent)} ago.",
            f"Nothing needs to be done. To watch it: treadle watch {facts.id}",
            f"runs on {who} since {began}",
            data,
        )
    claimed = since(facts.at, facts.claimed_at)
    behind = f"begins it behind the {plural(facts.beside, 'job')} that it runs"
    return Reason(
        "claimed",
        f"The job was claimed {claimed} ago by {who}, which {behind if facts.beside else 'is about to begin it'}.",
        "Nothing needs to be done",
        f"was claimed by {who} {claimed} ago",
        data | {"beside": facts.beside},
    )


def _lost(facts: Facts, who: str, lease: float, silent: float, data: dict[str, Any]) -> Reason:
    saved = any(not each.by_hand for each in facts.workers)
    soon = f"the other workers give it back within {span(lease)}" if saved else "no other worker lives to give it back"
    return Reason(
        "holder_lost",
        f"The job is held by {who}, which is silent for {span(silent)} with a lease of {span(lease)}: {soon}.",
        "It is tried again by itself" if saved else "Start a worker: treadle worker module:app",
        f"is held by {who}, which is gone",
        data | {"lease": lease},
    )


def ended(facts: Facts) -> Reason:
    """Completed, failed or cancelled."""
    ago = since(facts.at, facts.finished_at or facts.at)
    again = f"To run it again: treadle retry {facts.id}"
    data = {"finished_at": facts.finished_at, "attempt": facts.attempts, "max_attempts": facts.max_attempts}
    if facts.status == Status.COMPLETED:
        return Reason("completed", f"The job has completed {ago} ago.", again, "has completed", data)
    if facts.status == Status.FAILED:
        tried = f"at attempt {facts.attempts} of {facts.max_attempts}"
        return Reason(
            "failed",
            f"The job has failed for good {ago} ago, {tried}{because(facts.error)}.",
            again,
            f"has failed {tried}",
            data | {"error": facts.error},
        )
    # Without a word of who cancelled it, last_error is still that of an attempt before.
    stale = facts.failure is not None and facts.failure.error == facts.error
    why = facts.cancelled_why if facts.cancelled_by else None if stale else facts.error
    by = f" by {clipped(facts.cancelled_by)}" if facts.cancelled_by else ""
    return Reason(
        "cancelled",
        f"The job was cancelled {ago} ago{by}{because(why)}.",
        again,
        "was cancelled",
        data | {"cancelled_by": facts.cancelled_by, "reason": why},
    )


def busy(facts: Facts) -> Reason | None:
    """Others go before it, or all places are taken."""
    serving = [each for each in facts.workers if each.serves]
    places, taken = sum(each.places or 0 for each in serving), sum(each.busy or 0 for each in serving)
    ahead = facts.ahead.total
    full = all(each.places is not None and (each.busy or 0) >= each.places for each in serving)
    if not serving or (not ahead and not full):
        return None
    rate = facts.ended / facts.ended_in if facts.ended and facts.ended_in else None
    wait = max(ahead, 1) / rate if rate else None
    start = None if wait is None else facts.at + timedelta(seconds=min(wait, 1e9))
    alone = len(serving) == 1
    those = "The only worker that takes it" if alone else f"The {len(serving)} workers that take it"
    if ahead:
        said = f"{those} {'is' if alone else 'are'} busy: {_before(facts)}"
    else:
        room = f"{'has' if alone else 'have'} no free place ({plural(places, 'job')} at once)"
        said = f"{those} {room}, and it is the next"
    if wait is None or start is None:
        said += "; no end of theirs was counted lately, so when it may start cannot be told"
    else:
        lately = f"{plural(facts.ended or 0, 'attempt')} of theirs ended in the last {span(facts.ended_in or 0)}"
        more = "not before" if ahead > COUNTED else "in about"
        said += f"; {lately}, so it may start {more} {span(wait)}, at {clock(start)}"
    return Reason(
        "busy",
        f"{said}.",
        "It starts by itself. Sooner: more workers, --processes or --concurrency, or a higher priority",
        f"has {counted(ahead, COUNTED)} before it" if ahead else "is the next, with no free place",
        {
            "ahead": min(ahead, COUNTED),
            "exact": ahead <= COUNTED,
            "ahead_in_lane": facts.ahead.own,
            "ahead_in_priority": facts.ahead.level,
            "ahead_in_higher": facts.ahead.above,
            "workers": [each.worker_id for each in serving],
            "places": places,
            "taken": taken,
            "rate": rate,
            "starts_at": start,
        },
    )


def _before(facts: Facts) -> str:
    ahead = facts.ahead
    parts = [
        f"{counted(number, COUNTED)} {where}"
        for number, where in (
            (ahead.above, "of higher priority"),
            (ahead.level, "of its priority in other lanes"),
            (ahead.own, "in its own lane"),
        )
        if number
    ]
    jobs = f"{counted(ahead.total, COUNTED)} {'job goes' if ahead.total == 1 else 'jobs go'} before it"
    return f"{jobs} ({', '.join(parts)})"


def ready(facts: Facts) -> Reason:
    """Nothing is in the way."""
    due = (facts.at - facts.run_at).total_seconds()
    quiet = facts.tick_age is None or facts.tick_age > QUIET_SECONDS
    strange = due > QUIET_SECONDS and quiet
    looked = "never" if facts.tick_age is None else f"{span(facts.tick_age)} ago"
    return Reason(
        "ready",
        f"Nothing is in the way: it should start any moment; it was due {span(due)} ago"
        + (f", and the last claim was seen {looked}." if strange else "."),
        "If it still stands here in a few seconds: treadle doctor" if strange else "Nothing needs to be done",
        "should start any moment",
        {
            "due_at": facts.run_at,
            "tick_age": facts.tick_age,
            "workers": [each.worker_id for each in facts.workers if each.serves],
        },
    )
