"""One job: how it stands, what became of it, and what can be done about it."""

from contextlib import suppress
from uuid import UUID

from starlette.responses import Response

from treadle.app import Treadle
from treadle.operations.details import aget_details
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.redaction import reason_veiled, veiled
from treadle.web.dashboard.render import fragment, page
from treadle.web.dashboard.routes import Asked, Rule
from treadle.why.explain import awhy
from treadle.why.reason import Reason
from treadle.words.changes import Action
from treadle.words.errors import JobNotFound, TooSlow
from treadle.words.job import JobRow
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import FINISHED, Status


def id_of(asked: Asked) -> UUID:
    given = asked.request.path_params["id"]
    try:
        return UUID(given)
    except ValueError:
        raise JobNotFound(given) from None


def now(root: str, role: Role, seen: JobSnapshot) -> str:
    """What changes while it runs."""
    return fragment(root, role, "parts/now.html", seen=seen)


def state(seen: JobSnapshot) -> str:
    """When this changes, more of the page has changed than how far the job is."""
    return f"{seen.status}.{seen.attempts}.{seen.max_attempts}.{seen.run_at.timestamp()}.{seen.held}"


def possible(job: JobRow, seen: JobSnapshot) -> list[Action]:
    actions = {
        Action.RUN_NOW: job.status is Status.PENDING and job.run_at > seen.at,
        Action.RETRY: job.status in FINISHED,
        Action.CANCEL: job.status not in FINISHED,
        Action.PRIORITY: job.status not in FINISHED,
        Action.DELETE: job.status not in (Status.CLAIMED, Status.RUNNING),
    }
    return [action for action, fits in actions.items() if fits]


def rules(app: Treadle) -> list[Rule]:
    async def _why(seen: JobSnapshot) -> Reason | None:
        if seen.status not in (Status.PENDING, Status.CLAIMED):
            return None
        with suppress(JobNotFound, TooSlow):
            return reason_veiled(await awhy(app.database, seen.id))
        return None

    async def job(asked: Asked) -> Response:
        life = veiled(asked.visitor.role, await aget_details(app.database, id_of(asked)))
        told = [each for each in life.events if each.number is not None]
        return page(
            asked,
            "job.html",
            life=life,
            job=life.job,
            seen=life.snapshot,
            told=told,
            transitions=[each for each in life.events if each.number is None],
            cursor=_cursor(told, life.logs),
            state=state(life.snapshot),
            possible=[each.value for each in possible(life.job, life.snapshot)],
            why=await _why(life.snapshot),
        )

    return [Rule("GET", "/jobs/{id}", job, Role.VIEWER, "A job")]


def _cursor(told: list[RecordedEvent], logs: list[LogLine]) -> str:
    """How far the page goes in events and log lines."""
    return f"{told[-1].number if told else 0}.{logs[-1].number if logs else 0}"
