"""The list of schedules, the page of one, and the pages that confirm a change of it."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries import schedules as schedule_queries
from treadle.text.masking import masked
from treadle.web.dashboard.pages.forms import form_routes, redirect_back
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import LivePage
from treadle.web.dashboard.pages.remedies import of_schedule_reason
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.redaction import redact_reason
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path
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


LIST = LivePage("/schedules", "schedules.html", {"schedules": "parts/schedules.html"})


async def selection_of(context: Context) -> ScheduleSelection:
    return ScheduleSelection(context.field("after"), context.field("search"), context.field("state"))


def template_values(found: ScheduleList, selection: ScheduleSelection) -> dict[str, Any]:
    here = {name: value for name, value in selection._asdict().items() if value}
    return {
        "at": found.at,
        # Their names and types are needed unmasked, to change them and to find their jobs.
        "schedules": [each._replace(error=masked(each.error)) for each in found.schedules],
        "late": {each.name for each in found.schedules if _is_late(each, found)},
        "found": found,
        "filter": {"search": selection.search, "state": selection.state},
        "states": STATES,
        "after": selection.after,
        "live_query": here,
        "back": f"/schedules?{urlencode(here)}" if here else "/schedules",
        "summary": summary,
    }


def summary(history: list[Occurrence]) -> str:
    """For screen readers, instead of the dots: 18 completed, 1 failed, 1 missed."""
    counts = Counter(each.outcome for each in history)
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    def reader(selection: ScheduleSelection) -> Callable[[], Awaitable[ScheduleList]]:
        after, search, state = selection
        query = schedule_queries.find_statuses(after, SCHEDULES, search=search, state=state)
        return lambda: app.database.aread(query)

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

    async def confirm(action: str, context: Context) -> Response:
        row = await _find(context.field("name") or "")
        back = local_path(context.field("back")) or "/schedules"
        return page(context, "change_schedule.html", action=action, schedule=row, back=back)

    async def change(action: str, context: Context) -> Response:
        name, reason = context.field("name") or "", context.field("reason")
        done = await app.database.arun(schedule_queries.operate(action, name, context.visitor.actor, reason))
        return redirect_back(context, "/schedules", **{"done" if done else "unfit": action})

    async def _find(name: str) -> ScheduleRow:
        found = await app.database.aread(schedule_queries.find_schedules(name))
        if not found:
            raise UnknownSchedule(name)
        return found[0]

    return [
        *LIST.routes(readings, selection_of, reader, template_values),
        RouteSpec("GET", "/schedule", one_schedule, Role.VIEWER),
        *form_routes("/schedules/{action}", ("pause", "resume", "run"), confirm, change),
    ]


def _is_late(schedule: ScheduleStatus, found: ScheduleList) -> bool:
    return schedule.next_at is not None and (found.at - schedule.next_at).total_seconds() > LATE_SECONDS
