"""Decides which values of jobs a visitor may see, for the pages and the API.

Operators see payloads, results, checkpoints and step results, with values that look like secrets masked. Viewers see
none of these. Both see events, logs and errors, masked in the same way.
"""

from treadle.doctor.finding import Finding
from treadle.operations.details import JobDetails, Step
from treadle.web.dashboard.security.access import Role
from treadle.why.reason import Reason
from treadle.words.masking import masked
from treadle.words.payload import Json


def may_see_payloads(role: Role) -> bool:
    """Also required to search in payloads, because the matches reveal what they contain."""
    return role >= Role.OPERATOR


def redact_value(role: Role, value: Json) -> Json:
    """A payload, result, checkpoint or step result as this role may see it."""
    return masked(value) if may_see_payloads(role) else None


def redact_details(role: Role, life: JobDetails) -> JobDetails:
    job = life.job._replace(
        data=redact_value(role, life.job.data),
        result=redact_value(role, life.job.result),
        checkpoint=redact_value(role, life.job.checkpoint),
        last_error=masked(life.job.last_error),
    )
    return life._replace(
        job=job,
        snapshot=life.snapshot._replace(error=masked(life.snapshot.error)),
        events=[each._replace(data=masked(each.data)) for each in life.events],
        errors=[each._replace(error=masked(each.error), traceback=masked(each.traceback)) for each in life.errors],
        logs=[each._replace(message=masked(each.message)) for each in life.logs],
        # A step result is masked by the name of its step, as a value is by its key.
        steps=[each._replace(result=_step_result(role, each)) for each in life.steps],
    )


def _step_result(role: Role, step: Step) -> Json:
    redacted = redact_value(role, {step.name: step.result})
    return redacted[step.name] if redacted else None


def redact_reason(reason: Reason) -> Reason:
    """Its texts may quote the error of an attempt."""
    return reason._replace(
        sentence=masked(reason.sentence),
        remedy=masked(reason.remedy),
        short=masked(reason.short),
        data=masked(reason.data),
        also=tuple(each._replace(short=masked(each.short)) for each in reason.also),
    )


def redact_finding(finding: Finding) -> Finding:
    """Its texts may quote the error of an attempt."""
    return finding._replace(title=masked(finding.title), detail=masked(finding.detail), remedy=masked(finding.remedy))
