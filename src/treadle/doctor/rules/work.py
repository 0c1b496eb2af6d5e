"""Workers, ticks, and jobs that crash, fail or were abandoned."""

from collections.abc import Sequence

from treadle.doctor.facts import AbandonedClaim, CrashingJob, FailingKey, Tick, UnclaimableJob, Worker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.text import identifier, lines, plural
from treadle.text.stuck import continue_children, describe_stopped, describe_stuck, unblock
from treadle.text.unclaimable import give_attempts, why_unclaimable
from treadle.words.formatting import span

# A heartbeat may be this far in the future: two clocks never agree exactly.
JITTER = 1.0


def check_workers(context: Context, workers: Sequence[Worker]) -> list[Finding]:
    return [
        _silent(context, workers),
        _outdated(context, workers),
        _clocks(context, workers),
        _stuck(context, workers),
        _stopped_children(context, workers),
        _none_live(workers),
    ]


def _none_live(workers: Sequence[Worker]) -> Finding:
    last = last_worker(workers)
    if last is None:
        return ok("no_workers", "A worker is running, or none has run within a day.")
    return Finding(
        "no_workers",
        Severity.CRITICAL,
        "No worker is running: all of them were killed, or have lost their connection.",
        f"the last one was {_name(last)}: last heartbeat {span(max(0.0, last.seen))} ago",
        "Find out why it ended (its log, the system's log), and start workers: treadle worker module:app",
    )


def last_worker(workers: Sequence[Worker]) -> Worker | None:
    """The worker that was seen last, if all have been lost: one that stops as it should is no longer listed."""
    if any(each.live for each in workers):
        return None
    return min((each for each in workers if each.lease is not None), key=lambda each: each.seen, default=None)


def _silent(context: Context, workers: Sequence[Worker]) -> Finding:
    limit = context.limits.silence
    unnoticed = [
        each for each in workers if each.lease is not None and each.lost is None and each.seen > each.lease + limit
    ]
    unrecovered = [each for each in workers if each.lost is not None and each.lost > limit and each.has_jobs]
    if not unnoticed and not unrecovered:
        return ok("silent_workers", "The jobs of every lost worker have been recovered.")
    detail = [f"{_name(each)}: last heartbeat {span(each.seen)} ago" for each in unnoticed]
    detail += [f"{_name(each)}: declared lost {span(each.lost or 0)} ago, still has jobs" for each in unrecovered]
    live = any(each.live and each.lease is not None for each in workers)
    return Finding(
        "silent_workers",
        Severity.WARNING,
        "Workers stopped sending heartbeats, and their jobs have not been recovered.",
        lines(detail),
        "Live workers do that automatically. Check their logs, and whether a session has locked these jobs."
        if live
        else "No live worker is left to recover them. Start one (treadle worker module:app), or run: "
        f"select * from {context.schema}.recover_lost_workers();",
    )


def _stuck(context: Context, workers: Sequence[Worker]) -> Finding:
    stuck = [(each, each.stuck, each.now) for each in workers if each.live and each.stuck and each.now]
    if not stuck:
        return ok("stuck_workers", "The event loop of every live worker runs, and it begins the jobs that it claims.")
    stuck.sort(key=lambda each: each[1].since)
    one, kinds = len(stuck) == 1, {state.kind for _, state, _ in stuck}
    if kinds == {"stopped"}:
        what = "A worker was stopped" if one else f"{len(stuck)} workers were stopped"
    elif kinds == {"unbegun"}:
        what = f"{'A worker has' if one else f'{len(stuck)} workers have'} claimed jobs"
    elif len(kinds) > 1:
        what = f"{len(stuck)} workers are stuck"
    else:
        what = f"The event loop of {'a worker' if one else f'{len(stuck)} workers'} does not run"
    keeps = "it keeps its jobs, but neither claims" if one else "they keep their jobs, but neither claim"
    message = f"{what}: {keeps} nor {'starts nor finishes' if one else 'start nor finish'} any."
    if kinds == {"unbegun"}:
        message = f"{what} and {'does' if one else 'do'} not begin them, although there is room."
    stacks = any(state.stack for _, state, _ in stuck)
    return Finding(
        "stuck_workers",
        highest(*(severity_of((now - each.since).total_seconds(), *context.limits.stuck) for _, each, now in stuck)),
        message,
        lines([f"{_name(each)}: {describe_stuck(state, now)}" for each, state, now in stuck]),
        unblock(*((state, each.host, each.pid) for each, state, _ in stuck))
        + (". The Workers page and the log of the worker show the whole stack." if stacks else "."),
    )


def _stopped_children(context: Context, workers: Sequence[Worker]) -> Finding:
    found = [(child, each, each.now) for each in workers if each.live and each.now for child in each.stopped_children]
    if not found:
        return ok("stopped_children", "No child process of a worker was stopped, or starts slowly.")
    found.sort(key=lambda each: each[0].since)
    one = len(found) == 1
    severities = (severity_of((now - child.since).total_seconds(), *context.limits.stuck) for child, _, now in found)
    starting = sum(child.starting for child, _, _ in found)
    what = "A child process of a worker was" if one else f"{len(found)} child processes of workers were"
    what += f" stopped: {'its job does' if one else 'their jobs do'} not continue."
    if starting == len(found):
        what = "A child process of a worker starts" if one else f"{starting} child processes of workers start"
        what += f" slowly: {'its job waits' if one else 'their jobs wait'}."
    elif starting:
        what = f"{len(found)} child processes of workers were stopped, or start slowly."
    return Finding(
        "stopped_children",
        highest(*severities),
        what,
        lines([f"{_name(each)}: {describe_stopped(child, now)}" for child, each, now in found]),
        f"{continue_children(*((child, each.host) for child, each, _ in found))}.",
    )


def _outdated(context: Context, workers: Sequence[Worker]) -> Finding:
    live = [each for each in workers if each.live]
    other = [each for each in live if each.version not in (None, context.version)]
    before = [each for each in live if each.outdated and each not in other]
    if not other and not before:
        return ok("old_workers", "All workers run this version of Treadle.")
    detail = [f"{_name(each)}: version {each.version}, this is {context.version}" for each in other]
    detail += [
        f"{_name(each)}: started {span(each.started)} ago, before the schema was last changed" for each in before
    ]
    return Finding(
        "old_workers",
        Severity.NOTE,
        "Workers run another version of Treadle, or were started before the last migration.",
        lines(detail),
        "Restart them with SIGTERM: they finish their running jobs first.",
    )


def _clocks(context: Context, workers: Sequence[Worker]) -> Finding:
    ahead = [each for each in workers if each.seen < -JITTER]
    if not ahead:
        return ok("worker_clocks", "No heartbeat is in the future.")
    return Finding(
        "worker_clocks",
        highest(*(severity_of(-each.seen, 0, context.limits.clock[1]) for each in ahead)),
        "Heartbeats are in the future: the server's clock was set back, or this is a different server than before.",
        lines([f"{_name(each)}: {span(-each.seen)} ahead" for each in ahead]),
        "Check the server's clock. The next heartbeat of a live worker corrects its time, and for a dead one, a worker "
        "that looks for lost workers does.",
    )


def _name(worker: Worker) -> str:
    # A worker's name usually begins with that of its host.
    where = f" on {worker.host}" if worker.host and not worker.worker_id.startswith(worker.host) else ""
    return f"{worker.worker_id}{where}"


def check_abandoned_claims(context: Context, claims: Sequence[AbandonedClaim]) -> list[Finding]:
    if not claims:
        return [ok("abandoned_claims", "No client has abandoned the jobs that it claimed.")]
    return [
        Finding(
            "abandoned_claims",
            Severity.NOTE,
            "Jobs were claimed by a client without a worker process, and it has stopped sending heartbeats.",
            lines(
                [
                    f"{each.id} ({each.job_type}), claimed by {each.worker_id or 'an unnamed client'}, "
                    f"silent for {span(each.silent)}"
                    for each in claims
                ]
            ),
            "If the client is gone, recover what has been silent for longer than a time that you choose: "
            f"select {context.schema}.recover_stale_jobs('2 hours'); "
            "After a day without a sign, workers recover the jobs of clients that are not registered.",
        )
    ]


def check_tick(context: Context, tick: Tick) -> list[Finding]:
    if tick.seconds is not None and tick.seconds < -JITTER:
        return [
            Finding(
                "ticks",
                Severity.NOTE,
                f"The last tick is {span(-tick.seconds)} in the future: the server's clock was set back.",
                "Claims still find every job, but may read more than they need to.",
                "No action is required: the next tick corrects it.",
            )
        ]
    if tick.missed is None:
        return [ok("ticks", "Workers run the tick, which keeps claims quick.")]
    last = "there has been no tick yet" if tick.seconds is None else f"the last tick was {span(tick.seconds)} ago"
    return [
        Finding(
            "ticks",
            Severity.WARNING,
            "Workers claim jobs, but the tick does not run: claims get slower with every job.",
            f"A worker claimed a job {span(tick.missed)} ago; {last}.",
            f"Run it to see its error: select {context.schema}.tick(); -- 0 while another transaction has its lock",
        )
    ]


def check_uncounted(context: Context, seconds: float | None) -> list[Finding]:
    severity = severity_of(seconds or 0.0, *context.limits.uncounted)
    if seconds is None or severity is Severity.OK:
        return [ok("uncounted_jobs", "Workers count the jobs that finish.")]
    return [
        Finding(
            "uncounted_jobs",
            severity,
            "Workers do not count the jobs that finish: charts, rates and metrics stand still.",
            f"The first job that is not counted finished {span(seconds)} ago.",
            f"Count some to see what is wrong: select {identifier(context.schema)}.count_minutes(p_limit => 1000); "
            "-- 0 while a worker counts\n"
            "If it takes long, the server is overloaded: workers count in smaller steps then, and catch up when it is "
            "not. The log of the workers says why a step failed.",
        )
    ]


def check_crashes(context: Context, jobs: Sequence[CrashingJob]) -> list[Finding]:
    if not jobs:
        return [ok("crashing_jobs", "No job crashes its worker repeatedly.")]
    return [
        Finding(
            "crashing_jobs",
            Severity.WARNING,
            "Jobs crash their worker process, or exhaust its memory, repeatedly.",
            lines(
                [
                    f"{each.id} ({each.job_type}), {each.status}, crashed {plural(each.crashes, 'time')}"
                    + (f": {each.error}" if each.error else "")
                    for each in jobs
                ]
            ),
            "Look for the cause in the log of the worker, and in dmesg for the kernel's out-of-memory killer. "
            "@app.job(process=True, memory_limit=…) runs each job in a process of its own.",
        )
    ]


def check_keys(context: Context, keys: Sequence[FailingKey]) -> list[Finding]:
    severities = {each.id: severity_of(each.failing, *context.limits.failing_key) for each in keys}
    bad = [each for each in keys if severities[each.id] is not Severity.OK]
    if not bad:
        return [ok("failing_keys", "No key has been blocked for a long time by a failing job.")]
    return [
        Finding(
            "failing_keys",
            highest(*(severities[each.id] for each in bad)),
            "A job keeps failing and blocks the other jobs with its key.",
            lines(
                [
                    f"key {each.key}: {each.id} ({each.job_type}), failing for {span(each.failing)}, "
                    f"attempt {each.attempts} of {each.max_attempts}, "
                    f"blocks {_jobs(each.waiting)}: {each.error or 'no error'}"
                    for each in bad
                ]
            ),
            "Fix the cause of the error, or cancel the job to unblock the others: "
            + " ".join(f"select {context.schema}.cancel_job('{each.id}');" for each in bad[:3]),
        )
    ]


def check_unclaimable(context: Context, jobs: Sequence[UnclaimableJob]) -> list[Finding]:
    if not jobs:
        return [ok("unclaimable_jobs", "Every pending job has attempts left.")]
    schema = identifier(context.schema)
    return [
        Finding(
            "unclaimable_jobs",
            Severity.WARNING,
            "Pending jobs have no attempts left, or an invalid number of them: no worker claims them.",
            lines([_unclaimable(each) for each in jobs]),
            f"To let them run: {give_attempts(schema, [each.id for each in jobs])}\n"
            "If they are not needed, cancel them: "
            + " ".join(f"select {schema}.cancel_job('{each.id}');" for each in jobs[:3]),
        )
    ]


def _unclaimable(job: UnclaimableJob) -> str:
    blocks = f", blocks {_jobs(job.waiting)} with its key {job.key}" if job.waiting else ""
    return f"{job.id} ({job.job_type}): {why_unclaimable(job.attempts, job.max_attempts)}{blocks}"


def _jobs(number: int) -> str:
    return "1,000 or more jobs" if number >= 1000 else plural(number, "job")
