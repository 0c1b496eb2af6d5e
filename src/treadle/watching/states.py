"""The state of a job that is not running, in words."""

from treadle.words.formatting import countdown, printable, span
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status


def describe_state(job: JobSnapshot) -> str:
    """The state of a job that is not running."""
    because = f": {printable(job.error)}" if job.error else ""
    took = "" if job.seconds is None else f" in {span(job.seconds)}"
    match job.status:
        case Status.COMPLETED:
            return f"completed{took}" + (f", on attempt {job.attempts}" if job.attempts > 1 else "")
        case Status.FAILED:
            return f"failed on attempt {job.attempts} of {job.max_attempts}{because}"
        case Status.CANCELLED:
            return f"cancelled{because}"
        case Status.CLAIMED:
            return "about to start"
        case Status.PENDING:
            due = (job.run_at - job.at).total_seconds()
            if because:
                return f"retries {f'in {countdown(due)}' if due > 0 else 'now'}{because}"
            if due > 0:
                return f"due in {countdown(due)}"
            if job.may_be_blocked:
                return printable(job.progress.stage) if job.progress.stage else "waiting for other jobs"
            return "waiting for a worker"
    return job.status
