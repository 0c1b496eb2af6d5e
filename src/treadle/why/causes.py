"""What keeps a pending job from being claimed, each by itself: a Reason if it holds, else None."""

import shlex
from typing import Any

from treadle.why.facts import COUNTED, Facts, LiveWorker
from treadle.why.reason import Reason, because, clipped, clock, counted, listed, plural, since
from treadle.words.changes import Pause
from treadle.words.phrases import printable, span

# A claim holds the row, too, for milliseconds.
LOCKED_SECONDS = 1.0


def out_of_attempts(facts: Facts) -> Reason | None:
    if facts.attempts < facts.max_attempts:
        return None
    used = f"{facts.attempts} of {plural(facts.max_attempts, 'attempt')}"
    return Reason(
        "out_of_attempts",
        f"The job is pending but has used {used}, so no worker takes it; only a change by hand leaves one so.",
        f"To try it once more: treadle cancel {facts.id}, then treadle retry {facts.id}",
        f"has used {used}",
        {"attempts": facts.attempts, "max_attempts": facts.max_attempts},
    )


def due_later(facts: Facts) -> Reason | None:
    if facts.run_at <= facts.at:
        return None
    left = span((facts.run_at - facts.at).total_seconds())
    when = f"in {left}, at {clock(facts.run_at)}"
    failure = facts.failure if facts.failure and facts.failure.newest else None
    if failure:
        said = (
            f"The job backs off: attempt {failure.attempt} of {facts.max_attempts} failed "
            f"{since(facts.at, failure.at)} ago ({clipped(failure.error)}), and it is tried again {when}."
        )
        short = f"failed at attempt {failure.attempt} of {facts.max_attempts} and is tried again in {left}"
    else:
        put_off = "was put off, and is due" if facts.lease else "is due later:"
        said, short = f"The job {put_off} {when}.", f"is due in {left}"
    return Reason(
        "due_later",
        said,
        f"It starts by itself then. To run it at once: treadle run-now {facts.id}",
        short,
        {
            "due_at": facts.run_at,
            "failed_attempt": failure.attempt if failure else None,
            "error": failure.error if failure else None,
        },
    )


def paused(facts: Facts) -> list[Reason]:
    """All of them: each has to be lifted."""
    return [_paused(facts, each) for each in facts.pauses]


def _paused(facts: Facts, pause: Pause) -> Reason:
    parts = [f"the type {clipped(pause.job_type)}"] if pause.job_type else []
    parts += [f"the queue {clipped(pause.queue)}"] if pause.queue else []
    what = " in ".join(parts) or "everything"
    named = (("--type", pause.job_type), ("--queue", pause.queue))
    how = " ".join(f"{option} {shlex.quote(printable(name))}" for option, name in named if name) or "--all"
    return Reason(
        "paused",
        f"The job is paused: {clipped(pause.paused_by or 'somebody')} paused {what} "
        f"{since(facts.at, pause.paused_at)} ago{because(pause.reason)}.",
        f"To go on: treadle resume {how}",
        f"is paused ({what})",
        {
            "job_type": pause.job_type,
            "queue": pause.queue,
            "paused_at": pause.paused_at,
            "paused_by": pause.paused_by,
            "reason": pause.reason,
        },
    )


def key_blocked(facts: Facts, blocker: Reason | None) -> Reason | None:
    """`blocker` is why the job that goes first does not end."""
    key = f"its key {clipped(facts.key or '', 60)}"
    if facts.blocker is None:
        if not facts.held:
            return None
        return Reason(
            "key_blocked",
            f"The job is held behind {key}, but no other job has it; only a change by hand leaves one so.",
            "To let it go: set holds to 0 in its row",
            f"is held behind {key}",
            {"key": facts.key, "blocking_job": None, "blocking_reason": None, "before": 0},
        )
    others = counted(facts.earlier - 1, COUNTED) if facts.earlier > 1 else ""
    more = f"; {others} more of the key {'goes' if facts.earlier == 2 else 'go'} before it" if others else ""
    its = f" and {blocker.short}" if blocker else ""
    return Reason(
        "key_blocked",
        f"The job waits for {key}: job {facts.blocker} goes first{its}{more}.",
        f"It goes on when that job has ended: treadle why {facts.blocker}",
        f"waits for {key} (job {facts.blocker})",
        {
            "key": facts.key,
            "blocking_job": facts.blocker,
            "blocking_reason": blocker.name if blocker else None,
            "before": facts.earlier,
        },
    )


def unserved(facts: Facts) -> Reason | None:
    """No live worker takes it."""
    if any(each.serves for each in facts.workers):
        return None
    # One without types has not introduced itself yet, or is a client by hand.
    knowing = [each for each in facts.workers if each.job_types is not None]
    data: dict[str, Any] = {
        "job_type": facts.job_type,
        "queue": facts.queue,
        "workers": [each.worker_id for each in knowing],
    }
    if not knowing:
        return _no_worker(facts, data)
    fit = [each for each in knowing if facts.job_type in (each.job_types or ())]
    if fit:
        queues = sorted({name for each in fit for name in each.queues or ()})
        return Reason(
            "no_worker_for_queue",
            f"No live worker takes the queue {clipped(facts.queue)}: {_those(fit)} the type "
            f"{clipped(facts.job_type)} in {listed(queues)}.",
            "Start a worker without --queues, or with this one in it",
            f"is in a queue that no live worker takes ({clipped(facts.queue)})",
            data | {"queues": queues},
        )
    types = sorted({name for each in knowing for name in each.job_types or ()})
    return Reason(
        "no_worker_for_type",
        f"No live worker knows the job type {clipped(facts.job_type)}: {_those(knowing)} {listed(types)}.",
        f"Start a worker whose application has a job {clipped(facts.job_type)}, and whose --types do not leave it out",
        f"is of a type that no live worker knows ({clipped(facts.job_type)})",
        data | {"job_types": types},
    )


def _those(workers: list[LiveWorker]) -> str:
    return "the only one takes" if len(workers) == 1 else f"the {len(workers)} that live take"


def _no_worker(facts: Facts, data: dict[str, Any]) -> Reason:
    said = "No worker lives"
    if facts.gone:
        worker_id, seen_at = facts.gone
        said += f"; the last one, {clipped(worker_id)}, was seen {since(facts.at, seen_at)} ago"
    for each in facts.workers:
        says = "claims by hand and does not say what" if each.by_hand else "has begun and not yet said what it takes"
        said += f"; {clipped(each.worker_id)} {says}"
    return Reason(
        "no_worker",
        f"{said}.",
        "Start one: treadle worker module:app",
        "has no live worker to run it",
        data | {"last_worker": facts.gone and facts.gone[0], "last_seen_at": facts.gone and facts.gone[1]},
    )


def locked(facts: Facts) -> Reason | None:
    locker = facts.locker
    if not locker or (locker.since and (facts.at - locker.since).total_seconds() < LOCKED_SECONDS):
        return None
    who = f"process {locker.pid}" + (f" ({clipped(locker.application)})" if locker.application else "")
    open_for = f", open for {since(facts.at, locker.since)}," if locker.since else ""
    return Reason(
        "locked",
        f"An open transaction of {who}{open_for} holds the job's row, and claims pass over it.",
        f"End that transaction; if need be: select pg_terminate_backend({locker.pid})",
        f"has its row held by an open transaction of {who}",
        {"pid": locker.pid, "application": locker.application, "since": locker.since},
    )
