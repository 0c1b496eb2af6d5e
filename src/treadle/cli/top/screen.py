"""The application: reloads its screens again and again, and carries out changes once they are confirmed.

It knows none of its screens; they know it.
"""

import asyncio
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from treadle.app import Treadle
from treadle.cli.options import whoever
from treadle.cli.top.acts import Act
from treadle.cli.top.looks import AWAY, PATIENCE, Looks
from treadle.cli.top.parts import Foot, Question
from treadle.words.errors import NotAllowed
from treadle.words.phrases import printable


class Top(App[None]):
    TITLE = "treadle top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit"), Binding("ctrl+c", "quit", priority=True)]

    def __init__(self, treadle: Treadle, looks: Looks, where: str, first: "LiveScreen") -> None:
        super().__init__()
        # The terminal's own colours, which somebody has chosen, light or dark.
        self.theme = "ansi-dark"
        self.treadle = treadle
        self.looks = looks
        self.where = where
        self.who = whoever("top")
        self._first = first
        self._soon = asyncio.Event()

    def on_mount(self) -> None:
        self.push_screen(self._first)
        self.run_worker(self._watch())

    def look_now(self) -> None:
        self._soon.set()

    def perform(self, act: Act) -> None:
        self.run_worker(self._perform(act))

    async def _perform(self, act: Act) -> None:
        if not await self.push_screen_wait(Question(act.question)):
            return
        try:
            async with asyncio.timeout(PATIENCE):
                said = act.said(await self.treadle.database.arun(act.query))
        except NotAllowed as error:
            said = str(error)
        except AWAY as error:
            said = f"it may not have been done: {printable(str(error)) or 'no answer'}"
        self.look_now()
        # Help may have been opened meanwhile, which has none.
        next(foot for screen in reversed(self.screen_stack) for foot in screen.query(Foot)).say(said)

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.looks.spacing):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            for screen in list(self.screen_stack):
                if isinstance(screen, LiveScreen):
                    await screen.reload()


class LiveScreen(Screen[None]):
    """A screen of the application that shows what is in the database."""

    app: Top

    async def reload(self) -> None:
        """Query the database and show what it has now."""
        raise NotImplementedError
