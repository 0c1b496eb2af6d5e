"""What a visitor sees of the values that jobs carry: the one place that decides it, for the pages and for the API.

Operators see payloads, results, checkpoints and the results of steps, with a mask over what looks like a secret; others
see none of it. What handlers tell and log is for everybody, under the same mask.
"""

from treadle.doctor.finding import Finding
from treadle.operations.details import JobDetails, Step
from treadle.web.dashboard.access import Role
from treadle.why.reason import Reason
from treadle.words.masking import masked
from treadle.words.payload import Json


def may_look_inside(role: Role) -> bool:
    """Also whoever searches in payloads learns what is in them."""
    return role >= Role.OPERATOR


def carried(role: Role, value: Json) -> Json:
    """A payload, a result, a checkpoint or the result of a step, as this role sees it."""
    return masked(value) if may_look_inside(role) else None


def veiled(role: Role, life: JobDetails) -> JobDetails:
    job = life.job._replace(
        data=carried(role, life.job.data),
        result=carried(role, life.job.result),
        checkpoint=carried(role, life.job.checkpoint),
        last_error=masked(life.job.last_error),
    )
    return life._replace(
        job=job,
        snapshot=life.snapshot._replace(error=masked(life.snapshot.error)),
        events=[each._replace(data=masked(each.data)) for each in life.events],
        errors=[each._replace(error=masked(each.error), traceback=masked(each.traceback)) for each in life.errors],
        logs=[each._replace(message=masked(each.message)) for each in life.logs],
        # A step has a name, as a value has a key.
        steps=[each._replace(result=_of_step(role, each)) for each in life.steps],
    )


def _of_step(role: Role, step: Step) -> Json:
    seen = carried(role, {step.name: step.result})
    return seen[step.name] if seen else None


def reason_veiled(reason: Reason) -> Reason:
    """Errors of attempts are quoted in it."""
    return reason._replace(
        sentence=masked(reason.sentence),
        remedy=masked(reason.remedy),
        short=masked(reason.short),
        data=masked(reason.data),
        also=tuple(each._replace(short=masked(each.short)) for each in reason.also),
    )


def finding_veiled(finding: Finding) -> Finding:
    """So are they here."""
    return finding._replace(title=masked(finding.title), detail=masked(finding.detail), remedy=masked(finding.remedy))
