"""The application of the tests of commands that take one."""

from collections.abc import Iterator

import pytest

from tests.support import cli_app
from tests.support.apps import use_database


@pytest.fixture
def database_of_cli_app(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database of the test's own for an application that is imported once."""
    backend = use_database(cli_app.app, url, monkeypatch)
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    yield
    backend.database.close()
