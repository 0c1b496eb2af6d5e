"""The page of one job: its state, its history, and the actions that are possible; and what of it has changed since."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any
from uuid import UUID, uuid4

from starlette.responses import RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries.error_groups import get_group_of_job
from treadle.operations.details import aget_details
from treadle.operations.graph import aget_graph, aget_neighbours
from treadle.operations.ids import aresolve_id
from treadle.text.masking import masked
from treadle.web.dashboard.pages.copying import job_commands
from treadle.web.dashboard.pages.graph import RenderedGraphs, draw_graph
from treadle.web.dashboard.pages.graph_drawing import Drawing
from treadle.web.dashboard.pages.live.details import find_reason
from treadle.web.dashboard.pages.live.jobs import Deleted, JobPage, JobUpdate, LiveJobs
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.remedies import of_reason
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.redaction import redact_details, redact_neighbours
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.stream import EventStream, frame
from treadle.why.reason import Reason
from treadle.words.changes import Action
from treadle.words.errors import JobNotFound, TooSlow
from treadle.words.graph import SIGNAL, WORKFLOW
from treadle.words.job import JobRow
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import FINISHED, Status

# Jobs that are listed as those that a job waits for, and as those that wait for it.
NEIGHBOURS = 20
# The first or last digits of an id, as addresses of the page may have.
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,9})")
DIGITS = re.compile(r"[0-9a-fA-F-]{4,35}", re.ASCII)


def id_of(context: Context) -> UUID:
    given = context.request.path_params["id"]
    try:
        return UUID(given)
    except ValueError:
        raise JobNotFound(given) from None


def render_state(mount_path: str, role: Role, snapshot: JobSnapshot) -> str:
    """The part of the page that changes while the job runs."""
    return fragment(mount_path, role, "parts/state.html", snapshot=snapshot)


def render_why(mount_path: str, role: Role, reason: Reason | None, snapshot: JobSnapshot) -> str:
    return fragment(mount_path, role, "parts/why.html", **why_values(reason, snapshot))


def why_values(reason: Reason | None, snapshot: JobSnapshot) -> dict[str, Any]:
    return {
        "why": reason,
        "remedies": [] if reason is None else of_reason(reason, snapshot.id),
        "is_workflow": snapshot.job_type == WORKFLOW,
    }


def page_state(snapshot: JobSnapshot) -> str:
    """When this value changes, the script reloads the whole page; otherwise it replaces only the live parts."""
    parts = (
        snapshot.status,
        snapshot.attempts,
        snapshot.max_attempts,
        snapshot.run_at.timestamp(),
        snapshot.may_be_blocked,
    )
    return ".".join(map(str, parts))


def possible_actions(job: JobRow, snapshot: JobSnapshot) -> list[Action]:
    actions = {
        Action.RUN_NOW: job.status is Status.PENDING and job.run_at > snapshot.at,
        Action.RETRY: job.status in FINISHED,
        Action.CANCEL: job.status not in FINISHED,
        Action.PRIORITY: job.status not in FINISHED,
        Action.DELETE: job.status not in (Status.CLAIMED, Status.RUNNING),
    }
    return [action for action, is_possible in actions.items() if is_possible]


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    live, graphs = LiveJobs(app, readings), RenderedGraphs()

    async def _drawing(role: Role, found: JobRow) -> Drawing | None:
        if found.job_type != WORKFLOW:
            return None
        with suppress(TooSlow):
            return await draw_graph(role, await aget_graph(app.database, found.id))
        return None

    async def job(context: Context) -> Response:
        given = context.request.path_params["id"]
        if DIGITS.fullmatch(given):
            found = await aresolve_id(app.database, given)
            return RedirectResponse(context.url(f"/jobs/{found}"), 303)
        role = context.visitor.role
        details = redact_details(role, await aget_details(app.database, id_of(context)))
        snapshot = details.snapshot
        neighbours = await aget_neighbours(app.database, details.job.id, NEIGHBOURS)
        # Events of the handler are numbered; those of the queue itself (claimed, completed …) are not.
        events = [each for each in details.events if each.number is not None]
        return page(
            context,
            "job.html",
            details=details,
            job=details.job,
            snapshot=snapshot,
            events=events,
            transitions=[each for each in details.events if each.number is None],
            cursor=_cursor(events, details.logs),
            page_state=page_state(snapshot),
            possible=[each.value for each in possible_actions(details.job, snapshot)],
            **why_values(await find_reason(app, snapshot), snapshot),
            edits=_edits(details.job),
            act=uuid4(),
            signal=_signal(details.job),
            drawing=await _drawing(role, details.job),
            neighbours=redact_neighbours(role, neighbours),
            max_neighbours=NEIGHBOURS,
            error_group=await app.database.aread(get_group_of_job(details.job.id)) if details.errors else None,
            commands=job_commands(app.database.schema, details.job.id, role, context.url("")),
        )

    async def live_job(context: Context) -> Response:
        cursor = _CURSOR.fullmatch(context.request.headers.get("last-event-id") or context.field("after") or "")
        event, line = map(int, cursor.groups()) if cursor else (0, 0)
        return EventStream(_job_frames(JobPage(id_of(context), event, line), context))

    async def _job_frames(page: JobPage, context: Context) -> AsyncGenerator[bytes, None]:
        sent: object = None
        async with aclosing(live.follow(page)) as updates:
            async for update in updates:
                if isinstance(update, JobUpdate):
                    # A later clock alone is not a change.
                    job = update.job._replace(at=update.job.run_at), update.why, update.has_reason
                    if job == sent and not (update.events or update.logs or update.graph):
                        yield frame("regions", {"at": update.job.at, "html": {}})
                        continue
                    sent = job
                    yield frame("job", await _rendered_job(context, update), update.cursor)
                elif isinstance(update, Deleted):
                    yield frame("deleted", {})
                else:
                    yield frame("unavailable", {"reason": update.reason})
        yield frame("end", {})

    async def _rendered_job(context: Context, given: JobUpdate) -> dict[str, object]:
        root, role = context.url(""), context.visitor.role
        graph = {} if given.graph is None else {"graph": await graphs.get(role, root, given.graph)}
        why = {"why-region": render_why(root, role, given.why, given.job)} if given.has_reason else {}
        update = masked(given._replace(graph=None, why=None))
        return {
            "at": update.job.at,
            "state": page_state(update.job),
            "html": {"job-state": render_state(root, role, update.job), **why, **graph},
            "append": {
                "events": fragment(root, role, "parts/events.html", events=update.events),
                "logs": fragment(root, role, "parts/logs.html", logs=update.logs),
            },
        }

    return [
        RouteSpec("GET", "/jobs/{id}", job, Role.VIEWER),
        RouteSpec("GET", "/live/jobs/{id}", live_job, Role.VIEWER),
    ]


def _edits(job: JobRow) -> list[tuple[str, str]]:
    """What can be done with its arguments: the names of the actions, and what they are called."""
    if job.job_type in (WORKFLOW, SIGNAL):
        return []
    can_edit = job.status in (Status.PENDING, Status.FAILED, Status.CANCELLED)
    return [*([("edit", "Edit")] if can_edit else []), ("copy", "Enqueue copy")]


def _signal(job: JobRow) -> str | None:
    """The signal that it waits for, or will."""
    if job.job_type != SIGNAL or job.status is not Status.PENDING or not isinstance(job.data, dict):
        return None
    name = job.data.get("signal")
    return name if isinstance(name, str) else None


def _cursor(events: list[RecordedEvent], logs: list[LogLine]) -> str:
    """The numbers of the last event and the last log line on the page."""
    return f"{events[-1].number if events else 0}.{logs[-1].number if logs else 0}"
