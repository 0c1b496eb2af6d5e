"""Workers that send heartbeats and have free slots, but neither claim nor start jobs."""

from collections.abc import Sequence

from treadle.doctor.facts import OverdueJob, QuietWorker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.text import lines, plural
from treadle.words.formatting import span


def check_stalled(context: Context, workers: Sequence[QuietWorker], jobs: Sequence[OverdueJob]) -> list[Finding]:
    """`workers` have claimed nothing and finished nothing for some time; `jobs` could be claimed."""
    severities: list[Severity] = []
    detail: list[str] = []
    stalled: list[QuietWorker] = []
    examples: list[str] = []
    for worker in workers:
        unclaimed = next((job for job in jobs if has_room(worker, job)), None)
        waits = min(worker.quiet, unclaimed.due) if unclaimed else worker.quiet
        severity = severity_of(waits, *context.limits.stalled)
        unstarted = unstarted_jobs(worker)
        if severity is Severity.OK or not (unclaimed or unstarted):
            continue
        what = f"{worker.id} (process {worker.pid} on {worker.host}): no claim for {span(worker.quiet)}"
        if unclaimed:
            what += f"; {unclaimed.job_type} has been due for {span(unclaimed.due)} (job {unclaimed.id})"
            examples.append(unclaimed.id)
        if unstarted:
            what += f"; {plural(unstarted, 'job')} that it claimed {'has' if unstarted == 1 else 'have'} not started"
        severities.append(severity)
        detail.append(what)
        stalled.append(worker)
    if not stalled:
        return [ok("stalled_workers", "Workers with free slots claim and start jobs.")]
    dump = ", ".join(f"py-spy dump --pid {each.pid}" for each in stalled[:3])
    kill = ", ".join(f"kill -9 {each.pid}" for each in stalled[:3])
    return [
        Finding(
            "stalled_workers",
            highest(*severities),
            "Workers send heartbeats and have free slots, but they do not claim or start jobs.",
            lines(detail),
            f"Look at what the process is doing, on its host: {dump}\n"
            "Most often, an async handler blocks the event loop: declare it with def, so that it runs in a thread, or "
            'with process=True. With @app.job(timeout=("25s", "30s")), the supervisor replaces a process that blocks '
            "for longer.\n"
            f"Then restart the worker, or replace only the process, which gives back its jobs: {kill}\n"
            "A worker that is stopping claims nothing until its running jobs have finished."
            + (f"\nIf the process is not blocked: treadle why {examples[0]}" if examples else ""),
        )
    ]


def has_room(worker: QuietWorker, job: OverdueJob) -> bool:
    """Whether the worker serves the job and has a free slot for it."""
    if job.job_type not in (worker.job_types or ()) or not (worker.queues is None or job.queue in worker.queues):
        return False
    if job.job_type in worker.process_types:
        return worker.in_children < worker.children
    return worker.running + worker.unstarted < worker.concurrency


def unstarted_jobs(worker: QuietWorker) -> int:
    """How many jobs the worker has claimed and not started although slots are free.

    One of them may be running: if it blocks the event loop from its first step, its start is not recorded. Jobs for
    child processes do not count, because a middleware may delay their start.
    """
    return worker.unstarted - 1 if worker.unstarted >= 2 and worker.running + 1 < worker.concurrency else 0
