"""Workflows that do not go on."""

from collections.abc import Sequence

from treadle.doctor.facts import ForgottenBatch, UndecidedCheck
from treadle.doctor.finding import Context, Finding, highest, ok, severity_of
from treadle.doctor.text import lines, plural
from treadle.words.formatting import span


def check_undecided(context: Context, checks: Sequence[UndecidedCheck]) -> list[Finding]:
    if not checks:
        return [ok("undecided_jobs", "Jobs that wait for others are looked at when those have ended.")]
    return [
        Finding(
            "undecided_jobs",
            highest(*(severity_of(each.age, *context.limits.undecided) for each in checks)),
            "Jobs wait for others that may have ended, but this is not decided.",
            lines([f"job {each.first}{_others(each.jobs - 1)}: for {span(each.age)}" for each in checks]),
            "Ticks of workers decide it: start a worker if there is none. Otherwise an open transaction has locked "
            "these jobs or those that they wait for, or adds jobs to their workflow: end that transaction. "
            f"To find out more: treadle why {checks[0].first}",
        )
    ]


def check_batches(context: Context, batches: Sequence[ForgottenBatch]) -> list[Finding]:
    if not batches:
        return [ok("forgotten_batches", "No batch was left open.")]
    return [
        Finding(
            "forgotten_batches",
            highest(*(severity_of(each.age, *context.limits.forgotten_batch) for each in batches)),
            "Batches are open although all of their jobs have ended long ago. Their callbacks wait.",
            lines([f"{each.id}: {plural(each.jobs, 'job')}, the last ended {span(each.age)} ago" for each in batches]),
            "If no more jobs are to be added, close them: "
            f"select {context.schema}.close_workflow('{batches[0].id}'); or cancel them: "
            f"treadle cancel {batches[0].id}",
        )
    ]


def _others(number: int) -> str:
    return f" and {plural(number, 'other')}" if number else ""
