"""What keeps a schedule from enqueueing jobs, or its jobs from running. Each rule returns a Reason if it applies."""

import shlex
from datetime import timedelta

from treadle.why.facts import COUNT_LIMIT, ScheduleFacts
from treadle.why.reason import Reason
from treadle.why.rules.pending import pause_scope, was
from treadle.why.text import because, clipped, elapsed, limited, utc
from treadle.words.formatting import printable, span

# Workers declare their schedules every minute, and renew a declaration that is 30 s old.
DECLARED_WITHIN = timedelta(minutes=2)
# Workers enqueue within 0.1 s, and look every 5 s for schedules that are new.
LATE_SECONDS = 10.0


def schedule_paused(facts: ScheduleFacts) -> Reason | None:
    if facts.paused_at is None:
        return None
    ago = elapsed(facts.at, facts.paused_at)
    who = f"{clipped(facts.paused_by)} paused it" if facts.paused_by else "it was paused"
    return Reason(
        "paused",
        f"The schedule is paused: {who} {ago} ago{because(facts.pause_reason)}.",
        f"To resume: treadle schedules resume {_argument(facts)}",
        f"is paused, since {ago} ago",
        {"paused_at": facts.paused_at, "paused_by": facts.paused_by, "reason": facts.pause_reason},
    )


def retired(facts: ScheduleFacts) -> Reason | None:
    if facts.retired_at is None:
        return None
    since = f"; the last one did {elapsed(facts.at, facts.declared_at)} ago" if facts.declared_at else ""
    return Reason(
        "retired",
        f"The schedule is retired: no worker's code declares it any longer{since}.",
        "Start a worker whose application declares it. If it is not needed: "
        f"treadle schedules delete {_argument(facts)}",
        "is retired: no worker declares it",
        {"retired_at": facts.retired_at, "declared_at": facts.declared_at},
    )


def erroneous(facts: ScheduleFacts) -> Reason | None:
    if facts.error is None:
        return None
    left = 0.0 if facts.retry_at is None else (facts.retry_at - facts.at).total_seconds()
    again = f"in {span(left)}" if left > 0 else "within seconds"
    change = f"To correct its times: treadle schedules change {_argument(facts)} EXPRESSION"
    return Reason(
        "error",
        f"The last try to enqueue its jobs failed: {clipped(facts.error)}. A worker tries again {again}.",
        "Correct the schedule in code" if facts.in_code else change,
        "has an error",
        {"error": facts.error, "retry_at": facts.retry_at, "next_at": facts.next_at},
    )


def ended(facts: ScheduleFacts) -> Reason | None:
    if not facts.ended:
        return None
    last = f"; the last one was {elapsed(facts.at, facts.last_at)} ago" if facts.last_at else ""
    return Reason(
        "ended",
        f"The schedule has ended: it has no further times{last}.",
        "To continue it, change its end or its expression. To enqueue a job now: "
        f"treadle schedules run {_argument(facts)}",
        "has no further times",
        {"last_at": facts.last_at},
    )


def without_worker(facts: ScheduleFacts) -> Reason | None:
    """Clients that claim without a worker process enqueue no schedules."""
    if any(not each.is_client for each in facts.workers):
        return None
    last = facts.last_worker
    seen = f"; the last one, {clipped(last[0])}, was seen {elapsed(facts.at, last[1])} ago" if last else ""
    return Reason(
        "no_worker",
        f"There is no live worker to enqueue its jobs{seen}.",
        "Start a worker: treadle worker module:app",
        "has no live worker to enqueue its jobs",
        {"last_worker": last and last[0], "last_seen_at": last and last[1], "next_at": facts.next_at},
    )


def not_declared(facts: ScheduleFacts) -> Reason | None:
    if not facts.in_code or facts.retired_at or not facts.declared_at:
        return None
    if facts.at - facts.declared_at <= DECLARED_WITHIN:
        return None
    ago = elapsed(facts.at, facts.declared_at)
    return Reason(
        "not_declared",
        f"No live worker enqueues it: the schedule is declared in code, and the last worker whose code declares it "
        f"was there {ago} ago.",
        "Start a worker whose application declares it. After ten minutes it is retired",
        "is declared by no live worker",
        {"declared_at": facts.declared_at, "workers": [each.worker_id for each in facts.workers]},
    )


def overlapping(facts: ScheduleFacts, unfinished: Reason | None) -> Reason | None:
    """`unfinished` is the reason of its last job, if that has not finished."""
    if facts.overlap != "skip" or unfinished is None or not facts.skipped:
        return None
    times = "1 time was" if facts.skipped == 1 else f"{limited(facts.skipped, COUNT_LIMIT)} times were"
    return Reason(
        "overlap",
        f'Its last job has not finished, and its times are left out meanwhile (overlap="skip"): {times} left out since '
        f"job {facts.last_job}, which {unfinished.short}.",
        f"It continues when that job has finished: treadle why {facts.last_job}",
        f"waits for its last job (job {facts.last_job})",
        {"last_job": facts.last_job, "last_job_reason": unfinished.name, "skipped": min(facts.skipped, COUNT_LIMIT)},
    )


def starts_later(facts: ScheduleFacts) -> Reason | None:
    if facts.starts_at is None or facts.starts_at <= facts.at:
        return None
    first = f"; its first time is {utc(facts.next_at)}" if facts.next_at else ""
    left = span((facts.starts_at - facts.at).total_seconds())
    return Reason(
        "starts_later",
        f"The schedule starts in {left}, at {utc(facts.starts_at)}{first}.",
        f"It starts automatically then. To enqueue a job now: treadle schedules run {_argument(facts)}",
        f"starts in {left}",
        {"starts_at": facts.starts_at, "next_at": facts.next_at},
    )


def jobs_paused(facts: ScheduleFacts) -> list[Reason]:
    """Its jobs are enqueued, and wait."""
    found = []
    for pause in facts.pauses:
        what, arguments = pause_scope(pause)
        who = f" by {clipped(pause.paused_by)}" if pause.paused_by else ""
        when = f"{elapsed(facts.at, pause.paused_at)} ago{because(pause.reason)}"
        found.append(
            Reason(
                "jobs_paused",
                f"Its jobs are enqueued, but do not run: {what} {was(pause)} paused{who} {when}.",
                f"To resume: treadle resume {arguments}",
                f"has jobs that are paused ({what})",
                {"job_type": pause.job_type, "queue": pause.queue, "paused_at": pause.paused_at},
            )
        )
    return found


def on_time(facts: ScheduleFacts) -> Reason:
    """Nothing is in the way."""
    data = {"next_at": facts.next_at, "last_at": facts.last_at, "last_job": facts.last_job}
    if facts.next_at is None:
        return Reason(
            "ready",
            "Nothing blocks the schedule: a worker computes its next time within seconds.",
            "If it still has no next time then: treadle doctor",
            "is about to get its next time",
            data,
        )
    seconds = (facts.next_at - facts.at).total_seconds()
    if seconds > 0:
        last = f"; the last time was {elapsed(facts.at, facts.last_at)} ago" if facts.last_at else ""
        return Reason(
            "due_later",
            f"Nothing blocks the schedule: it is due in {span(seconds)}, at {utc(facts.next_at)}{last}.",
            f"No action is required. To enqueue a job now: treadle schedules run {_argument(facts)}",
            f"is due in {span(seconds)}",
            data,
        )
    late = span(-seconds)
    if -seconds < LATE_SECONDS:
        return Reason(
            "ready",
            f"Nothing blocks the schedule: it has been due for {late} and its job should be enqueued any moment.",
            "No action is required",
            "should be enqueued any moment",
            data,
        )
    return Reason(
        "late",
        f"The schedule has been due for {late}, and no worker has enqueued its job, although there are live workers.",
        "Look for errors in the log of the workers, and run: treadle doctor",
        f"has been due for {late}",
        data,
    )


def _argument(facts: ScheduleFacts) -> str:
    return shlex.quote(printable(facts.name))
