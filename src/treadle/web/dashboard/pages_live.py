"""What open pages hear: server-sent events with the parts that have changed, rendered as the pages are."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from treadle.app import Treadle
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.live import Away, Glance, Gone, JobNews, JobPage, Live, OverviewPage
from treadle.web.dashboard.pages_job import id_of, now, state
from treadle.web.dashboard.pages_overview import regions, window_of
from treadle.web.dashboard.render import fragment
from treadle.web.dashboard.routes import Asked, Rule
from treadle.web.frames import frame
from treadle.web.stream import EventStream
from treadle.words.masking import masked

_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,9})")


class Painted:
    """The newest glance of each window, rendered once for all that look at it."""

    def __init__(self) -> None:
        self._painted: dict[tuple[int, Role, str], tuple[Glance, dict[str, str]]] = {}

    def __call__(self, window: int, role: Role, root: str, glance: Glance) -> dict[str, str]:
        painted = self._painted.get((window, role, root))
        if painted is None or painted[0] is not glance:
            painted = self._painted[window, role, root] = (glance, regions(root, role, glance))
        return painted[1]


def veiled_news(news: JobNews) -> JobNews:
    return masked(news)


def rules(app: Treadle, live: Live) -> list[Rule]:
    painted = Painted()

    async def overview(asked: Asked) -> Response:
        return EventStream(_overview(OverviewPage(window_of(asked)), asked))

    async def job(asked: Asked) -> Response:
        heard = _CURSOR.fullmatch(asked.request.headers.get("last-event-id") or asked.field("after") or "")
        event, line = map(int, heard.groups()) if heard else (0, 0)
        return EventStream(_job(JobPage(id_of(asked), event, line), asked))

    async def _overview(page: OverviewPage, asked: Asked) -> AsyncGenerator[bytes, None]:
        sent: dict[str, str] = {}
        async with aclosing(live.overview(page)) as coming:
            async for news in coming:
                if isinstance(news, Away):
                    yield frame("away", {})
                    continue
                parts = painted(page.window, asked.visitor.role, asked.url(""), news)
                changed = {name: part for name, part in parts.items() if sent.get(name) != part}
                sent = parts
                yield frame("regions", {"at": news.seen.at, "html": changed})

    async def _job(page: JobPage, asked: Asked) -> AsyncGenerator[bytes, None]:
        root, role = asked.url(""), asked.visitor.role
        sent: object = None
        async with aclosing(live.job(page)) as coming:
            async for news in coming:
                if isinstance(news, JobNews):
                    job = news.seen._replace(at=news.seen.run_at)  # the clock alone is no change
                    if job == sent and not (news.events or news.logs):
                        yield frame("regions", {"at": news.seen.at, "html": {}})
                        continue
                    sent = job
                    yield frame("job", _told(root, role, news), news.cursor)
                else:
                    yield frame("gone" if isinstance(news, Gone) else "away", {})
        yield frame("end", {})

    def _told(root: str, role: Role, given: JobNews) -> dict[str, object]:
        news = veiled_news(given)
        return {
            "at": news.seen.at,
            "state": state(news.seen),
            "html": {"now": now(root, role, news.seen)},
            "append": {
                "events": fragment(root, role, "parts/events.html", events=news.events),
                "logs": fragment(root, role, "parts/logs.html", logs=news.logs),
            },
        }

    return [
        Rule("GET", "/live/overview", overview, Role.VIEWER, "What changes on the overview, as server-sent events"),
        Rule("GET", "/live/jobs/{id}", job, Role.VIEWER, "What changes of a job, as server-sent events"),
    ]
