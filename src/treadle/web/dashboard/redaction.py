"""What a visitor sees of the values that jobs carry: the one place that decides it, for the pages and for the API.

Operators see payloads, results, checkpoints and the results of steps; viewers do not. Events, log lines and errors are
for everybody. Whatever is shown is masked: see words/masking.py.
"""

from treadle.doctor.finding import Finding
from treadle.operations.details import Life
from treadle.operations.masking import mask_details
from treadle.web.dashboard.access import Role
from treadle.why.reason import Reason
from treadle.words.masking import masked


def may_look_inside(role: Role) -> bool:
    """A search in payloads reveals what is in them, so it needs the same role."""
    return role >= Role.OPERATOR


def veiled(role: Role, life: Life) -> Life:
    if not may_look_inside(role):
        life = life._replace(
            job=life.job._replace(data=None, result=None, checkpoint=None),
            steps=[each._replace(result=None) for each in life.steps],
        )
    return mask_details(life)


def reason_veiled(reason: Reason) -> Reason:
    """It quotes errors of attempts."""
    return masked(reason)


def finding_veiled(finding: Finding) -> Finding:
    """It quotes errors of jobs."""
    return masked(finding)
