"""What the tests of a process share: their database, and the applications that use it."""

import atexit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from treadle.app.treadle import Treadle
from treadle.db.database import Source
from treadle.testing.databases import own_database
from treadle.testing.harness import Harness, Stage, rolled_back

# Applications that are kept on their database, with their connections. Some projects make one for each test.
MOST = 4


class Sessions:
    _of_process: ClassVar["Sessions | None"] = None

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the embedded server."""
        self._folder = folder
        self._stack = ExitStack()
        self._url: str | None = None
        self._stages: dict[tuple[int, str], Stage] = {}

    @classmethod
    def of_process(cls, folder: Path) -> "Sessions":
        """For test runners that do not say when they end."""
        if cls._of_process is None:
            cls._of_process = cls(folder / ".treadle")
            atexit.register(cls._of_process.close)
        return cls._of_process

    @property
    def url(self) -> str:
        """A database of this process, created when it is first needed."""
        if self._url is None:
            self._url = self._stack.enter_context(own_database(self._folder))
        return self._url

    @contextmanager
    def test(self, app: Treadle, url: str | None = None, connection: Source | None = None) -> Iterator[Harness]:
        """For one test: on an empty queue in this database, or in the transaction of this connection."""
        if connection is not None:
            with rolled_back(app, connection) as harness:
                yield harness
            return
        url = url or self.url
        with self._stage(app, url).test() as harness:
            yield harness

    def _stage(self, app: Treadle, url: str) -> Stage:
        stage = self._stages.get((id(app), url))
        if stage is None:
            if len(self._stages) == MOST:
                self._stages.pop(next(iter(self._stages))).close()
            stage = self._stages[id(app), url] = Stage(app, url)
        return stage

    def close(self) -> None:
        for stage in reversed(self._stages.values()):
            stage.close()
        self._stages.clear()
        self._stack.close()


@contextmanager
def harness_for(app: Treadle, *, url: str | None = None, connection: Source | None = None) -> Iterator[Harness]:
    """For one test, where there are no fixtures: `with harness_for(app) as treadle: …`.

    The database is that of `url`, whose name has to contain "test"; by default, one is created. With `connection`, all
    jobs are part of its transaction, which you roll back; call prepare() for its database before.
    """
    with Sessions.of_process(Path.cwd()).test(app, url, connection) as harness:
        yield harness
