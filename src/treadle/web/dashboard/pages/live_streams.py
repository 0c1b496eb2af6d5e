"""Server-sent events for open pages: the parts that changed, rendered with the templates of the pages."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar

from starlette.responses import Response

from treadle.web.dashboard.pages import limits as limit_pages
from treadle.web.dashboard.pages import schedules as schedule_pages
from treadle.web.dashboard.pages.graph import RenderedGraphs
from treadle.web.dashboard.pages.job import id_of, page_state, render_state
from treadle.web.dashboard.pages.live_updates import (
    Deleted,
    JobPage,
    JobUpdate,
    LimitsPage,
    LiveUpdates,
    OverviewPage,
    OverviewUpdate,
    SchedulesPage,
    Unavailable,
)
from treadle.web.dashboard.pages.overview import render_regions, window_of
from treadle.web.dashboard.pages.rendering import fragment
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.frames import frame
from treadle.web.stream import EventStream
from treadle.words.limit_status import LimitStatus
from treadle.words.masking import masked
from treadle.words.schedule_status import ScheduleList

Update = TypeVar("Update")

_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,9})")


class RenderedOverviews:
    """The newest overview of each window, rendered once for all pages that show it."""

    def __init__(self) -> None:
        self._rendered: dict[tuple[int, Role, str], tuple[OverviewUpdate, dict[str, str]]] = {}

    def get(self, window: int, role: Role, mount_path: str, update: OverviewUpdate) -> dict[str, str]:
        key = (window, role, mount_path)
        rendered = self._rendered.get(key)
        if rendered is None or rendered[0] is not update:
            rendered = self._rendered[key] = (update, render_regions(mount_path, role, update))
        return rendered[1]


def routes(live: LiveUpdates) -> list[RouteSpec]:
    rendered = RenderedOverviews()
    graphs = RenderedGraphs()

    async def overview(context: Context) -> Response:
        return EventStream(_overview_frames(OverviewPage(window_of(context)), context))

    async def job(context: Context) -> Response:
        cursor = _CURSOR.fullmatch(context.request.headers.get("last-event-id") or context.field("after") or "")
        event, line = map(int, cursor.groups()) if cursor else (0, 0)
        return EventStream(_job_frames(JobPage(id_of(context), event, line), context))

    async def schedules(context: Context) -> Response:
        page = SchedulesPage(schedule_pages.selection_of(context))

        def render(found: ScheduleList) -> tuple[datetime, str]:
            return found.at, schedule_pages.render_list(context.url(""), context.visitor.role, found, page.selection)

        return EventStream(_list_frames("schedules", live.schedules(page), render))

    async def limits(context: Context) -> Response:
        page = LimitsPage(limit_pages.selection_of(context))

        def render(found: list[LimitStatus]) -> tuple[datetime | None, str]:
            at = found[0].at if found else None
            return at, limit_pages.render_list(context.url(""), context.visitor.role, found, page.selection)

        return EventStream(_list_frames("limits", live.limits(page), render))

    async def _list_frames(
        region: str,
        following: AsyncGenerator[Update | Unavailable, None],
        render: Callable[[Update], tuple[datetime | None, str]],
    ) -> AsyncGenerator[bytes, None]:
        sent = ""
        async with aclosing(following) as updates:
            async for update in updates:
                if isinstance(update, Unavailable):
                    yield frame("unavailable", {})
                    continue
                at, html = render(update)
                yield frame("regions", {"at": at, "html": {} if html == sent else {region: html}})
                sent = html

    async def _overview_frames(page: OverviewPage, context: Context) -> AsyncGenerator[bytes, None]:
        sent: dict[str, str] = {}
        async with aclosing(live.overview(page)) as updates:
            async for update in updates:
                if isinstance(update, Unavailable):
                    yield frame("unavailable", {})
                    continue
                regions = rendered.get(page.window, context.visitor.role, context.url(""), update)
                changed = {name: html for name, html in regions.items() if sent.get(name) != html}
                sent = regions
                yield frame("regions", {"at": update.overview.at, "html": changed})

    async def _job_frames(page: JobPage, context: Context) -> AsyncGenerator[bytes, None]:
        sent: object = None
        async with aclosing(live.job(page)) as updates:
            async for update in updates:
                if isinstance(update, JobUpdate):
                    job = update.job._replace(at=update.job.run_at)  # a later clock alone is not a change
                    if job == sent and not (update.events or update.logs or update.graph):
                        yield frame("regions", {"at": update.job.at, "html": {}})
                        continue
                    sent = job
                    yield frame("job", await _rendered_job(context, update), update.cursor)
                else:
                    yield frame("deleted" if isinstance(update, Deleted) else "unavailable", {})
        yield frame("end", {})

    async def _rendered_job(context: Context, given: JobUpdate) -> dict[str, object]:
        root, role = context.url(""), context.visitor.role
        graph = {} if given.graph is None else {"graph": await graphs.get(role, root, given.graph)}
        update = _redact(given._replace(graph=None))
        return {
            "at": update.job.at,
            "state": page_state(update.job),
            "html": {"job-state": render_state(root, role, update.job), **graph},
            "append": {
                "events": fragment(root, role, "parts/events.html", events=update.events),
                "logs": fragment(root, role, "parts/logs.html", logs=update.logs),
            },
        }

    return [
        RouteSpec("GET", "/live/overview", overview, Role.VIEWER, "Live updates of the overview"),
        RouteSpec("GET", "/live/schedules", schedules, Role.VIEWER, "Live updates of the schedules"),
        RouteSpec("GET", "/live/limits", limits, Role.VIEWER, "Live updates of the limits"),
        RouteSpec("GET", "/live/jobs/{id}", job, Role.VIEWER, "Live updates of a job"),
    ]


def _redact(update: JobUpdate) -> JobUpdate:
    return masked(update)
