"""Masks the secrets in the details of a job, for the command line, the API and the pages."""

from treadle.operations.details import JobDetails
from treadle.text.masking import masked


def mask_details(details: JobDetails) -> JobDetails:
    """Payload, result, checkpoint, headers, steps, events, errors with tracebacks, log lines and audit."""
    # The name of a step counts as the key of its result.
    steps = [each._replace(result=masked({each.name: each.result})[each.name]) for each in details.steps]
    return masked(details._replace(steps=steps))
