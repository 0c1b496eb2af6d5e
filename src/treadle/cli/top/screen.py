"""The Textual application: refreshes its screens at an interval, and carries out actions once they are confirmed.

It knows none of its screens; they know it.
"""

import asyncio
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from treadle.app.treadle import Treadle
from treadle.cli.options import default_actor
from treadle.cli.top.actions import PendingAction
from treadle.cli.top.refresh import TIMEOUT, UNAVAILABLE, Refresher
from treadle.cli.top.widgets import Confirmation, Footer
from treadle.text.masking import masked
from treadle.words.errors import NotAllowed, UnknownLimit, UnknownSchedule
from treadle.words.formatting import printable


class Top(App[None]):
    TITLE = "treadle top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit"), Binding("ctrl+c", "quit", priority=True)]

    def __init__(self, treadle: Treadle, refresher: Refresher, where: str, first: "LiveScreen") -> None:
        super().__init__()
        # The 16 colours of the terminal's own theme, so that it is readable on a light and on a dark background.
        self.theme = "ansi-dark"
        self.treadle = treadle
        self.refresher = refresher
        self.where = where
        self.actor = default_actor("top")
        self._first = first
        self._refresh_requested = asyncio.Event()

    def on_mount(self) -> None:
        self.push_screen(self._first)
        self.run_worker(self._keep_refreshing())

    def refresh_now(self) -> None:
        self._refresh_requested.set()

    def perform(self, action: PendingAction) -> None:
        self.run_worker(self._perform(action))

    async def _perform(self, action: PendingAction) -> None:
        if not await self.push_screen_wait(Confirmation(action.question)):
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                message = action.message(await self.treadle.database.arun(action.query))
        except (NotAllowed, UnknownLimit, UnknownSchedule) as error:
            message = masked(str(error))
        except UNAVAILABLE as error:
            message = (
                f"The change may not have been made: {printable(masked(str(error))) or 'the database did not reply'}"
            )
        self.refresh_now()
        # The topmost footer: the help may be open by now, and has none.
        next(footer for screen in reversed(self.screen_stack) for footer in screen.query(Footer)).show_message(message)

    async def _keep_refreshing(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.refresher.interval):
                    await self._refresh_requested.wait()
            except TimeoutError:
                pass
            self._refresh_requested.clear()
            for screen in list(self.screen_stack):
                if isinstance(screen, LiveScreen):
                    await screen.reload()


class LiveScreen(Screen[None]):
    """A screen that shows the state of the database."""

    app: Top

    async def reload(self) -> None:
        """Query the database and show the result."""
        raise NotImplementedError
