"""A real browser: Debian's Chromium without a screen, and what it complained about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.web import Server

expect.set_options(timeout=60_000)  # for a machine that is busy with other things

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> str | None:
    """Where a Chromium is; playwright's own is not needed."""
    return os.environ.get("TREADLE_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without a sandbox, which it cannot have as root: it sees nothing but our own pages.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=found(), args=arguments)
        yield browser
        browser.close()


class Visit:
    """A page of the dashboard in a browser."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self._server = server
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        page.set_default_timeout(60_000)

    def go(self, path: str) -> Page:
        self.page.goto(self._server.url + path)
        return self.page

    def live(self, path: str) -> Page:
        """Opened, and connected."""
        self.go(path)
        self.page.locator("#connection[data-state=live]").wait_for()
        return self.page

    def _hear(self, message: ConsoleMessage) -> None:
        # Also where the policy that forbids inline script and style is broken.
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)
