"""Fixtures for tests of the dashboard; conftest.py imports them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from treadle import Treadle

if TYPE_CHECKING:
    # The browser driver and the web server are slow to import, so only the tests that need them import them.
    from playwright.sync_api import Browser, Page

    from tests.support.browser import Chromium, Visit
    from tests.support.dashboards import Browser as Visitor
    from tests.support.dashboards import Site
    from tests.support.web import Server

Theme = Literal["light", "dark"]

# While the fixtures of a test are torn down: the test that this process runs next.
NEXT_TEST = pytest.StashKey[pytest.Function | None]()

NO_CHROMIUM = "the dashboard in a browser: Chromium is not installed (on Debian: apt-get install chromium)"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `unhurried` in conftest.py, for a module that is slow to import."""
    from treadle.web.dashboard import routes

    monkeypatch.setattr(routes, "PAGE_SECONDS", 60.0)


@pytest.fixture
def site(app: Treadle, monkeypatch: pytest.MonkeyPatch, patient: None) -> Iterator["Site"]:
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


@pytest.fixture(scope="session")
def session_chromium() -> Iterator["Chromium"]:
    from tests.support.browser import Chromium

    chromium = Chromium()
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def chromium(request: pytest.FixtureRequest, session_chromium: "Chromium") -> Iterator["Browser"]:
    """It stays open if the next module needs it too. Otherwise it is closed: while it exists, this thread has an event
    loop, and other tests need their own."""
    from tests.support.browser import find_chromium

    if find_chromium() is None:
        pytest.skip(NO_CHROMIUM)
    yield session_chromium.open()
    following = request.session.stash.get(NEXT_TEST, None)
    if following is None or "chromium" not in following.fixturenames:
        session_chromium.close()


@pytest.fixture
def dashboard(app: Treadle, monkeypatch: pytest.MonkeyPatch, patient: None) -> Iterator["Server"]:
    """A dashboard server without secrets, as `treadle dashboard` starts it on a loopback address. It updates open pages
    more often, so that tests wait less."""
    from tests.support.web import serving
    from treadle.web.dashboard import dashboard_app
    from treadle.web.dashboard.pages.live import jobs, readings, shared
    from treadle.web.dashboard.security.local_only import local_only

    monkeypatch.setattr(jobs, "JOB_SECONDS", 0.2)
    monkeypatch.setattr(readings, "SECONDS", 0.4)
    monkeypatch.setattr(shared, "LONG_SECONDS", 60.0)
    with serving(dashboard_app(app, authorize=local_only)) as server:
        yield server


@pytest.fixture
def theme() -> Theme:
    return "light"


@pytest.fixture(scope="module")
def tab(chromium: "Browser") -> Iterator["Page"]:
    """One for all tests of a module: opening one takes longer than most of them do."""
    with chromium.new_context(locale="en-GB") as context:
        yield context.new_page()


@pytest.fixture
def visit(tab: "Page", dashboard: "Server", theme: Theme) -> Iterator["Visit"]:
    """A visit by somebody who was never there."""
    from tests.support.browser import Visit

    tab.context.clear_cookies()
    tab.emulate_media(color_scheme=theme)
    tab.set_viewport_size({"width": 1280, "height": 900})
    visit = Visit(tab, dashboard)
    yield visit
    visit.end()
    assert visit.problems == []
