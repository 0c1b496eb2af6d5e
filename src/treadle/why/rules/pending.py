"""What keeps a pending job from being claimed. Each rule returns a Reason if it applies, else None."""

import shlex
from typing import Any

from treadle.text.unclaimable import give_attempts, why_unclaimable
from treadle.why.facts import COUNT_LIMIT, Facts, LiveWorker, ScheduleFacts
from treadle.why.reason import Reason
from treadle.why.text import because, clipped, elapsed, enumerated, limited, utc
from treadle.words.changes import Pause
from treadle.words.formatting import printable, span
from treadle.words.graph import WORKFLOW

# A claim also locks the row, for milliseconds.
LOCKED_SECONDS = 1.0


def out_of_attempts(facts: Facts) -> Reason | None:
    attempts = None if "attempts" in facts.null_columns else facts.attempts
    max_attempts = None if "max_attempts" in facts.null_columns else facts.max_attempts
    problem = why_unclaimable(attempts, max_attempts)
    if problem is None:
        return None
    return Reason(
        "out_of_attempts",
        f"No worker will ever claim the job: it is pending, but {problem}.",
        f"To let it run: {give_attempts(facts.schema, [facts.id])} If it is not needed: treadle cancel {facts.id}",
        f"cannot be claimed ({problem})",
        {"attempts": attempts, "max_attempts": max_attempts},
    )


def due_later(facts: Facts) -> Reason | None:
    if facts.run_at <= facts.at:
        return None
    left = span((facts.run_at - facts.at).total_seconds())
    when = f"in {left}, at {utc(facts.run_at)}"
    failure = facts.failure if facts.failure and facts.failure.newest else None
    if failure:
        attempt = f"attempt {failure.attempt} of {facts.max_attempts}"
        sentence = (
            f"The job is waiting to be retried: {attempt} failed {elapsed(facts.at, failure.at)} ago "
            f"({clipped(failure.error)}), and the next one is due {when}."
        )
        short = f"failed on {attempt} and will be retried in {left}"
    else:
        sentence, short = f"The job {_postponed(facts)} {when}.", f"is due in {left}"
    return Reason(
        "due_later",
        sentence,
        f"It starts automatically then. To run it now: treadle run-now {facts.id}",
        short,
        {
            "due_at": facts.run_at,
            "failed_attempt": failure.attempt if failure else None,
            "error": failure.error if failure else None,
        },
    )


def _postponed(facts: Facts) -> str:
    if facts.lease:
        return "was postponed and is due"
    if facts.origin and facts.run_at > facts.origin.scheduled_for:
        schedule = clipped(facts.origin.schedule, 100)
        return f"is delayed at random by the jitter of its schedule {schedule}: it is due"
    return "is scheduled for later: it is due"


def paused(facts: Facts) -> list[Reason]:
    """One for each pause: all of them have to be resumed."""
    return [_paused(facts, each) for each in facts.pauses]


def pause_scope(pause: Pause) -> tuple[str, str]:
    """What is paused, in words, and as options of `treadle resume`."""
    parts = [f"the type {clipped(pause.job_type)}"] if pause.job_type else []
    parts += [f"the queue {clipped(pause.queue)}"] if pause.queue else []
    what = " in ".join(parts) or "all jobs"
    options = (("--type", pause.job_type), ("--queue", pause.queue))
    arguments = " ".join(f"{option} {shlex.quote(printable(name))}" for option, name in options if name) or "--all"
    return what, arguments


def _paused(facts: Facts, pause: Pause) -> Reason:
    what, arguments = pause_scope(pause)
    ago = elapsed(facts.at, pause.paused_at)
    who = f"{clipped(pause.paused_by)} paused {what}" if pause.paused_by else f"{what} {was(pause)} paused"
    return Reason(
        "paused",
        f"The job is paused: {who} {ago} ago{because(pause.reason)}.",
        f"To resume: treadle resume {arguments}",
        f"is paused ({what})",
        {
            "job_type": pause.job_type,
            "queue": pause.queue,
            "paused_at": pause.paused_at,
            "paused_by": pause.paused_by,
            "reason": pause.reason,
        },
    )


def was(pause: Pause) -> str:
    return "was" if pause.job_type or pause.queue else "were"


def waiting(facts: Facts, blocker: Reason | None) -> Reason | None:
    """`blocker` is the reason why the job that it waits for has not ended."""
    if not facts.waits:
        return None
    if facts.is_open:
        left = facts.others_waited_for + (facts.waited_for is not None)
        jobs = "all of its jobs have ended" if not left else f"{left:,} of its jobs have not ended"
        return Reason(
            "open_batch",
            f"The batch is open, so that more jobs can be added; {jobs}.",
            "When all of its jobs are enqueued, close it: batch.close(), or in SQL: "
            f"select {facts.schema}.close_workflow('{facts.id}')",
            "is an open batch",
            {"left": left},
        )
    if facts.waited_for is None:
        return Reason(
            "waiting_for_jobs",
            "The jobs that it waits for have just ended, or are just being changed.",
            "It is looked at again within a second",
            "waits for other jobs",
            {"waits_for": None, "reason": None, "others": 0},
        )
    others = facts.others_waited_for
    more = f", and for {limited(others, COUNT_LIMIT)} {'other' if others == 1 else 'others'}" if others else ""
    state = f", which {blocker.short}" if blocker else ""
    return Reason(
        "waiting_for_jobs",
        f"The {'workflow' if facts.job_type == WORKFLOW else 'job'} waits for job {facts.waited_for}{state}{more}.",
        f"To see more about that job: treadle why {facts.waited_for}",
        f"waits for job {facts.waited_for}",
        {"waits_for": facts.waited_for, "reason": blocker.name if blocker else None, "others": others},
    )


def signal(facts: Facts) -> Reason | None:
    if not facts.waits_for_signal:
        return None
    name = (facts.stage or "").removeprefix("waiting for the signal ")
    since = f" since {utc(facts.started_at)}" if facts.started_at else ""
    return Reason(
        "waiting_for_signal",
        f"The job waits for the signal {printable(name)}{since}.",
        f"Send it: treadle signal {facts.id} {shlex.quote(printable(name))}",
        f"waits for the signal {printable(name)}",
        {"signal": name},
    )


def key_blocked(facts: Facts, blocker: Reason | None) -> Reason | None:
    """`blocker` is the reason why the job that it waits for has not finished."""
    key = f"its key {clipped(facts.key or '', 60)}"
    if facts.blocker is None:
        if not facts.blocked:
            return None
        return Reason(
            "key_blocked",
            f"The job is blocked by {key}, but no other job has this key. Only a manual change leaves a job like this.",
            "To unblock it: set holds to 0 in its row",
            f"is blocked by {key}",
            {"key": facts.key, "blocking_job": None, "blocking_reason": None, "before": 0},
        )
    others = limited(facts.earlier - 1, COUNT_LIMIT) if facts.earlier > 1 else ""
    more = f"; {others} more with this key {'runs' if facts.earlier == 2 else 'run'} before it" if others else ""
    state = f", which {blocker.short}" if blocker else ""
    cause = f"The job is blocked by {key}"
    if facts.origin and facts.key == f"schedule {facts.origin.schedule}":
        schedule = clipped(facts.origin.schedule, 100)
        cause = f'The schedule {schedule} runs its jobs one after the other (overlap="wait")'
    return Reason(
        "key_blocked",
        f"{cause}: it waits for job {facts.blocker}{state}{more}.",
        f"It starts when that job has finished: treadle why {facts.blocker}",
        f"is blocked by {key} (job {facts.blocker})",
        {
            "key": facts.key,
            "blocking_job": facts.blocker,
            "blocking_reason": blocker.name if blocker else None,
            "before": facts.earlier,
        },
    )


def unserved(facts: Facts | ScheduleFacts) -> Reason | None:
    """No live worker claims it, or the jobs of the schedule."""
    if any(each.serves for each in facts.workers):
        return None
    # One without types has not registered them yet, or is a client without a worker process.
    known = [each for each in facts.workers if each.job_types is not None]
    data: dict[str, Any] = {
        "job_type": facts.job_type,
        "queue": facts.queue,
        "workers": [each.worker_id for each in known],
    }
    if not known:
        return _no_worker(facts, data)
    fit = [each for each in known if facts.job_type in (each.job_types or ())]
    if fit:
        queues = sorted({name for each in fit for name in each.queues or ()})
        return Reason(
            "no_worker_for_queue",
            f"No live worker serves the queue {clipped(facts.queue)}: {_serve(fit)} the type "
            f"{clipped(facts.job_type)} only in {enumerated(queues)}.",
            "Start a worker without --queues, or with this queue among them",
            f"is in a queue that no live worker serves ({clipped(facts.queue)})",
            data | {"queues": queues},
        )
    types = sorted({name for each in known for name in each.job_types or ()})
    return Reason(
        "no_worker_for_type",
        f"No live worker serves the job type {clipped(facts.job_type)}: {_serve(known)} {enumerated(types)}.",
        f"Start a worker whose application defines {clipped(facts.job_type)} and whose --types include it",
        f"has a type that no live worker serves ({clipped(facts.job_type)})",
        data | {"job_types": types},
    )


def workers_paused(facts: Facts | ScheduleFacts) -> Reason | None:
    """All live workers that would claim it have a concurrency of 0."""
    serving = [each for each in facts.workers if each.serves]
    if not serving or any(each.slots != 0 for each in serving):
        return None
    one = len(serving) == 1
    ids = [each.worker_id for each in serving]
    workers = "The only live worker that serves" if one else f"The {len(serving)} live workers that serve"
    return Reason(
        "workers_paused",
        f"{workers} the job type {clipped(facts.job_type)} {'claims' if one else 'claim'} nothing: "
        f"{'its' if one else 'their'} concurrency was set to 0 ({enumerated(ids, 3)}).",
        f"To let {'it' if one else 'one of them'} claim jobs: "
        f"treadle concurrency {shlex.quote(printable(ids[0]))} --reset",
        "is served only by workers whose concurrency is 0",
        {"job_type": facts.job_type, "queue": facts.queue, "workers": ids},
    )


def _serve(workers: list[LiveWorker]) -> str:
    return "the only one serves" if len(workers) == 1 else f"the {len(workers)} live workers serve"


def _no_worker(facts: Facts | ScheduleFacts, data: dict[str, Any]) -> Reason:
    sentence = "There is no live worker"
    if facts.last_worker:
        worker_id, seen_at = facts.last_worker
        sentence += f"; the last one, {clipped(worker_id)}, was seen {elapsed(facts.at, seen_at)} ago"
    for each in facts.workers:
        state = "is a client that does not say which types it claims" if each.is_client else "is still starting"
        sentence += f"; {clipped(each.worker_id)} {state}"
    last = facts.last_worker
    return Reason(
        "no_worker",
        f"{sentence}.",
        "Start a worker: treadle worker module:app",
        "has no live worker to run it",
        data | {"last_worker": last and last[0], "last_seen_at": last and last[1]},
    )


def locked(facts: Facts) -> Reason | None:
    lock = facts.row_lock
    if not lock or (lock.since and (facts.at - lock.since).total_seconds() < LOCKED_SECONDS):
        return None
    process = f"process {lock.pid}" + (f" ({clipped(lock.application)})" if lock.application else "")
    duration = f", open for {elapsed(facts.at, lock.since)}," if lock.since else ""
    return Reason(
        "locked",
        f"An open transaction of {process}{duration} has locked the job's row, and claims skip it.",
        f"Commit or roll back that transaction, or terminate it: select pg_terminate_backend({lock.pid})",
        f"is locked by an open transaction of {process}",
        {"pid": lock.pid, "application": lock.application, "since": lock.since},
    )
