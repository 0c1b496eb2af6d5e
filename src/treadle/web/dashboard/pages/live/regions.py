"""The stream of a page whose parts are rendered from one reading."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple, TypeVar

from treadle.web.dashboard.pages.live.readings import Reading, Unavailable
from treadle.web.dashboard.routes import Context
from treadle.web.dashboard.security.access import Role
from treadle.web.frames import frame
from treadle.web.stream import EventStream

Value = TypeVar("Value")


class Regions(NamedTuple):
    """The parts of a page that change, by their element ids."""

    at: datetime | None
    """When they were read, by the database's clock."""
    html: dict[str, str]
    title: str | None = None
    """Of the page; None: it does not change."""


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
