"""Fixtures for tests of the dashboard; conftest.py imports them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from treadle import Treadle

if TYPE_CHECKING:
    # The browser driver and the web server are slow to import, so only the tests that need them import them.
    from playwright.sync_api import Browser

    from tests.support.browser import Visit
    from tests.support.dashboards import Browser as Visitor
    from tests.support.dashboards import Site
    from tests.support.web import Server

Theme = Literal["light", "dark"]

NO_CHROMIUM = "the dashboard in a browser: Chromium is not installed (on Debian: apt-get install chromium)"


@pytest.fixture
def site(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> Iterator["Site"]:
    """A dashboard with a secret for each role."""
    from tests.support.dashboards import SECRETS, Site
    from treadle.web import dashboard_app

    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    site = Site(dashboard_app(app), app)
    yield site
    site.close()


@pytest.fixture
def operator(site: "Site") -> "Visitor":
    """A browser that is signed in as operator."""
    from tests.support.dashboards import OPERATOR

    return site.signed_in(OPERATOR)


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """Per module, not per session: while it exists, this thread has an event loop, and other tests need their own."""
    from tests.support import browser as browsing

    if browsing.find_chromium() is None:
        pytest.skip(NO_CHROMIUM)
    with browsing.chromium() as browser:
        yield browser


@pytest.fixture
def dashboard(app: Treadle) -> Iterator["Server"]:
    """A dashboard server without secrets, as `treadle dashboard` starts it on a loopback address."""
    from tests.support.web import serving
    from treadle.web.dashboard import dashboard_app
    from treadle.web.dashboard.security.local_only import local_only

    with serving(dashboard_app(app, authorize=local_only)) as server:
        yield server


@pytest.fixture
def theme() -> Theme:
    return "light"


@pytest.fixture
def visit(chromium: "Browser", dashboard: "Server", theme: Theme) -> Iterator["Visit"]:
    from tests.support.browser import Visit

    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme, locale="en-GB")
    visit = Visit(context.new_page(), dashboard)
    yield visit
    context.close()
    assert visit.problems == []
