"""One job: how it stands, what became of it, and what can be done about it."""

from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from starlette.responses import Response

from treadle.app import Treadle
from treadle.app.why import awhy
from treadle.db import jobs, operate, telling, work
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.gate import Asked, Rule
from treadle.web.dashboard.render import fragment, page
from treadle.words.errors import JobNotFound, TooSlow
from treadle.words.job import JobError, JobRow
from treadle.words.operator import Action, Audited
from treadle.words.payload import Json, decode
from treadle.words.reason import Reason
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.sight import Seen
from treadle.words.status import FINISHED, Status

# Of events and of log lines, the newest.
LINES = 200
_TRANSITIONS = 200


class Life(NamedTuple):
    job: JobRow
    seen: Seen
    transitions: list[RecordedEvent]
    events: list[RecordedEvent]
    earlier: int
    """So many events came before those."""
    errors: list[JobError]
    logs: list[LogLine]
    steps: list[tuple[str, Json]]
    audit: list[Audited]

    @property
    def cursor(self) -> str:
        """How far it goes in events and log lines."""
        event = max((each.number or 0 for each in self.events), default=0)
        return f"{event}.{max((each.number for each in self.logs), default=0)}"


async def alife(app: Treadle, job_id: UUID) -> Life:
    schema, look = app.schema, app.database.alook
    seen = await look(telling.see_jobs(schema, [job_id]))
    if not seen:
        raise JobNotFound(job_id)
    earlier = max(0, seen[0].events_count - LINES)
    told = await look(telling.job_events(schema, job_id, telling.Position(earlier, -1, 0), LINES + _TRANSITIONS))
    logs = await look(telling.newest_logs(schema, {job_id: 0}, LINES))
    steps = await look(telling.steps(schema, job_id))
    return Life(
        job=await look(jobs.get(schema, job_id)),
        seen=seen[0],
        transitions=[each for each in told if each.number is None],
        events=[each for each in told if each.number is not None],
        earlier=earlier,
        errors=await look(work.errors(schema, job_id)),
        logs=logs.get(job_id, []),
        steps=[(name, None if result is None else decode(result)) for name, result in steps.values()],
        audit=await look(operate.audit(schema, job_id)),
    )


def id_of(asked: Asked) -> UUID:
    given = asked.request.path_params["id"]
    try:
        return UUID(given)
    except ValueError:
        raise JobNotFound(given) from None


def now(root: str, role: Role, seen: Seen) -> str:
    """What changes while it runs."""
    return fragment(root, role, "parts/now.html", seen=seen)


def state(seen: Seen) -> str:
    """When this changes, more of the page has changed than how far the job is."""
    return f"{seen.status}.{seen.attempts}.{seen.max_attempts}.{seen.run_at.timestamp()}.{seen.held}"


def possible(job: JobRow, seen: Seen) -> list[Action]:
    actions = {
        Action.RUN_NOW: job.status is Status.PENDING and job.run_at > seen.at,
        Action.RETRY: job.status in FINISHED,
        Action.CANCEL: job.status not in FINISHED,
        Action.PRIORITY: job.status not in FINISHED,
        Action.DELETE: job.status not in (Status.CLAIMED, Status.RUNNING),
    }
    return [action for action, fits in actions.items() if fits]


def rules(app: Treadle) -> list[Rule]:
    async def _why(seen: Seen) -> Reason | None:
        if seen.status not in (Status.PENDING, Status.CLAIMED):
            return None
        with suppress(JobNotFound, TooSlow):
            return await awhy(app.database, seen.id)
        return None

    async def job(asked: Asked) -> Response:
        life = await alife(app, id_of(asked))
        return page(
            asked, "job.html", life=life, job=life.job, seen=life.seen, state=state(life.seen),
            possible=[each.value for each in possible(life.job, life.seen)], why=await _why(life.seen),
        )  # fmt: skip

    return [Rule("GET", "/jobs/{id}", job, Role.VIEWER, "A job")]
