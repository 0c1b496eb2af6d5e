"""Completed, failed and cancelled jobs."""

from treadle.why.facts import Facts
from treadle.why.reason import Reason
from treadle.why.text import because, clipped, elapsed
from treadle.words.status import Status


def finished(facts: Facts) -> Reason:
    ago = elapsed(facts.at, facts.finished_at or facts.at)
    again = f"To run it again: treadle retry {facts.id}"
    data = {"finished_at": facts.finished_at, "attempt": facts.attempts, "max_attempts": facts.max_attempts}
    if facts.status == Status.COMPLETED:
        return Reason("completed", f"The job completed {ago} ago.", again, "has completed", data)
    if facts.status == Status.FAILED:
        attempt = f"attempt {facts.attempts} of {facts.max_attempts}"
        return Reason(
            "failed",
            f"The job failed permanently {ago} ago, on {attempt}{because(facts.error)}.",
            again,
            f"has failed on {attempt}",
            data | {"error": facts.error},
        )
    # If the cancellation gave no reason, last_error is still the error of an earlier attempt.
    stale = facts.failure is not None and facts.failure.error == facts.error
    reason = facts.cancel_reason if facts.cancelled_by else None if stale else facts.error
    by = f" by {clipped(facts.cancelled_by)}" if facts.cancelled_by else ""
    return Reason(
        "cancelled",
        f"The job was cancelled {ago} ago{by}{because(reason)}.",
        again,
        "was cancelled",
        data | {"cancelled_by": facts.cancelled_by, "reason": reason},
    )
