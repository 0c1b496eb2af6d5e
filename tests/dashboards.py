"""Visitors of a dashboard: browsers with cookies, programs with tokens, without a network between."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import httpx
from starlette.types import ASGIApp

from treadle import Treadle

VIEWER = "the secret of those who look"
OPERATOR = "the secret of those who change"
SECRETS = {"TREADLE_DASHBOARD_VIEWER": VIEWER, "TREADLE_DASHBOARD_OPERATOR": OPERATOR}
HOST = "http://queue.example"


class Browser:
    """Sends what a browser does: cookies, and where a form came from."""

    def __init__(self, asgi: ASGIApp, app: Treadle, base: str = HOST, **headers: str) -> None:
        self._transport = httpx.ASGITransport(asgi, raise_app_exceptions=False)
        self._app = app
        self._base = base
        self._headers = headers
        self.cookies = httpx.Cookies()
        self.proof = ""

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """As it is: no proof, no origin."""
        return run(self._app, self._send(method, path, **more))

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, headers={"accept": "text/html", **headers})

    def post(self, path: str, form: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        """As a form of the page that was loaded last."""
        headers = {"origin": _origin(self._base), "sec-fetch-site": "same-origin", "accept": "text/html", **headers}
        return self.send("POST", path, data={"proof": self.proof, **(form or {})}, headers=headers)

    def sign_in(self, secret: str, name: str = "ada", root: str = "") -> httpx.Response:
        self.get(f"{root}/login")
        answer = self.post(f"{root}/login", {"secret": secret, "name": name})
        self.get(f"{root}/login")  # with the proof of the one who is signed in
        return answer

    async def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=self._transport, base_url=self._base, headers=self._headers, cookies=self.cookies
        ) as client:
            answer = await client.request(method, path, **more)
            self.cookies = client.cookies
        if found := re.search(r'name="proof" value="(\w+)"', answer.text):
            self.proof = found[1]
        return answer


def token(asgi: ASGIApp, app: Treadle, secret: str, base: str = HOST) -> Browser:
    """A program."""
    return Browser(asgi, app, base, authorization=f"Bearer {secret}")


def run(app: Treadle, asked: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
    async def asking() -> httpx.Response:
        try:
            return await asked
        finally:
            await app.database.aclose()  # a pool lives and dies with its event loop

    return asyncio.run(asking())


def _origin(base: str) -> str:
    return str(httpx.URL(base).copy_with(path="/")).rstrip("/")
