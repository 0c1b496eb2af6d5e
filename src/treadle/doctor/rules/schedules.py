"""Schedules whose jobs are not enqueued, or would run nowhere."""

import shlex
from collections.abc import Sequence

from treadle.doctor.facts import LateSchedule, ScheduledType, Worker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.rules.lanes import paused_workers, resume_worker, serves
from treadle.doctor.text import lines, names
from treadle.words.formatting import printable, span

# Workers declare their schedules every minute, and renew a declaration that is 30 s old.
DECLARED_WITHIN = 120.0


def check_schedules(context: Context, workers: Sequence[Worker], due: Sequence[LateSchedule]) -> list[Finding]:
    return [_late(context, workers, due), _failing(due)]


def _late(context: Context, workers: Sequence[Worker], due: Sequence[LateSchedule]) -> Finding:
    late = [each for each in due if each.error is None and each.late >= context.limits.late_schedule[0]]
    if not late:
        return ok("late_schedules", "Schedules are enqueued on time.")
    # Clients that claim without a worker process enqueue no schedules.
    live = any(each.live and each.lease is not None for each in workers)
    undeclared = [each for each in late if _is_undeclared(each)]
    if not live:
        title, remedy = "Schedules are due, but there are no live workers.", "Start a worker: treadle worker module:app"
    elif len(undeclared) == len(late):
        title = "Schedules are due, but no live worker declares them."
        remedy = "Start a worker whose application declares them. What nobody declares is retired after ten minutes."
    else:
        title = "Schedules are due, but no worker enqueues them."
        remedy = (
            "Look for errors in the log of the workers, and whether a session has locked these rows. To find out more: "
            f"treadle schedules why {shlex.quote(printable(late[0].name))}"
        )
    return Finding(
        "late_schedules",
        highest(*(severity_of(each.late, *context.limits.late_schedule) for each in late)),
        title,
        lines([f"{each.name}: due for {span(each.late)}{_declared(each)}" for each in late]),
        remedy,
    )


def _failing(due: Sequence[LateSchedule]) -> Finding:
    failing = [each for each in due if each.error is not None]
    if not failing:
        return ok("failing_schedules", "No schedule has an error.")
    return Finding(
        "failing_schedules",
        Severity.WARNING,
        "Schedules cannot be enqueued because of an error.",
        lines([f"{each.name}: {each.error}{_again(each)}" for each in failing]),
        "Correct what the error names. To change the times of a schedule that was added at run time: "
        "treadle schedules change NAME EXPRESSION",
    )


def check_scheduled_types(
    context: Context, workers: Sequence[Worker], scheduled: Sequence[ScheduledType]
) -> list[Finding]:
    live = [each for each in workers if each.live]
    unserved = [each for each in scheduled if not any(serves(worker, each) for worker in live)]
    if not unserved:
        return [ok("unserved_schedules", "Live workers serve the job types of all schedules.")]
    types = sorted({each.job_type for each in unserved})
    paused = paused_workers(live, unserved)
    known = sorted({name for each in live for name in each.job_types or ()})
    # A client that claims through the SQL functions does not register the types that it takes.
    unknown = any(each.job_types is None for each in live)
    return [
        Finding(
            "unserved_schedules",
            Severity.NOTE if unknown or not live else Severity.WARNING,
            "No live worker serves the jobs of some schedules."
            if live
            else "There are no live workers for the jobs of schedules.",
            lines([_scheduled(each) for each in unserved])
            + (f"\njob types of the live workers: {names(known[:20])}" if known else "")
            + (f"\nworkers whose concurrency was set to 0: {names(paused[:5])}" if paused else "")
            + ("\na client that claims without a worker process may claim them" if unknown else ""),
            resume_worker(paused)
            + f"Start a worker whose application defines {names(types[:5])}: treadle worker module:app\n"
            "If the schedules are not needed, pause or delete them: treadle schedules pause NAME",
        )
    ]


def _is_undeclared(schedule: LateSchedule) -> bool:
    return schedule.in_code and schedule.declared is not None and schedule.declared > DECLARED_WITHIN


def _declared(schedule: LateSchedule) -> str:
    return f", last declared {span(schedule.declared or 0)} ago" if _is_undeclared(schedule) else ""


def _again(schedule: LateSchedule) -> str:
    return f"; the next try is in {span(schedule.retry)}" if schedule.retry and schedule.retry > 0 else ""


def _scheduled(scheduled: ScheduledType) -> str:
    queue = "" if scheduled.queue == "default" else f" in queue {scheduled.queue}"
    more = f" and {scheduled.schedules - 1:,} more" if scheduled.schedules > 1 else ""
    when = f"due in {span(scheduled.seconds)}" if scheduled.seconds > 0 else f"due for {span(-scheduled.seconds)}"
    return f"{scheduled.job_type}{queue}, of schedule {scheduled.name}{more}: {when}"
