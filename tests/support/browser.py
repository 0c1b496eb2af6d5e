"""A real browser, headless Chromium, and the errors that it reported."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, expect, sync_playwright

from tests.support.web import Server

expect.set_options(timeout=60_000)  # for a machine under load

# Chromium loads the pages behind its address bar, which no test sees, for each tab: 1.3 s of CPU. With RenderDocument,
# it replaces the frame for each page of a site, too: a sixth of the CPU of loading a page. It also starts a spare
# process for the next site, which never comes: another sixth.
UNUSED = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,RenderDocument,SpareRendererForSitePerProcess"

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


class Chromium:
    """The browser of a test process. Starting it takes 1.6 s of CPU, so the next module continues it."""

    def __init__(self) -> None:
        self._resources = ExitStack()
        self._browser: Browser | None = None

    def open(self) -> Browser:
        if self._browser is None:
            self._browser = self._resources.enter_context(chromium())
        return self._browser

    def close(self) -> None:
        self._resources.close()
        self._browser = None


class Visit:
    """A browser tab with a page of the dashboard. `problems` collects errors, warnings and dialogs."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self._server = server
        self.problems: list[str] = []
        page.on("console", self._collect)
        page.on("pageerror", self._collect_error)
        page.on("dialog", self._collect_dialog)
        page.set_default_timeout(60_000)

    def end(self) -> None:
        """Leaves the tab as it was."""
        self.page.unroute_all()
        self.page.goto("about:blank")
        self.page.remove_listener("console", self._collect)
        self.page.remove_listener("pageerror", self._collect_error)
        self.page.remove_listener("dialog", self._collect_dialog)

    def go(self, path: str, until: Literal["commit", "load"] = "load") -> Page:
        self.page.goto(self._server.url + path, wait_until=until)
        return self.page

    def live(self, path: str) -> Page:
        """Opens a page and waits until it receives live updates."""
        self.go(path)
        self.page.locator("#connection[data-state=live]").wait_for()
        return self.page

    def press(self, *keys: str) -> None:
        """Presses keys in a page that was just opened: before its scripts have run, it has no shortcuts."""
        self.page.wait_for_load_state()
        for key in keys:
            self.page.keyboard.press(key)

    def _collect(self, message: ConsoleMessage) -> None:
        # Violations of the content security policy are errors too.
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _collect_error(self, error: Error) -> None:
        self.problems.append(str(error))

    def _collect_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
