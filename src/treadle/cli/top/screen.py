"""The application: looks again and again, and does what was asked, once it was said yes to."""

import asyncio
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from treadle.app import Treadle
from treadle.cli.options import whoever
from treadle.cli.top.acts import Act
from treadle.cli.top.job import JobScreen
from treadle.cli.top.looks import AWAY, PATIENCE, Glance, Looks
from treadle.cli.top.parts import Foot, Question
from treadle.cli.top.queue import QueueScreen
from treadle.words.errors import NotAllowed
from treadle.words.phrases import printable


class Top(App[None]):
    TITLE = "treadle top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit"), Binding("ctrl+c", "quit", priority=True)]

    def __init__(self, treadle: Treadle, looks: Looks, where: str, first: Glance) -> None:
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
        self._queue = QueueScreen(self._first)
        self.push_screen(self._queue)
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
            glance = await self.looks.glance()
            if glance is not None and self._queue.is_mounted:
                self._queue.show(glance)
            if isinstance(self.screen, JobScreen):
                await self.screen.look()
