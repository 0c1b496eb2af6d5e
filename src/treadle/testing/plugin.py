"""The pytest plugin: the fixtures `treadle`, `treadle_app`, `treadle_url` and `treadle_connection`.

pytest loads it in every project in whose environment Treadle is installed, so it imports nothing of Treadle before a
test uses a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle
    from treadle.testing.harness import Harness
    from treadle.testing.sessions import Sessions

_NO_APP = (
    'the fixture treadle needs your application: set treadle_app = "shop.jobs:app" under [tool.pytest.ini_options], or '
    "define a fixture treadle_app that returns it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("treadle_app", "the application that the fixture treadle tests, such as shop.jobs:app", default="")


@pytest.fixture(scope="session")
def treadle_app(pytestconfig: pytest.Config) -> "Treadle":
    """The application: that of pytest's setting treadle_app, or of Treadle's setting app, which may be in TREADLE_APP.
    Override it to return another."""
    from treadle.settings import value_of

    return application(pytestconfig.getini("treadle_app") or value_of("app"))


def application(name: str | None) -> "Treadle":
    """The application with this name."""
    from treadle.app.load import load_app

    if not name:
        pytest.fail(_NO_APP, pytrace=False)
    return load_app(name)


@pytest.fixture(scope="session")
def _treadle_sessions(pytestconfig: pytest.Config) -> "Iterator[Sessions]":
    from treadle.testing.sessions import Sessions

    sessions = Sessions(pytestconfig.rootpath / ".treadle")
    yield sessions
    sessions.close()


@pytest.fixture(scope="session")
def treadle_url(_treadle_sessions: "Sessions") -> str:
    """The URL of the test database of this process, with the schema of the queue. Override it to use another, such as
    one that also has the tables of your application; its name has to contain "test"."""
    from treadle.testing.databases import prepare

    prepare(_treadle_sessions.url)
    return _treadle_sessions.url


@pytest.fixture
def treadle_connection() -> Any:
    """None: the queue is emptied before each test. Override it to return the connection on which your tests work and
    roll back; all jobs then are part of its transaction."""
    return None


@pytest.fixture
def treadle(
    request: pytest.FixtureRequest, treadle_app: "Treadle", treadle_connection: Any, _treadle_sessions: "Sessions"
) -> "Iterator[Harness]":
    """The queue of this test: assert_enqueued(), drain(), travel() and more. See docs/testing.md."""
    url = None if treadle_connection is not None else request.getfixturevalue("treadle_url")
    with _treadle_sessions.test(treadle_app, url, treadle_connection) as harness:
        yield harness
