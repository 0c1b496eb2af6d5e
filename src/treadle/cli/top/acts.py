"""What can be done from the screen, as values: what to ask first, what to run, and what to say then."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from treadle.db.queries import operations as operate
from treadle.db.query import Query
from treadle.words.changes import Action, ChangeResult, Pause
from treadle.words.phrases import printable
from treadle.words.snapshot import JobSnapshot

WORDS = {Action.CANCEL: ("Cancel", "cancelled"), Action.RETRY: ("Retry", "to be tried again")}


class Act(NamedTuple):
    question: str
    query: Query[Any]
    said: Callable[[Any], str]


def pausing(schema: str, job_type: str, queue: str, pauses: Sequence[Pause], who: str) -> Act:
    """Pause the type in all queues; or, if something pauses it here, end that: the narrowest first."""
    found = [each for each in pauses if each.job_type in (job_type, None) and each.queue in (queue, None)]
    if not found:
        what = printable(job_type)
        return Act(
            f"Pause {what}? What runs goes on, nothing new is claimed.",
            operate.pause(job_type, None, who),
            lambda made: f"paused {what}" if made else f"{what} was paused already",
        )
    pause = min(found, key=lambda each: (each.job_type is None, each.queue is None))
    what = _named(pause)
    since = f"{pause.paused_at.astimezone():%H:%M on %d %b}"
    because = f": {printable(pause.reason)}" if pause.reason else ""
    return Act(
        f"Resume {what}? Paused by {printable(pause.paused_by or 'somebody')} at {since}{because}.",
        operate.resume(pause.job_type, pause.queue, who),
        lambda ended: f"resumed {what}" if ended else f"{what} was not paused any more",
    )


def changing(schema: str, action: Action, job: JobSnapshot, who: str) -> Act:
    ask, done = WORDS[action]
    what = f"{printable(job.job_type)} {job.id.hex[-4:]}"

    def said(results: list[ChangeResult]) -> str:
        match results[0].outcome:
            case "done":
                return f"{what} {done}"
            case "busy":
                return f"{what} is held by somebody at this moment; try again"
            case "missing":
                return f"{what} is not there any more"
        return f"{what} is {results[0].status}, so it cannot be {'cancelled' if action is Action.CANCEL else 'retried'}"

    return Act(f"{ask} {what}?", operate.operate(action, [job.id], who), said)


def _named(pause: Pause) -> str:
    where = f"queue {printable(pause.queue)}" if pause.queue is not None else ""
    if pause.job_type is None:
        return where or "everything"
    return printable(pause.job_type) + (f" in {where}" if where else "")
