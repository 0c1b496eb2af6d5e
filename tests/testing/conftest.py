"""A test database with a clock that can be moved, for all tests of this folder, and a harness on it."""

import os
from collections.abc import Iterator

import pytest

from tests.conftest import SERVER, TEMPLATE
from tests.support.databases import create_database
from tests.support.sessions import Sessions as ServerSessions
from tests.support.sessions import continue_sessions
from treadle import Treadle
from treadle.testing import Harness, prepare
from treadle.testing.sessions import Sessions

# The tests of a user, which test_plugin.py runs.
collect_ignore = ["project"]


@pytest.fixture(scope="session")
def prepared_url() -> Iterator[str]:
    for url in create_database(os.environ[SERVER], os.environ[TEMPLATE]):
        prepare(url)
        sessions = ServerSessions(url)
        with pytest.MonkeyPatch.context() as monkeypatch:
            continue_sessions(sessions, monkeypatch)
            yield url
        sessions.close()


@pytest.fixture
def app(prepared_url: str) -> Treadle:
    """An application that knows nothing of the test database."""
    return Treadle("postgresql://nobody@production.invalid/shop")


@pytest.fixture
def harness(app: Treadle, prepared_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    sessions = Sessions(tmp_path_factory.getbasetemp())
    with sessions.test(app, prepared_url) as harness:
        yield harness
    sessions.close()
