"""Lanes with due jobs that no worker claims."""

from collections.abc import Sequence
from itertools import combinations

from treadle.doctor.facts import DueLane, OverdueJob, ScheduledType, Server, Worker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.text import lines, literal, names
from treadle.words.changes import Pause
from treadle.words.formatting import span


def check_lanes(
    context: Context, workers: Sequence[Worker], lanes: Sequence[DueLane], pauses: Sequence[Pause]
) -> list[Finding]:
    live = [each for each in workers if each.live]
    unknown = claims_by_hand(live)
    unserved = unserved_lanes(live, [each for each in lanes if each.due >= context.limits.unserved[0]], pauses)
    if not unserved:
        return [ok("unserved_lanes", "Workers serve the type and queue of every due job.")]
    types = sorted({each.job_type for each in unserved})
    paused = paused_workers(live, unserved)
    known = sorted({name for each in live for name in each.job_types or ()})
    severity = highest(*(severity_of(each.due, *context.limits.unserved) for each in unserved))
    return [
        Finding(
            "unserved_lanes",
            # Without any worker, nothing at all is done.
            Severity.NOTE if unknown else severity if live else Severity.CRITICAL,
            "Jobs are due, but no live worker serves their type and queue."
            if live
            else "Jobs are due, but there are no live workers.",
            lines([_lane(each) for each in unserved])
            + (f"\njob types of the live workers: {names(known[:20])}" if known else "")
            + (f"\nworkers whose concurrency was set to 0: {names(paused[:5])}" if paused else "")
            + ("\na client that claims without a worker process may claim them" if unknown else ""),
            resume_worker(paused)
            + f"Start a worker whose application defines {names(types[:5])}: treadle worker module:app\n"
            "If a type was renamed, keep its old name: @app.job(aliases=[…]). If the jobs are not needed, cancel them.",
        )
    ]


def unserved_lanes(live: Sequence[Worker], lanes: Sequence[DueLane], pauses: Sequence[Pause]) -> list[DueLane]:
    """Those that none of these workers serves, unless they are paused."""
    return [
        each
        for each in lanes
        if not any(serves(worker, each) for worker in live) and not any(pauses_lane(pause, each) for pause in pauses)
    ]


def check_shared_types(context: Context, workers: Sequence[Worker]) -> list[Finding]:
    """Job types that are different functions in different workers, which claim them from the same queues."""
    found: dict[str, dict[str, list[Worker]]] = {}
    for worker in workers:
        if worker.live:
            for job_type, handler in zip(worker.job_types or (), worker.handlers or (), strict=False):
                if handler is not None:
                    found.setdefault(job_type, {}).setdefault(handler, []).append(worker)
    shared = {
        job_type: handlers
        for job_type, handlers in sorted(found.items())
        if any(_share_a_queue(*pair) for pair in combinations(handlers.values(), 2))
    }
    if not shared:
        return [ok("shared_types", "Each job type is the same function in all live workers.")]
    return [
        Finding(
            "shared_types",
            Severity.WARNING,
            "Live workers run different functions for one job type: whichever claims a job first runs it.",
            lines(
                [
                    f"{job_type}: " + ", ".join(f"{each} ({of[0].worker_id})" for each, of in handlers.items())
                    for job_type, handlers in shared.items()
                ]
            ),
            "If you have just deployed a version in which the function has moved, this ends with the last of the old "
            "workers. If these are different applications, give the jobs of one of them other names (@app.job(name=…)) "
            'or let each application use a schema of its own: Treadle(schema="…").',
        )
    ]


def _share_a_queue(some: Sequence[Worker], others: Sequence[Worker]) -> bool:
    if any(each.queues is None for each in (*some, *others)):
        return True
    first, second = ({queue for each in group for queue in each.queues or ()} for group in (some, others))
    return not first.isdisjoint(second)


def claims_by_hand(live: Sequence[Worker]) -> bool:
    """Whether a client may take any type: one that claims through the SQL functions does not register its types."""
    return any(each.job_types is None for each in live)


def check_pauses(context: Context, server: Server, lanes: Sequence[DueLane], pauses: Sequence[Pause]) -> list[Finding]:
    waiting = [(pause, [each for each in lanes if pauses_lane(pause, each)]) for pause in pauses]
    severities = [
        severity_of(max((each.due for each in stopped), default=-1), *context.limits.paused) for _, stopped in waiting
    ]
    if highest(*severities) is Severity.OK:
        return [ok("paused_lanes", "No due jobs have been paused for a long time.")]
    bad = [each for each, severity in zip(waiting, severities, strict=True) if severity is not Severity.OK]
    return [
        Finding(
            "paused_lanes",
            highest(*severities),
            "Due jobs have been paused for a long time.",
            lines([_pause(pause, server, stopped) for pause, stopped in bad]),
            "If the pause is no longer needed: "
            + " ".join(f"select {context.schema}.resume({_arguments(pause)});" for pause, _ in bad),
        )
    ]


def pauses_lane(pause: Pause, lane: DueLane) -> bool:
    return pause.job_type in (None, lane.job_type) and pause.queue in (None, lane.queue)


def _pause(pause: Pause, server: Server, lanes: Sequence[DueLane]) -> str:
    what = pause.job_type or "all types"
    where = f" in queue {pause.queue}" if pause.queue else ""
    ago = span(max(0.0, (server.now - pause.paused_at).total_seconds()))
    by = f" by {pause.paused_by}" if pause.paused_by else ""
    reason = f": {pause.reason}" if pause.reason else ""
    due = "; ".join(_lane(each) for each in lanes[:3])
    return f"{what}{where}, paused {ago} ago{by}{reason} ({due})"


def _arguments(pause: Pause) -> str:
    named = {"p_job_type": pause.job_type, "p_queue": pause.queue}
    return ", ".join(f"{name} => {literal(value)}" for name, value in named.items() if value is not None)


def serves(worker: Worker, lane: DueLane | ScheduledType | OverdueJob) -> bool:
    return worker.concurrency != 0 and _fits(worker, lane)


def paused_workers(live: Sequence[Worker], unserved: Sequence[DueLane | ScheduledType]) -> list[str]:
    """Those that would serve one of these, if their concurrency had not been set to 0."""
    return [each.worker_id for each in live if each.concurrency == 0 and any(_fits(each, lane) for lane in unserved)]


def resume_worker(paused: Sequence[str]) -> str:
    return f"To let a worker claim jobs again: treadle concurrency {paused[0]} --reset\n" if paused else ""


def _fits(worker: Worker, lane: DueLane | ScheduledType | OverdueJob) -> bool:
    return lane.job_type in (worker.job_types or ()) and (worker.queues is None or lane.queue in worker.queues)


def _lane(lane: DueLane) -> str:
    queue = "" if lane.queue == "default" else f" in queue {lane.queue}"
    return f"{lane.job_type}{queue}, priority {lane.priority}: due for {span(lane.due)}"
