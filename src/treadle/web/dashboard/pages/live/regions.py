"""Pages that stay up to date: their regions are rendered from one reading, for all visitors of the same role."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from starlette.responses import Response

from treadle.web.dashboard.pages.live.readings import Reading, Readings, Unavailable
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.stream import EventStream, frame

Selection = TypeVar("Selection")
Value = TypeVar("Value")


class Regions(NamedTuple):
    """The parts of a page that change, by their element ids."""

    at: datetime | None
    """When they were read, by the database's clock."""
    html: dict[str, str]
    title: str | None = None
    """Of the page; None: it does not change."""


class LivePage(NamedTuple):
    """The routes of a page, and of its live updates."""

    path: str
    template: str
    regions: Mapping[str, str]
    """By the ids of their elements, the templates of the regions that change."""
    seconds: float | None = None
    """How often it is read; None: as often as most pages."""
    takes_turns: bool = True

    def routes(
        self,
        readings: Readings,
        select: Callable[[Context], Awaitable[Selection]],
        reader: Callable[[Selection], Callable[[], Awaitable[Value]]],
        values: Callable[[Value, Selection], dict[str, Any]],
        fresh: Callable[[Selection], Callable[[], Awaitable[Value]]] | None = None,
    ) -> list[RouteSpec]:
        """`select`: what the address asks for; pages that ask for the same share what is read. `reader` raises an error
        at once if that is invalid. `values`: those of the templates, with the time of the reading as `at`. `fresh`:
        reads what a visitor loads, if updates are made of what other pages have read."""

        async def show(context: Context) -> Response:
            selection = await select(context)
            return page(context, self.template, **values(await (fresh or reader)(selection)(), selection))

        async def live(context: Context) -> Response:
            selection = await select(context)
            read = reader(selection)  # refuses an invalid selection before the stream begins

            def render(mount_path: str, role: Role, found: Value) -> Regions:
                return rendered(mount_path, role, self.regions, values(found, selection))

            updates = readings.follow((self.path, selection), read, self.seconds, self.takes_turns)
            return stream_regions(context, updates, render)

        return [
            RouteSpec("GET", self.path, show, Role.VIEWER),
            RouteSpec("GET", f"/live{self.path}", live, Role.VIEWER),
        ]


async def everything(context: Context) -> None:
    """The selection of a page that always shows the same."""


def rendered(mount_path: str, role: Role, regions: Mapping[str, str], values: dict[str, Any]) -> Regions:
    html = {name: fragment(mount_path, role, template, **values) for name, template in regions.items()}
    return Regions(values["at"], html, values.get("title"))


def stream_regions(
    context: Context,
    updates: AsyncGenerator[Reading[Value] | Unavailable, None],
    render: Callable[[str, Role, Value], Regions],
) -> EventStream:
    """Sends the regions that have changed. They are rendered once for all visitors of the same role: `render` gets the
    path where the dashboard is mounted, the role and the value."""
    return EventStream(_frames(updates, render, context.url(""), context.visitor.role))


async def _frames(
    updates: AsyncGenerator[Reading[Value] | Unavailable, None],
    render: Callable[[str, Role, Value], Regions],
    mount_path: str,
    role: Role,
) -> AsyncGenerator[bytes, None]:
    sent: dict[str, str] = {}
    async with aclosing(updates):
        async for update in updates:
            if isinstance(update, Unavailable):
                yield frame("unavailable", {"reason": update.reason})
                continue
            kind = mount_path, role
            regions: Regions = update.rendered(kind, lambda value: render(mount_path, role, value))
            changed = {name: html for name, html in regions.html.items() if sent.get(name) != html}
            sent = regions.html
            title = {} if regions.title is None else {"title": regions.title}
            yield frame("regions", {"at": regions.at, "html": changed, **title})
