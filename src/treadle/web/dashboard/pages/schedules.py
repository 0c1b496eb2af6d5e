"""The list of schedules, the page of one, and the pages that confirm a change of it."""

from collections import Counter
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries import schedules as schedule_queries
from treadle.db.query import Query
from treadle.text.masking import masked
from treadle.web.dashboard import actions
from treadle.web.dashboard.actions import SCHEDULE_SUMMARIES, ScheduleAction
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.remedies import of_schedule_reason
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.redaction import redact_reason
from treadle.web.dashboard.routes import Context, Endpoint, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path, with_result
from treadle.why.explain import awhy_schedule
from treadle.words.errors import UnknownSchedule
from treadle.words.schedule import ScheduleRow
from treadle.words.schedule_status import STATES, Occurrence, ScheduleList, ScheduleStatus

# A time that passed this long ago without being dealt with is marked as late.
LATE_SECONDS = 15.0
# Schedules on one page of their list.
SCHEDULES = 50
# Occurrences on the page of one schedule.
MOST_OCCURRENCES = 100


class ScheduleSelection(NamedTuple):
    """Which part of the list of schedules a page shows."""

    after: str | None = None
    search: str | None = None
    state: str | None = None


def selection_of(context: Context) -> ScheduleSelection:
    return ScheduleSelection(context.field("after"), context.field("search"), context.field("state"))


def template_values(found: ScheduleList, selection: ScheduleSelection) -> dict[str, Any]:
    filters = {"search": selection.search, "state": selection.state}
    here = {name: value for name, value in selection._asdict().items() if value}
    return {
        # Their names and types are needed unmasked, to change them and to find their jobs.
        "schedules": [each._replace(error=masked(each.error)) for each in found.schedules],
        "late": {each.name for each in found.schedules if _is_late(each, found)},
        "found": found,
        "filter": filters,
        "after": selection.after,
        "back": f"/schedules?{urlencode(here)}" if here else "/schedules",
        "summary": summary,
    }


def summary(history: list[Occurrence]) -> str:
    """For screen readers, instead of the dots: 18 completed, 1 failed, 1 missed."""
    counts = Counter(each.outcome for each in history)
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    def query_of(selection: ScheduleSelection) -> Query[ScheduleList]:
        after, search, state = selection
        return schedule_queries.find_statuses(after, SCHEDULES, search=search, state=state)

    async def list_schedules(context: Context) -> Response:
        selection = selection_of(context)
        found = await app.database.aread(query_of(selection))
        live_query = {name: value for name, value in selection._asdict().items() if value}
        return page(
            context,
            "schedules.html",
            states=STATES,
            live_query=live_query,
            **template_values(found, selection),
        )

    async def live(context: Context) -> Response:
        selection = selection_of(context)
        query = query_of(selection)  # refuses an invalid selection before the stream begins

        def render(mount_path: str, role: Role, found: ScheduleList) -> Regions:
            values = template_values(found, selection)
            return Regions(found.at, {"schedules": fragment(mount_path, role, "parts/schedules.html", **values)})

        updates = readings.follow(("schedules", selection), lambda: app.database.aread(query))
        return stream_regions(context, updates, render)

    async def one_schedule(context: Context) -> Response:
        name = context.field("name") or ""
        found = await app.database.aread(schedule_queries.find_statuses(name=name, history=MOST_OCCURRENCES))
        if not found.schedules:
            raise UnknownSchedule(name)
        row = await _find(name)
        (schedule,) = found.schedules
        why = redact_reason(await awhy_schedule(app.database, name))
        return page(
            context,
            "schedule.html",
            schedule=schedule._replace(error=masked(schedule.error)),
            row=row,
            why=why,
            remedies=of_schedule_reason(why, name),
            back=f"/schedule?{urlencode({'name': name})}",
        )

    def confirm_endpoint(action: ScheduleAction) -> Endpoint:
        async def confirm(context: Context) -> Response:
            row = await _find(context.field("name") or "")
            back = local_path(context.field("back")) or "/schedules"
            return page(context, "change_schedule.html", action=action.value, schedule=row, back=back)

        return confirm

    def change_endpoint(action: ScheduleAction) -> Endpoint:
        async def change(context: Context) -> Response:
            name = context.field("name") or ""
            done = await actions.change_schedule(app, context.visitor, action, name, context.field("reason"))
            back = local_path(context.field("back")) or "/schedules"
            return RedirectResponse(context.url(with_result(back, **{"done" if done else "unfit": action.value})), 303)

        return change

    async def _find(name: str) -> ScheduleRow:
        found = await app.database.aread(schedule_queries.find_schedules(name))
        if not found:
            raise UnknownSchedule(name)
        return found[0]

    return [
        RouteSpec("GET", "/schedules", list_schedules, Role.VIEWER, "Schedules"),
        RouteSpec("GET", "/live/schedules", live, Role.VIEWER, "Live updates of the schedules"),
        RouteSpec("GET", "/schedule", one_schedule, Role.VIEWER, "A schedule"),
        *(
            RouteSpec(method, f"/schedules/{action.value}", endpoint(action), Role.OPERATOR, summary)
            for action, summary in SCHEDULE_SUMMARIES.items()
            for method, endpoint in (("GET", confirm_endpoint), ("POST", change_endpoint))
        ),
    ]


def _is_late(schedule: ScheduleStatus, found: ScheduleList) -> bool:
    return schedule.next_at is not None and (found.at - schedule.next_at).total_seconds() > LATE_SECONDS
