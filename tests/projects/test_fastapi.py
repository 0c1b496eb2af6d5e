"""The short form of `make integrations`: the shop with FastAPI, with the sources instead of the wheel."""

from pathlib import Path

import pytest

from tests.integrations.environment import ThisEnvironment
from tests.integrations.fastapi import copied, run_tests, use


def test_the_tests_of_the_shop_pass(tmp_path: Path, server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other plugins of this environment take longer to load than the tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    run_tests(ThisEnvironment(), copied(tmp_path), server_url, "-p", "treadle")


@pytest.mark.long
def test_people_use_the_shop_over_http(tmp_path: Path, empty_url: str) -> None:
    """An order and its job are one transaction, progress is streamed, the dashboard has the authentication of the shop,
    and a server that is stopped gives back its jobs."""
    use(ThisEnvironment(), copied(tmp_path), empty_url)
