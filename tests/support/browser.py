"""A real browser, headless Chromium, and the errors that it reported."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.web import Server

expect.set_options(timeout=60_000)  # for a machine under load

# Chromium loads the pages behind its address bar, which no test sees, for each tab: 1.3 s of CPU.
UNUSED = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup"

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """The path of an installed Chromium; the one of Playwright is not needed."""
    return os.environ.get("TREADLE_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium cannot use its sandbox as root. It opens only pages of the dashboard.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--disable-features={UNUSED}"]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield browser
        browser.close()


class Visit:
    """A browser tab with a page of the dashboard. `problems` collects errors, warnings and dialogs."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self._server = server
        self.problems: list[str] = []
        page.on("console", self._collect)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        page.set_default_timeout(60_000)

    def go(self, path: str) -> Page:
        self.page.goto(self._server.url + path)
        return self.page

    def live(self, path: str) -> Page:
        """Opens a page and waits until it receives live updates."""
        self.go(path)
        self.page.locator("#connection[data-state=live]").wait_for()
        return self.page

    def _collect(self, message: ConsoleMessage) -> None:
        # Violations of the content security policy are errors too.
        if message.type in ("error", "warning"):
            self.problems.append(message.text)
