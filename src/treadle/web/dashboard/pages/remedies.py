"""Remedies as links: from a reason or a finding to the page that shows the cause, or the form that mends it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from treadle.doctor.finding import Finding, Severity
from treadle.why.reason import Reason

_JOB_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


class Remedy(NamedTuple):
    """A button. What it leads to shows what will change, and asks."""

    label: str
    path: str
    query: Mapping[str, object] = {}
    changes: bool = False
    """Only operators may do it."""


_WORKERS = Remedy("Workers", "/workers")
_HEALTH = Remedy("Health", "/health")
_PAUSES = Remedy("Resume…", "/#pauses", changes=True)
_LIMITS = Remedy("Limits", "/limits")
_SCHEDULES = Remedy("Schedules", "/schedules")

# By the name of the finding. Others have no page that shows or mends them.
_OF_FINDINGS = {
    "silent_workers": _WORKERS,
    "stalled_workers": _WORKERS,
    "stuck_workers": _WORKERS,
    "stopped_children": _WORKERS,
    "old_workers": _WORKERS,
    "worker_clocks": _WORKERS,
    "no_workers": _WORKERS,
    "unserved_lanes": _WORKERS,
    "unclaimed_jobs": _WORKERS,
    "failure_rates": Remedy("Failed jobs", "/jobs", {"status": "failed"}),
    "crashing_jobs": Remedy("Failed jobs", "/jobs", {"status": "failed"}),
    "paused_lanes": _PAUSES,
    "paused_limits": _LIMITS,
    "lowered_limits": _LIMITS,
    "slow_limits": _LIMITS,
    "unopened_limits": _LIMITS,
    "late_schedules": _SCHEDULES,
    "failing_schedules": _SCHEDULES,
    "unserved_schedules": _SCHEDULES,
    "abandoned_claims": Remedy("Claimed jobs", "/jobs", {"status": "claimed"}),
}


def linked(text: str, url: Callable[..., str]) -> Markup:
    """The text with each id of a job as a link to its page."""
    parts, end = [], 0
    for found in _JOB_ID.finditer(text):
        href = url(f"/jobs/{found[0]}")
        parts += [
            escape(text[end : found.start()]),
            Markup('<a class="job-link" href="{}">{}</a>').format(href, found[0]),
        ]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def of_finding(finding: Finding) -> list[Remedy]:
    if finding.level is Severity.OK or finding.name not in _OF_FINDINGS:
        return []
    return [_OF_FINDINGS[finding.name]]


def of_reason(reason: Reason, job_id: object) -> list[Remedy]:
    """What helps a job that does not run."""
    data = reason.data
    if blocking := data.get("blocking_job") or data.get("waits_for"):
        return [Remedy("Open the job that it waits for", f"/jobs/{blocking}")]
    match reason.name:
        case "paused":
            return [_resume(data)]
        case "limit_paused":
            return [_limit("Reset the limit…", "/limits/reset", data)]
        case "limited" | "rate_limited":
            return [_limit("Change the limit…", "/limits/set", data)]
        case "out_of_attempts":
            return [Remedy("Cancel…", "/bulk", {"action": "cancel", "ids": job_id}, changes=True)]
        case "no_worker" | "no_worker_for_type" | "no_worker_for_queue" | "workers_paused" | "worker_lost" | "stuck":
            return [_WORKERS]
        case "locked" | "ready":
            return [_HEALTH]
    return []


def of_schedule_reason(reason: Reason, name: str) -> list[Remedy]:
    """What helps a schedule that does not run."""
    if last := reason.data.get("last_job"):
        return [Remedy("Open its last job", f"/jobs/{last}")]
    match reason.name:
        case "paused":
            return [Remedy("Resume…", "/schedules/resume", {"name": name}, changes=True)]
        case "jobs_paused":
            return [_resume(reason.data)]
        case "no_worker" | "no_worker_for_type" | "no_worker_for_queue" | "workers_paused" | "not_declared" | "late":
            return [_WORKERS]
    return []


def _resume(pause: Mapping[str, Any]) -> Remedy:
    return Remedy("Resume…", "/resume", {"job_type": pause.get("job_type"), "queue": pause.get("queue")}, changes=True)


def _limit(label: str, path: str, data: Mapping[str, Any]) -> Remedy:
    key = data.get("key")
    return Remedy(
        label,
        path,
        {"name": data.get("limit"), "key": key or None, "without_value": 1 if key == "" else None},
        changes=True,
    )
