"""The server cannot write what workers do."""

from treadle.why.facts import Facts, ScheduleFacts
from treadle.why.reason import Reason


def refused(facts: Facts | ScheduleFacts) -> Reason | None:
    """Of a job that is claimed: its outcome waits. Of any other: it is not claimed."""
    refusal = facts.refusal
    if refusal is None:
        return None
    effect = "Workers claim no jobs, and the outcomes of those that have ended wait until they can be written."
    return Reason(
        "server_cannot_write",
        f"{refusal.sentence} {effect}",
        refusal.remedy,
        f"cannot be written to the server ({refusal.value})",
        {"refusal": refusal.value},
    )
