"""The list of workers, and the form that changes the concurrency of one."""

import re
from datetime import timedelta
from typing import Any

from starlette.responses import RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.text.masking import masked
from treadle.text.stuck import continue_children, describe_stopped, describe_stuck, summarize_stopped, unblock
from treadle.web.dashboard import actions
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import with_result
from treadle.words.errors import InvalidArgument, UnknownWorker, shown
from treadle.words.naming import MOST_CONCURRENCY
from treadle.words.overview import WorkerRow

# Lost workers that are listed.
MAX_LOST = 50


def render_regions(mount_path: str, role: Role, workers: list[WorkerRow]) -> Regions:
    html = fragment(mount_path, role, "parts/worker_list.html", **template_values(workers))
    return Regions(workers[0].at if workers else None, {"worker-list": html})


def template_values(workers: list[WorkerRow]) -> dict[str, Any]:
    shown = [masked(each) for each in workers]
    ended = [each for each in shown if each.state == "lost"]
    return {
        "workers": [each for each in shown if each.state != "lost"],
        "lost": ended[:MAX_LOST],
        "more_lost": len(ended) - MAX_LOST,
        "describe_stuck": describe_stuck,
        "describe_stopped": describe_stopped,
        "summarize_stopped": summarize_stopped,
        "continue_children": _continue_children,
        "unblock": unblock,
        "lease_end": lambda worker: worker.seen_at + timedelta(seconds=worker.lease),
    }


def _continue_children(worker: WorkerRow) -> str:
    return continue_children(*((each, worker.host) for each in worker.stopped_children))


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    async def workers(context: Context) -> Response:
        return page(context, "workers.html", **template_values(await app.workers.alist()))

    async def live(context: Context) -> Response:
        return stream_regions(context, readings.follow("workers", app.workers.alist), render_regions)

    async def concurrency_form(context: Context) -> Response:
        name = context.field("worker") or ""
        found = [each for each in await app.workers.alist() if each.alive and each.worker_id == name]
        if not found or found[0].initial_concurrency is None:
            raise UnknownWorker(name)
        return page(context, "change_concurrency.html", worker=found[0], most=MOST_CONCURRENCY)

    async def change_concurrency(context: Context) -> Response:
        name, number = context.field("worker") or "", None if context.field("reset") else _number(context)
        done = await actions.set_concurrency(app, context.visitor, name, number, context.field("reason"))
        result = {"done" if done else "unfit": "concurrency"}
        return RedirectResponse(context.url(with_result("/workers", **result)), 303)

    return [
        RouteSpec("GET", "/workers", workers, Role.VIEWER, "Workers"),
        RouteSpec("GET", "/live/workers", live, Role.VIEWER, "Live updates of the workers"),
        RouteSpec("GET", "/workers/concurrency", concurrency_form, Role.OPERATOR, "Confirm another concurrency"),
        RouteSpec("POST", "/workers/concurrency", change_concurrency, Role.OPERATOR, actions.CONCURRENCY_SUMMARY),
    ]


def _number(context: Context) -> int:
    given = context.field("concurrency") or ""
    if re.fullmatch(r"[+-]?[0-9]{1,10}", given, re.ASCII) is None:
        raise InvalidArgument(f"concurrency must be an integer from 0 to {MOST_CONCURRENCY:,}, got {shown(given)}")
    return int(given)
