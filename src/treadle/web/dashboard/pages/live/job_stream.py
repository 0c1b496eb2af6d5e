"""The stream of the page of a job: the parts that have changed, rendered with the templates of the page."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.web.dashboard.pages.graph import RenderedGraphs
from treadle.web.dashboard.pages.job import id_of, page_state, render_state, render_why
from treadle.web.dashboard.pages.live.jobs import Deleted, JobPage, JobUpdate, LiveJobs
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.rendering import fragment
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.frames import frame
from treadle.web.stream import EventStream
from treadle.words.masking import masked

_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,9})")


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    live, graphs = LiveJobs(app, readings), RenderedGraphs()

    async def job(context: Context) -> Response:
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

    return [RouteSpec("GET", "/live/jobs/{id}", job, Role.VIEWER)]
