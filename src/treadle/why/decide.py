"""Why a job does not run: from facts to the one reason."""

from treadle.why.causes import due_later, key_blocked, locked, out_of_attempts, paused, unserved
from treadle.why.facts import Facts
from treadle.why.reason import Other, Reason
from treadle.why.standing import busy, ended, held, ready
from treadle.words.status import Status


def decide(facts: Facts, blocker: Reason | None = None) -> Reason:
    """The first cause that holds, with the others in short. `blocker` is the reason of the job that its key waits for.

    The order is that of the way to a worker: what concerns the job alone, then its lane, then its key, then who could
    run it. Each would keep it from running even if all that come after were lifted.
    """
    if facts.status.finished:
        return ended(facts)
    if facts.status in (Status.CLAIMED, Status.RUNNING):
        return held(facts)
    later = due_later(facts)
    causes = [
        out_of_attempts(facts),
        later,
        *paused(facts),
        key_blocked(facts, blocker),
        unserved(facts),
        # Who will be in line when it is due, nobody knows.
        None if later else busy(facts),
        locked(facts),
    ]
    first, *others = [each for each in causes if each] or [ready(facts)]
    return first._replace(also=tuple(Other(each.name, each.short) for each in others))
