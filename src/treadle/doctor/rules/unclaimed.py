"""Jobs that are due and served, and that no worker claims; jobs that lack what triggers would have set."""

from collections.abc import Collection, Sequence

from treadle.doctor.facts import HiddenJob, OverdueJob, QuietWorker, UntriggeredJob, Worker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.rules.lanes import serves
from treadle.doctor.rules.stalled import has_room
from treadle.doctor.text import identifier, lines, literal
from treadle.words.formatting import span


def check_unclaimed(
    context: Context,
    workers: Sequence[Worker],
    quiet: Sequence[QuietWorker],
    jobs: Sequence[OverdueJob],
    active: Collection[tuple[str, str]],
) -> list[Finding]:
    """`jobs` are the first of their lanes that could be claimed; of the types in `active`, some have run lately."""
    live = [each for each in workers if each.live]
    bad = [
        each
        for each in jobs
        if each.due >= context.limits.unclaimed[0]
        and (each.queue, each.job_type) not in active
        and any(serves(worker, each) for worker in live)
        # Of a worker that has room and claims nothing, another finding tells.
        and not any(has_room(worker, each) for worker in quiet)
    ]
    if not bad:
        return [ok("unclaimed_jobs", "Of every type that is due and served, jobs are claimed.")]
    return [
        Finding(
            "unclaimed_jobs",
            highest(*(severity_of(each.due, *context.limits.unclaimed) for each in bad)),
            "Jobs are due and live workers serve them, but for a long time none of their type was claimed.",
            lines([f"{each.job_type}{_queue(each.queue)}: due for {span(each.due)} (job {each.id})" for each in bad]),
            "Most often, the workers are busy with jobs of higher priority: start more of them, raise their "
            "concurrency, or give jobs that wait for long a share of the claims: "
            'Treadle(fairness=Fairness(aging="1h")).\n'
            f"To see why it waits: treadle why {bad[0].id}",
        )
    ]


def check_hidden(context: Context, jobs: Sequence[HiddenJob]) -> list[Finding]:
    if not jobs:
        return [ok("hidden_jobs", "No due job lies where claims do not look.")]
    schema = identifier(context.schema)
    return [
        Finding(
            "hidden_jobs",
            Severity.WARNING,
            "Jobs are due where no claim looks: they came in without triggers (a restore, logical replication).",
            lines([_hidden(each) for each in jobs]),
            "Live workers find them by themselves, with each tick those of one queue, type and priority. "
            "To do it at once:\n" + lines([_show_lane(schema, each) for each in jobs], limit=20),
        )
    ]


def check_untriggered(context: Context, jobs: Sequence[UntriggeredJob]) -> list[Finding]:
    if not jobs:
        return [ok("untriggered_jobs", "No job lacks what the triggers set.")]
    schema = identifier(context.schema)
    kinds = ("finished", "key", "dependency", "workflow")
    by_kind = {kind: [each for each in jobs if each.kind == kind] for kind in kinds}
    remedy = []
    if by_kind["finished"]:
        remedy.append(
            f"update {schema}.jobs set finished_at = coalesce(completed_at, clock_timestamp()) "
            "where status in ('completed', 'failed', 'cancelled') and finished_at is null;"
        )
    if by_kind["key"]:
        remedy.append(
            f"update {schema}.jobs set holds = holds & ~{schema}.blocked_by_key() "
            f"where status = 'pending' and id in ({_ids(by_kind['key'])});"
        )
    if by_kind["dependency"]:
        ids = _ids(by_kind["dependency"])
        remedy.append(f"select {schema}.note_dependency_check(array[{ids}]::uuid[], false);")
    if by_kind["workflow"]:
        ids = _ids(by_kind["workflow"])
        remedy.append(f"select {schema}.recount_workflow(id) from unnest(array[{ids}]::uuid[]) as id;")
    return [
        Finding(
            "untriggered_jobs",
            Severity.WARNING,
            "Jobs were written while triggers were off (session_replication_role, a restore, logical replication).",
            "\n".join(lines([_untriggered(each) for each in found]) for found in by_kind.values() if found),
            "\n".join([*remedy, "Then run treadle doctor again: it lists some of them at a time."]),
        )
    ]


def _untriggered(job: UntriggeredJob) -> str:
    what = {
        "finished": "has ended without finished_at, so it is never deleted or counted",
        "key": f"is blocked, and no other job with its key {job.detail} is left to unblock it",
        "dependency": "waits for jobs that have ended",
        "workflow": f"is a workflow with wrong counts: {job.detail}",
    }
    return f"{job.id} ({job.job_type}) {what[job.kind]}"


def _hidden(job: HiddenJob) -> str:
    why = "claims do not look at its queue, type and priority"
    if job.floor is not None:
        why = f"claims begin at {job.floor:%Y-%m-%d %H:%M:%S %Z}"
    return f"{job.job_type}{_queue(job.queue)}, priority {job.priority}: due for {span(job.due)} (job {job.id}); {why}"


def _show_lane(schema: str, job: HiddenJob) -> str:
    values = f"{literal(job.queue)}, {literal(job.job_type)}, {job.priority}, {literal(job.partition)}"
    if job.floor is None:
        return f"insert into {schema}.lanes (queue, job_type, priority, partition) values ({values});"
    return (
        f"update {schema}.jobs set run_at = clock_timestamp() "
        f"where (queue, job_type, priority, partition) = ({values}) "
        f"and status = 'pending' and holds = 0 and run_at < {literal(job.floor.isoformat())};"
    )


def _ids(jobs: Sequence[UntriggeredJob]) -> str:
    return ", ".join(literal(each.id) for each in jobs)


def _queue(queue: str) -> str:
    return "" if queue == "default" else f" in queue {queue}"
