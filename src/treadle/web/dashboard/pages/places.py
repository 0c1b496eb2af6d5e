"""The lists of job types and queues, and the page of one."""

from typing import Any, NamedTuple

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries import dashboard as dashboard_queries
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import throughput as throughput_queries
from treadle.db.queries.listing import find_jobs
from treadle.db.queries.throughput import SlowJob
from treadle.db.query import Query
from treadle.operations.known_names import acheck_name
from treadle.operations.overview import STEPS
from treadle.operations.places import (
    Kind,
    aget_activities,
    aget_place,
    aget_places,
    checked_name,
    find_finished,
    history_queries,
    make_details,
    make_places,
)
from treadle.text.masking import masked
from treadle.web.dashboard.pages.charts import panel
from treadle.web.dashboard.pages.live.readings import Reading, Readings
from treadle.web.dashboard.pages.live.regions import LivePage, Regions, stream_regions
from treadle.web.dashboard.pages.live.shared import CHART_SECONDS, SharedReads
from treadle.web.dashboard.pages.overview import WINDOWS, window_of
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.pages.settings_of import settings_of
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.errors import TooSlow
from treadle.words.limit_status import LimitStatus
from treadle.words.listing import JobFilter, JobSummary
from treadle.words.overview import Mark
from treadle.words.places import Activity, Place, PlaceDetails, Places
from treadle.words.schedule_status import ScheduleStatus

# Rows of a list, and jobs, limits and schedules on the page of one type or queue.
MAX_PLACES = 500
MAX_JOBS = 8
MAX_RELATED = 20
# What changes slowly is read this often.
SLOW_SECONDS = 10.0
PLACE_REGIONS = {"place-tiles": "parts/place_tiles.html", "place-parts": "parts/place_parts.html"}
# Rendered when what they show was read again.
CHART_REGIONS = {"charts": "parts/charts.html"}
RELATED_REGIONS = {"place-windows": "parts/place_windows.html", "place-jobs": "parts/place_jobs.html"}


class ListSelection(NamedTuple):
    window: int
    search: str | None


class Related(NamedTuple):
    """What is read less often."""

    activities: list[Activity]
    slowest: list[SlowJob]
    newest: list[JobSummary]
    limits: list[LimitStatus]
    schedules: list[ScheduleStatus]
    marks: list[Mark]


class PlaceUpdate(NamedTuple):
    details: PlaceDetails
    history: Reading[list[Any]]
    """What its charts show."""
    related: Reading[Related]


def routes(app: Treadle, readings: Readings, shared: SharedReads) -> list[RouteSpec]:

    async def read_list(kind: Kind, window: int) -> Places:
        query = find_finished(window)
        finished = await shared.slowly(
            ("finished", window), CHART_SECONDS[STEPS[window]], lambda: app.database.aread(query)
        )
        return make_places(kind, window, await shared.state(), finished.value)

    async def related(kind: Kind, name: str, window: int) -> Related:
        of = (name, None) if kind == "type" else (None, name)
        step = STEPS[window]
        queries: list[Query[Any]] = [
            throughput_queries.find_slowest_jobs(window, step, MAX_JOBS, *of),
            schedule_queries.find_statuses(None, 100, search=name, history=0),
            limit_queries.find_matching(name, 100),
            dashboard_queries.find_marks(window),
        ]
        slowest, schedules, limits, marks = await app.database.aread_together(queries)
        try:
            newest = (await app.database.aread(find_jobs(JobFilter(None, *of), None, MAX_JOBS))).jobs
        except TooSlow:
            newest = []
        return Related(
            await aget_activities(app.database, kind, name),
            slowest,
            newest,
            [each for each in limits if name in (each.job_types if kind == "type" else each.queues)][:MAX_RELATED],
            [each for each in schedules.schedules if name == (each.job_type if kind == "type" else each.queue)],
            [each for each in marks if each.concerns(*of)],
        )

    async def read_place(kind: Kind, name: str, window: int) -> PlaceUpdate:
        of = kind, name, window
        history = await shared.slowly(("history", *of), CHART_SECONDS[STEPS[window]], lambda: read_history(*of))
        details = make_details(*of, await shared.state(), *history.value)
        return PlaceUpdate(details, history, await read_related(*of))

    async def read_related(kind: Kind, name: str, window: int) -> Reading[Related]:
        of = kind, name, window
        return await shared.slowly(("related", *of), SLOW_SECONDS, lambda: related(*of))

    async def read_history(kind: Kind, name: str, window: int) -> list[Any]:
        return await app.database.aread_together(history_queries(kind, name, window))

    def list_pages(kind: Kind) -> list[RouteSpec]:
        return LivePage(f"/{kind}s", "places.html", {"places": "parts/places.html"}).routes(
            readings,
            list_selection,
            lambda selection: lambda: read_list(kind, selection.window),
            lambda found, selection: list_values(kind, found, selection),
            fresh=lambda selection: lambda: aget_places(app.database, kind, selection.window),
        )

    def place_page(kind: Kind) -> RouteSpec:
        async def place(context: Context) -> Response:
            name, window = checked_name(kind, context.field("name") or ""), window_of(context)
            details = await aget_place(app.database, kind, name, window)
            others = (await read_related(kind, name, window)).value
            settings = settings_of(app, kind, name)
            if settings is None:
                await acheck_name(app.database, kind, name, details, others.activities)
            values = place_values(kind, name, window, details, others) | chart_values(kind, name, details, others)
            values["settings"] = settings
            return page(context, "place.html", windows=WINDOWS, **values)

        return RouteSpec("GET", f"/{kind}", place, Role.VIEWER)

    def live_place(kind: Kind) -> RouteSpec:
        async def live(context: Context) -> Response:
            name, window = checked_name(kind, context.field("name") or ""), window_of(context)

            def render(mount_path: str, role: Role, update: PlaceUpdate) -> Regions:
                details, others = update.details, update.related.value

                def parts(regions: dict[str, str], **values: Any) -> dict[str, str]:
                    return {region: fragment(mount_path, role, part, **values) for region, part in regions.items()}

                values = place_values(kind, name, window, details, others)
                visitor = mount_path, role
                html = (
                    parts(PLACE_REGIONS, **values)
                    | update.related.rendered(visitor, lambda _: parts(RELATED_REGIONS, **values))
                    | update.history.rendered(
                        visitor, lambda _: parts(CHART_REGIONS, **chart_values(kind, name, details, others))
                    )
                )
                return Regions(details.at, html)

            updates = readings.follow(("place", kind, name, window), lambda: read_place(kind, name, window))
            return stream_regions(context, updates, render)

        return RouteSpec("GET", f"/live/{kind}", live, Role.VIEWER)

    kinds: tuple[Kind, ...] = ("type", "queue")
    return [each for kind in kinds for each in (*list_pages(kind), place_page(kind), live_place(kind))]


async def list_selection(context: Context) -> ListSelection:
    return ListSelection(window_of(context), context.field("search"))


def list_values(kind: Kind, found: Places, selection: ListSelection) -> dict[str, Any]:
    wanted = (selection.search or "").casefold()
    places = [each for each in found.places if wanted in _name(kind, each).casefold()]
    return {
        "kind": kind,
        "at": found.at,
        "places": places[:MAX_PLACES],
        "more": max(0, len(places) - MAX_PLACES),
        "window": selection.window,
        "windows": WINDOWS,
        "search": selection.search,
    }


def place_values(kind: Kind, name: str, window: int, details: PlaceDetails, related: Related) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "at": details.at,
        "window": window,
        "window_name": dict(WINDOWS)[window],
        "place": details.place,
        "parts": details.parts,
        "related": masked(related),
        "of": _of(kind, name),
        "window_names": dict(WINDOWS),
    }


def chart_values(kind: Kind, name: str, details: PlaceDetails, related: Related) -> dict[str, Any]:
    of, marks = _of(kind, name), masked(related.marks)
    return {"panel": panel(details.spans, details.step, marks, details.depths, of, run_times=True)}


def _of(kind: Kind, name: str) -> dict[str, str]:
    return {"type" if kind == "type" else "queue": name}


def _name(kind: Kind, place: Place) -> str:
    return (place.job_type if kind == "type" else place.queue) or ""
