"""Decides which values of jobs a visitor may see, for the pages and the API.

Operators see payloads, results, checkpoints, headers and the results of steps; viewers do not. Events, log lines and
errors are for all roles. Everything that is shown is masked: see text/masking.py.
"""

from treadle.db.queries.workflows import Neighbours
from treadle.doctor.finding import Finding
from treadle.operations.details import JobDetails
from treadle.operations.graph import mask_graph, mask_node
from treadle.operations.masking import mask_details
from treadle.text.masking import masked
from treadle.web.dashboard.security.access import Role
from treadle.why.reason import Reason
from treadle.words.graph import Graph


def may_see_payloads(role: Role) -> bool:
    """A search in payloads reveals what is in them, so it needs the same role."""
    return role >= Role.OPERATOR


def redact_details(role: Role, details: JobDetails) -> JobDetails:
    if not may_see_payloads(role):
        details = details._replace(
            job=details.job._replace(data=None, result=None, checkpoint=None, headers=None),
            steps=[each._replace(result=None) for each in details.steps],
            payloads=False,
        )
    return mask_details(details)


def redact_graph(role: Role, graph: Graph) -> Graph:
    """The name of a nested workflow is in its payload."""
    return mask_graph(graph, titles=may_see_payloads(role))


def redact_neighbours(role: Role, neighbours: Neighbours) -> Neighbours:
    return Neighbours(*([mask_node(each, may_see_payloads(role)) for each in kind] for kind in neighbours))


def redact_reason(reason: Reason) -> Reason:
    """It quotes errors of attempts."""
    return masked(reason)


def redact_finding(finding: Finding) -> Finding:
    """It quotes errors of jobs."""
    return masked(finding)
