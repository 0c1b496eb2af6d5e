"""For unittest: a class to add to a TestCase."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from treadle.app.load import load_app
from treadle.app.treadle import Treadle
from treadle.db.database import Source
from treadle.testing.harness import Harness
from treadle.testing.sessions import Sessions
from treadle.words.errors import InvalidArgument


class TreadleMixin:
    """`class SignupTest(TreadleMixin, unittest.TestCase): treadle_app = "shop.jobs:app"`.

    `self.treadle` is then the Harness of each test, on an empty queue. Also for IsolatedAsyncioTestCase.
    """

    treadle_app: ClassVar[Treadle | str | None] = None
    """The application, or its name."""

    treadle: Harness

    # Of unittest.TestCase.
    enterContext: Callable[[AbstractContextManager[Any]], Any]  # noqa: N815

    def treadle_url(self) -> str | None:
        """The URL of the test database; None: one is created. Override it to use another."""
        return None

    def treadle_connection(self) -> Source | None:
        """The connection of a test that works in one transaction, and rolls it back. Override it to use one."""
        return None

    def setUp(self) -> None:
        app = self.treadle_app
        if app is None:
            raise InvalidArgument(f"{type(self).__name__}.treadle_app must be the application, or module:app")
        if isinstance(app, str):
            app = load_app(app)
        sessions = Sessions.of_process(Path.cwd())
        self.treadle = self.enterContext(sessions.test(app, self.treadle_url(), self.treadle_connection()))
        super().setUp()  # type: ignore[misc]  # of unittest.TestCase
