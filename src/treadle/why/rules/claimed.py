"""Claimed and running jobs."""

from datetime import timedelta
from typing import Any

from treadle.why.facts import Facts
from treadle.why.reason import Reason
from treadle.why.rules.stuck import process_stopped, worker_stuck
from treadle.why.text import clipped, elapsed, plural
from treadle.words.formatting import span
from treadle.words.status import Status

# A client without a lease does not report how often it sends a heartbeat.
CLIENT_SILENCE = timedelta(minutes=5)


def claimed(facts: Facts) -> Reason:
    seen_at = max(facts.claimed_at, facts.seen_at or facts.claimed_at)
    silent = (facts.at - seen_at).total_seconds()
    worker = clipped(facts.worker_id or "an unnamed client")
    data: dict[str, Any] = {
        "worker": facts.worker_id,
        "claimed_at": facts.claimed_at,
        "started_at": facts.started_at,
        "seen_at": seen_at,
        "progress": facts.progress,
        "stage": facts.stage,
        "attempt": facts.attempts,
        "max_attempts": facts.max_attempts,
    }
    lease = facts.worker.lease
    if lease is not None and (facts.worker.lost_at or silent > lease):
        return _worker_lost(facts, worker, lease, silent, data)
    if lease is None and facts.at - seen_at > CLIENT_SILENCE:
        return _client_silent(facts, worker, silent, data)
    stuck = facts.worker.stuck
    # A job that runs does not wait for those that do not begin.
    if stuck is not None and not (stuck.kind == "unbegun" and facts.status == Status.RUNNING):
        return worker_stuck(facts, worker, stuck, data)
    for child in facts.worker.stopped_children:
        if child.job_id == facts.id:
            return process_stopped(facts, worker, child, data)
    if facts.status == Status.RUNNING:
        return _running(facts, worker, silent, data)
    ago = elapsed(facts.at, facts.claimed_at)
    next_step = (
        f"will start it after the {plural(facts.running_beside, 'job')} that it is running"
        if facts.running_beside
        else "is about to start it"
    )
    return Reason(
        "claimed",
        f"The job was claimed {ago} ago by {worker}, which {next_step}.",
        f"No action is required{_unless_gone(facts)}",
        f"was claimed by {worker} {ago} ago",
        data | {"beside": facts.running_beside},
    )


def _unless_gone(facts: Facts) -> str:
    """Nobody notices if a client is gone that is not registered: neither it nor its lease is known."""
    if facts.worker.is_registered:
        return ""
    return ' if the client is alive: it is not registered as a worker. If it is gone: queue.recover_stale_jobs("5m")'


def _running(facts: Facts, worker: str, silent: float, data: dict[str, Any]) -> Reason:
    duration = elapsed(facts.at, facts.started_at or facts.claimed_at)
    at = f", at {facts.progress or 0}%" + (f" ({clipped(facts.stage)})" if facts.stage else "")
    return Reason(
        "running",
        f"The job is running: {worker} has been working on attempt {facts.attempts} of {facts.max_attempts} "
        f"for {duration}{at}; last heartbeat {span(silent)} ago.",
        f"No action is required{_unless_gone(facts)}. To watch it: treadle watch {facts.id}",
        f"has been running on {worker} for {duration}",
        data,
    )


def _worker_lost(facts: Facts, worker: str, lease: float, silent: float, data: dict[str, Any]) -> Reason:
    others = any(not each.is_client for each in facts.workers)
    recovery = (
        f"another worker recovers the job within {span(lease)}"
        if others
        else "there is no other live worker to recover the job"
    )
    return Reason(
        "worker_lost",
        f"The job was claimed by {worker}, whose last heartbeat was {span(silent)} ago; its lease is {span(lease)}, "
        f"and {recovery}.",
        "No action is required: the job is retried automatically"
        if others
        else "Start a worker: treadle worker module:app",
        f"was claimed by {worker}, which is lost",
        data | {"lease": lease},
    )


def _client_silent(facts: Facts, worker: str, silent: float, data: dict[str, Any]) -> Reason:
    heartbeat = f"has sent no heartbeat for {span(silent)}" if facts.seen_at else "has never sent a heartbeat"
    return Reason(
        "client_silent",
        f"The job was claimed {elapsed(facts.at, facts.claimed_at)} ago by the client {worker}, which {heartbeat}.",
        'If the client is gone: queue.recover_stale_jobs("5m"). If it is alive, it should send heartbeats'
        + ("" if facts.worker.is_registered else "; without any, the job is recovered after a day"),
        f"was claimed by the client {worker}, which has been silent for {span(silent)}",
        data,
    )
