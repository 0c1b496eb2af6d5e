"""Visitors of a dashboard, browsers with cookies and programs with tokens, that call it without a network."""

import asyncio
import re
from typing import Any

import httpx
from starlette.types import ASGIApp

from treadle import Treadle
from treadle.web.dashboard.pages.live.readings import finish_reads

VIEWER = "the secret of the viewers"
OPERATOR = "the secret of the operators"
SECRETS = {"TREADLE_DASHBOARD_VIEWER": VIEWER, "TREADLE_DASHBOARD_OPERATOR": OPERATOR}
HOST = "http://queue.example"


class Site:
    """A dashboard, with one event loop for all of its visitors."""

    def __init__(self, asgi: ASGIApp, app: Treadle) -> None:
        self.asgi = asgi
        self._app = app
        self._runner = asyncio.Runner()

    def browser(self, base: str = HOST) -> "Browser":
        return Browser(self, base)

    def signed_in(self, secret: str, name: str = "Ada") -> "Browser":
        browser = self.browser()
        assert browser.sign_in(secret, name).status_code == 303
        return browser

    def program(self, secret: str) -> "Browser":
        return Browser(self, HOST, authorization=f"Bearer {secret}")

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def close(self) -> None:
        self.run(finish_reads())
        self.run(self._app.database.aclose())
        self._runner.close()


class Browser:
    """Sends what a browser sends: cookies, and the origin of a form."""

    def __init__(self, site: Site, base: str = HOST, **headers: str) -> None:
        self._site = site
        self._base = base
        self.headers = headers
        self.cookies = httpx.Cookies()
        self.csrf_token = ""

    def send(self, method: str, path: str, client: tuple[str, int] = ("192.0.2.1", 1), **more: Any) -> httpx.Response:
        """Sends the request unchanged, without CSRF token and Origin header."""
        answer: httpx.Response = self._site.run(self._send(method, path, client, **more))
        return answer

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, headers={"accept": "text/html", **headers})

    def post(self, path: str, form: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Submits a form of the page that was loaded last."""
        headers = {"origin": self._base, "sec-fetch-site": "same-origin", "accept": "text/html", **headers}
        return self.send("POST", path, data={"csrf_token": self.csrf_token, **(form or {})}, headers=headers)

    def sign_in(self, secret: str, name: str = "Ada", root: str = "") -> httpx.Response:
        self.get(f"{root}/login")
        answer = self.post(f"{root}/login", {"secret": secret, "name": name})
        self.get(f"{root}/login")  # the CSRF token depends on the session
        return answer

    async def _send(self, method: str, path: str, client: tuple[str, int], **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._site.asgi, raise_app_exceptions=False, client=client)
        async with httpx.AsyncClient(
            transport=transport, base_url=self._base, headers=self.headers, cookies=self.cookies
        ) as client_session:
            answer = await client_session.request(method, path, **more)
            self.cookies = client_session.cookies
        if found := re.search(r'name="csrf_token" value="(\w+)"', answer.text):
            self.csrf_token = found[1]
        return answer
