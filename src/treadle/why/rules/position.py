"""Pending jobs that nothing blocks: their position in the queue, and when they may start."""

from datetime import timedelta

from treadle.why.facts import COUNT_LIMIT, Facts, LiveWorker
from treadle.why.reason import Reason
from treadle.why.text import limited, plural, utc
from treadle.words.formatting import span

# Workers that claim make a tick every 0.5 s.
IDLE_SECONDS = 5.0


def busy(facts: Facts) -> Reason | None:
    """Other jobs are ahead of it, or all slots are taken."""
    serving = [each for each in facts.workers if each.may_claim]
    slots, taken = sum(each.slots or 0 for each in serving), sum(each.busy or 0 for each in serving)
    ahead = facts.ahead.total
    full = all(each.slots is not None and (each.busy or 0) >= each.slots for each in serving)
    if not serving or (not ahead and not full):
        return None
    rate = (
        facts.finished_attempts / facts.finished_within if facts.finished_attempts and facts.finished_within else None
    )
    wait = max(ahead, 1) / rate if rate else None
    start = None if wait is None else facts.at + timedelta(seconds=min(wait, 1e9))
    sentence = _workers(serving, slots, facts)
    if wait is None or start is None:
        sentence += "; no attempt has finished recently, so its start cannot be estimated"
    else:
        recent = (
            f"{plural(facts.finished_attempts or 0, 'attempt')} finished in the last {span(facts.finished_within or 0)}"
        )
        about = "not before" if ahead > COUNT_LIMIT else "in about"
        sentence += f"; {recent}, so it may start {about} {span(wait)}, at {utc(start)}"
    return Reason(
        "busy",
        f"{sentence}.",
        "It starts automatically. To start it sooner: more workers, --processes or --concurrency, or a higher priority",
        f"has {limited(ahead, COUNT_LIMIT)} ahead of it" if ahead else "is next, but all slots are taken",
        {
            "ahead": min(ahead, COUNT_LIMIT),
            "exact": ahead <= COUNT_LIMIT,
            "ahead_in_lane": facts.ahead.in_lane,
            "ahead_in_priority": facts.ahead.same_priority,
            "ahead_in_higher": facts.ahead.higher_priority,
            "workers": [each.worker_id for each in serving],
            "places": slots,
            "taken": taken,
            "rate": rate,
            "starts_at": start,
        },
    )


def _workers(serving: list[LiveWorker], slots: int, facts: Facts) -> str:
    one = len(serving) == 1
    workers = "The only worker that serves the job" if one else f"The {len(serving)} workers that serve the job"
    if facts.ahead.total:
        return f"{workers} {'is' if one else 'are'} busy: {_ahead(facts)}"
    return f"{workers} {'has' if one else 'have'} no free slot ({slots:,} in total); the job is next"


def _ahead(facts: Facts) -> str:
    ahead = facts.ahead
    parts = [
        f"{limited(number, COUNT_LIMIT)} {where}"
        for number, where in (
            (ahead.higher_priority, "with a higher priority"),
            (ahead.same_priority, "with the same priority in other lanes"),
            (ahead.in_lane, "in its own lane"),
        )
        if number
    ]
    jobs = f"{limited(ahead.total, COUNT_LIMIT)} {'job is' if ahead.total == 1 else 'jobs are'} ahead of it"
    return f"{jobs} ({', '.join(parts)})"


def ready(facts: Facts) -> Reason:
    """Nothing is in the way."""
    due = (facts.at - facts.run_at).total_seconds()
    idle = facts.tick_age is None or facts.tick_age > IDLE_SECONDS
    unexpected = due > IDLE_SECONDS and idle
    tick = (
        "workers have not claimed anything yet"
        if facts.tick_age is None
        else f"the last claim was {span(facts.tick_age)} ago"
    )
    return Reason(
        "ready",
        f"Nothing blocks the job: it has been due for {span(due)} and should start any moment"
        + (f", but {tick}." if unexpected else "."),
        "If it has not started in a few seconds: treadle doctor" if unexpected else "No action is required",
        "should start any moment",
        {
            "due_at": facts.run_at,
            "tick_age": facts.tick_age,
            "workers": [each.worker_id for each in facts.workers if each.may_claim],
        },
    )
