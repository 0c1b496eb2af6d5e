"""Decides, from the facts, on the one reason why a job does not run."""

from treadle.why.facts import Facts
from treadle.why.reason import Other, Reason
from treadle.why.rules.claimed import claimed
from treadle.why.rules.finished import finished
from treadle.why.rules.pending import due_later, key_blocked, locked, out_of_attempts, paused, unserved
from treadle.why.rules.position import busy, ready
from treadle.words.status import Status


def decide(facts: Facts, blocker: Reason | None = None) -> Reason:
    """The first cause that applies, with the others in short. `blocker` is the reason of the job that blocks its key.

    The causes are in the order in which they take effect: the job itself, its lane, its key, the workers. Each of them
    would keep the job from running even if all that follow were removed.
    """
    if facts.status.finished:
        return finished(facts)
    if facts.status in (Status.CLAIMED, Status.RUNNING):
        return claimed(facts)
    later = due_later(facts)
    causes = [
        out_of_attempts(facts),
        later,
        *paused(facts),
        key_blocked(facts, blocker),
        unserved(facts),
        # Which jobs will be ahead of it when it is due is not known.
        None if later else busy(facts),
        locked(facts),
    ]
    first, *others = [each for each in causes if each] or [ready(facts)]
    return first._replace(also=tuple(Other(each.name, each.short) for each in others))
