"""Jobs that wait for workers whose event loop does not run."""

from typing import Any

from treadle.text.stuck import continue_children, describe_stuck, unblock, where_blocked
from treadle.why.facts import Facts, ScheduleFacts
from treadle.why.reason import Reason
from treadle.why.text import clipped, elapsed, plural
from treadle.words.stuck import StoppedChild, Stuck


def workers_stuck(facts: Facts | ScheduleFacts) -> Reason | None:
    """All live workers that would claim it are stuck."""
    serving = [each for each in facts.workers if each.serves and each.slots != 0]
    if not serving or any(each.stuck is None for each in serving):
        return None
    first = serving[0]
    assert first.stuck is not None  # noqa: S101 - for the type checker
    name, job_type, state = clipped(first.worker_id), clipped(facts.job_type), describe_stuck(first.stuck, facts.at)
    sentence = f"The only live worker that serves the job type {job_type}, {name}, is stuck: {state}."
    if len(serving) > 1:
        workers = f"All {len(serving)} live workers that serve the job type {job_type}"
        sentence = f"{workers} are stuck, such as {name}: {state}."
    return Reason(
        "workers_stuck",
        sentence,
        unblock(*((each.stuck, each.host, each.pid) for each in serving if each.stuck)),
        "is served only by workers that are stuck",
        {
            "job_type": facts.job_type,
            "queue": facts.queue,
            "workers": [each.worker_id for each in serving],
            **_data(first.stuck),
        },
    )


def worker_stuck(facts: Facts, worker: str, stuck: Stuck, data: dict[str, Any]) -> Reason:
    """The worker that has claimed the job is stuck."""
    state = "running on" if facts.status == "running" else "claimed by"
    if stuck.job_id == facts.id:
        seconds = elapsed(facts.at, stuck.since)
        sentence = (
            f"The job blocks the event loop of {worker}, for {seconds} already{where_blocked(stuck.stack)}. "
            f"The worker does nothing else meanwhile"
        )
        short = f"has blocked the event loop of {worker} for {seconds}"
        if stuck.kind == "unbegun":
            sentence = (
                f"The job was claimed {seconds} ago by {worker}, which has not begun it although it has room for it"
            )
            short = f"was claimed {seconds} ago by {worker}, which does not begin it"
    else:
        sentence = f"The job is {state} {worker}, which is stuck: {describe_stuck(stuck, facts.at)}"
        short = f"is {state} {worker}, which is stuck"
    if facts.running_beside and stuck.kind != "unbegun":
        sentence += f"; {plural(facts.running_beside, 'other job')} of it wait{'s' * (facts.running_beside == 1)}, too"
    return Reason(
        "worker_stuck",
        f"{sentence}.",
        unblock((stuck, facts.worker.host, facts.worker.pid)),
        short,
        data | _data(stuck),
    )


def process_stopped(facts: Facts, worker: str, child: StoppedChild, data: dict[str, Any]) -> Reason:
    """The child process that runs the job was stopped, or is to run it and starts slowly."""
    seconds = elapsed(facts.at, child.since)
    if child.starting:
        return Reason(
            "process_starting",
            f"The job was claimed by {worker}, and its child process has been starting for {seconds}.",
            continue_children((child, facts.worker.host)),
            f"was claimed by {worker}, whose child process has been starting for {seconds}",
            data | {"starting_since": child.since},
        )
    return Reason(
        "process_stopped",
        f"The job is running on {worker}, in child process {child.process}, which was stopped {seconds} ago, by a "
        "signal or a debugger.",
        continue_children((child, facts.worker.host)),
        f"is running on {worker}, in a child process that was stopped {seconds} ago",
        data | {"process": child.process, "stopped_since": child.since},
    )


def _data(stuck: Stuck) -> dict[str, Any]:
    return {
        "stuck_since": stuck.since,
        "stuck_kind": stuck.kind,
        "stuck_job": stuck.job_id,
        "stuck_job_type": stuck.job_type,
        "stack": stuck.stack,
    }
