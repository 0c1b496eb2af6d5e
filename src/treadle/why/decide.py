"""Decides, from the facts, on the one reason why a job or a schedule does not run."""

from treadle.db.queries.workflows import SIGNAL
from treadle.why.facts import Facts, ScheduleFacts
from treadle.why.reason import Other, Reason
from treadle.why.rules.claimed import claimed
from treadle.why.rules.finished import finished
from treadle.why.rules.limits import limited
from treadle.why.rules.pending import (
    due_later,
    key_blocked,
    locked,
    out_of_attempts,
    paused,
    signal,
    unserved,
    waiting,
    workers_paused,
)
from treadle.why.rules.position import busy, ready
from treadle.why.rules.refused import refused
from treadle.why.rules.schedule import (
    ended,
    erroneous,
    jobs_paused,
    not_declared,
    on_time,
    overlapping,
    retired,
    schedule_paused,
    starts_later,
    without_worker,
)
from treadle.why.rules.stuck import workers_stuck
from treadle.words.status import Status


def decide(facts: Facts, blocker: Reason | None = None) -> Reason:
    """The first cause that applies, with the others in short. `blocker` is the reason of the job that it waits for, or
    of the one that blocks its key.

    The causes are in the order in which they take effect: the job itself, its lane, the jobs that it waits for, its
    key, its limits, the workers. Each of them would keep the job from running even if all that follow were removed.
    """
    if facts.status.finished:
        return _with_origin(facts, finished(facts))
    if facts.status in (Status.CLAIMED, Status.RUNNING):
        return _with_origin(facts, _first([each for each in (refused(facts), claimed(facts)) if each]))
    if reason := signal(facts) or (waiting(facts, blocker) if facts.is_workflow or facts.job_type == SIGNAL else None):
        return reason  # no worker runs it
    later = due_later(facts)
    causes = [
        out_of_attempts(facts),
        later,
        *paused(facts),
        waiting(facts, blocker),
        key_blocked(facts, None if facts.waits else blocker),
        *limited(facts),
        refused(facts),
        unserved(facts),
        workers_paused(facts),
        workers_stuck(facts),
        # Which jobs will be ahead of it when it is due is not known.
        None if later else busy(facts),
        locked(facts),
    ]
    return _with_origin(facts, _first([each for each in causes if each] or [ready(facts)]))


def decide_schedule(facts: ScheduleFacts, unfinished: Reason | None = None) -> Reason:
    """The first cause why a schedule does not run, with the others in short. `unfinished` is the reason of its last
    job, if that has not finished."""
    causes = [
        schedule_paused(facts),
        retired(facts),
        erroneous(facts),
        ended(facts),
        without_worker(facts),
        not_declared(facts),
        overlapping(facts, unfinished),
        starts_later(facts),
        # From here on, jobs are enqueued, but they do not run.
        *jobs_paused(facts),
        refused(facts),
        unserved(facts) if any(not each.is_client for each in facts.workers) else None,
        workers_paused(facts),
        workers_stuck(facts),
    ]
    return _first([each for each in causes if each] or [on_time(facts)])


def _first(causes: list[Reason]) -> Reason:
    first, *others = causes
    return first._replace(also=tuple(Other(each.name, each.short) for each in others))


def _with_origin(facts: Facts, reason: Reason) -> Reason:
    if facts.origin is None:
        return reason
    origin = {"schedule": facts.origin.schedule, "scheduled_for": facts.origin.scheduled_for}
    return reason._replace(data=reason.data | origin)
