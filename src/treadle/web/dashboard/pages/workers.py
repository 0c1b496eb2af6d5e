"""The list of workers, and the form that changes the concurrency of one."""

import re
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries import operations as operation_queries
from treadle.text.masking import masked
from treadle.text.stuck import continue_children, describe_stopped, describe_stuck, summarize_stopped, unblock
from treadle.web.dashboard.pages.forms import redirect_back
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import LivePage, everything
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.errors import InvalidArgument, UnknownWorker, shown
from treadle.words.naming import MOST_CONCURRENCY
from treadle.words.overview import WorkerRow

# Lost workers that are listed.
MAX_LOST = 50


LIST = LivePage("/workers", "workers.html", {"worker-list": "parts/worker_list.html"})


def template_values(workers: list[WorkerRow], selection: None = None) -> dict[str, Any]:
    shown = [masked(each) for each in workers]
    ended = [each for each in shown if each.state == "lost"]
    return {
        "at": workers[0].at if workers else None,
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
    async def concurrency_form(context: Context) -> Response:
        name = context.field("worker") or ""
        found = [each for each in await app.workers.alist() if each.alive and each.worker_id == name]
        if not found or found[0].initial_concurrency is None:
            raise UnknownWorker(name)
        return page(context, "change_concurrency.html", worker=found[0], most=MOST_CONCURRENCY)

    async def change_concurrency(context: Context) -> Response:
        name, number = context.field("worker") or "", None if context.field("reset") else _number(context)
        query = operation_queries.set_concurrency(name, number, context.visitor.actor, context.field("reason"))
        done = await app.database.arun(query)
        return redirect_back(context, "/workers", **{"done" if done else "unfit": "concurrency"})

    return [
        *LIST.routes(readings, everything, lambda _: app.workers.alist, template_values),
        RouteSpec("GET", "/workers/concurrency", concurrency_form, Role.OPERATOR),
        RouteSpec("POST", "/workers/concurrency", change_concurrency, Role.OPERATOR),
    ]


def _number(context: Context) -> int:
    given = context.field("concurrency") or ""
    if re.fullmatch(r"[+-]?[0-9]{1,10}", given, re.ASCII) is None:
        raise InvalidArgument(f"concurrency must be an integer from 0 to {MOST_CONCURRENCY:,}, got {shown(given)}")
    return int(given)
