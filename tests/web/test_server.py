"""Serving the dashboard: on loopback addresses without secrets, on any address with them, and mounted."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from tests.support.dashboard_requests import request
from tests.support.dashboards import OPERATOR, SECRETS, Browser, Site
from treadle import JobQueue, Treadle
from treadle.cli import main
from treadle.web import Role, Visitor, dashboard_app
from treadle.web.dashboard import server
from treadle.web.dashboard.security.local_only import local_only
from treadle.web.stream import EventStream


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, bool]]:
    """The address and whether there are secrets, for each call of serve(); nothing listens."""
    found: list[tuple[Any, bool]] = []

    def serve(app: Treadle, address: Any, port: int, with_secrets: bool) -> int:
        found.append((address, with_secrets))
        return 0

    monkeypatch.setattr(server, "serve", serve)
    return found


def start(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["dashboard", "--database-url", "postgresql://nowhere/x", *arguments])


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Makes the name queue.example resolve to these addresses."""
    real = socket.getaddrinfo

    def found(host: Any, *more: Any, **kind: Any) -> Any:
        if host != "queue.example":
            return real(host, *more, **kind)
        return [answer for each in addresses for answer in real(each, *more, **kind)]

    monkeypatch.setattr(socket, "getaddrinfo", found)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.7.7", "10.0.0.1", "fd00::1", "0", "::ffff:192.168.7.7"])
def test_other_addresses_require_secrets(served: list[Any], monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    result = start("--host", host)
    assert result.exit_code == 1
    assert "can be reached from other machines" in result.output
    assert "TREADLE_DASHBOARD_OPERATOR" in result.output
    assert served == []
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert start("--host", host).exit_code == 0
    assert [with_secrets for _, with_secrets in served] == [True]


@pytest.mark.parametrize("addresses", [["192.168.7.7"], ["127.0.0.1", "192.168.7.7"], ["::"]])
def test_names_of_other_addresses_require_secrets(
    served: list[Any], monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    resolve_to(monkeypatch, *addresses)
    result = start("--host", "queue.example")
    assert (result.exit_code, served) == (1, [])
    assert "queue.example can be reached from other machines" in result.output


def test_the_checked_address_is_the_one_listened_on(served: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.3")
    assert start("--host", "queue.example").exit_code == 0
    ((address, with_secrets),) = served
    assert (address.host, with_secrets) == ("127.0.0.3", False)
    with server._listen(address, 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.3"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_loopback_addresses_need_no_secrets(served: list[Any], host: str) -> None:
    assert start("--host", host).exit_code == 0
    assert [with_secrets for _, with_secrets in served] == [False]


@pytest.mark.parametrize("host", ["", "no.such.name.invalid", "a" * 300, "\x00"])
def test_a_host_that_cannot_be_resolved(served: list[Any], monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    if host.endswith("invalid"):
        monkeypatch.setattr(socket, "getaddrinfo", unknown)  # no query over the network
    result = start("--host", host)
    assert (result.exit_code, served) == (1, [])
    assert "Traceback" not in result.output
    assert "cannot resolve" in result.output


@pytest.mark.parametrize(
    ("secret", "sentence"), [("short", "at least 12 characters, got 5"), ("", "set but empty"), (" ", "set but empty")]
)
def test_invalid_secrets_are_refused(
    served: list[Any], monkeypatch: pytest.MonkeyPatch, secret: str, sentence: str
) -> None:
    monkeypatch.setenv("TREADLE_DASHBOARD_OPERATOR", secret)
    for host in ("127.0.0.1", "0.0.0.0"):
        result = start("--host", host)
        assert (result.exit_code, served) == (1, [])
        assert sentence in result.output


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(Exception, match=r"cannot listen on 127\.0\.0\.1, port"):
            server._listen(server.resolve("127.0.0.1")[0], taken.getsockname()[1])


def connection_to(host: str | None, client: str = "127.0.0.1", version: str = "1.1", **headers: str) -> HTTPConnection:
    given = {} if host is None else {"host": host}
    return HTTPConnection(
        {
            "type": "http",
            "http_version": version,
            "client": (client, 1),
            "headers": [(name.encode(), value.encode()) for name, value in {**given, **headers}.items()],
        }
    )


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:8000"])
def test_local_visitors_are_operators(host: str) -> None:
    assert local_only(connection_to(host)) == Visitor(Role.OPERATOR, "this machine")
    assert local_only(connection_to(host, "::1")).role is Role.OPERATOR


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8000", "localhost.evil.example", "localhost@evil.example",
        "192.168.7.7", "[::]", "127.0.0.1.evil.example", "127.0.0.1:80@evil.example",
        "[::1].evil.example", "::1", "[::ffff:127.0.0.1]x",
        "localhost:", "localhost:port", "localhost,evil.example", "127.1", "0x7f000001", "2130706433", "0.0.0.0",
    ],
)  # fmt: skip
def test_other_host_names_are_refused(host: str | None) -> None:
    with pytest.raises(HTTPException, match="only requests from this machine"):
        local_only(connection_to(host))


def test_requests_through_a_proxy_are_refused() -> None:
    for name in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host", "x-forwarded-proto"):
        with pytest.raises(HTTPException):
            local_only(connection_to("localhost", **{name: "192.0.2.1"}))
    for connection in (connection_to("localhost", "192.0.2.1"), connection_to("localhost", version="1.0")):
        with pytest.raises(HTTPException):
            local_only(connection)


def test_other_sites_cannot_change_jobs_on_a_local_dashboard(app: Treadle, queue: JobQueue) -> None:
    site = Site(dashboard_app(app, authorize=local_only), app)
    job = queue.enqueue("films")
    here: dict[str, Any] = {"client": ("127.0.0.1", 1)}
    try:
        cookie = {"host": "localhost:8000", "cookie": "treadle_browser=x"}
        evil = cookie | {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        assert site.run(request(site.asgi, "POST", f"/jobs/{job}/cancel", evil, {}, **here)).status == 403
        rebound = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
        assert site.run(request(site.asgi, "GET", "/api/jobs", rebound, **here)).status == 403
        assert site.run(request(site.asgi, "GET", "/api/jobs", {"host": "localhost:8000"}, **here)).status == 200
    finally:
        site.close()
    assert queue.get(job).status == "pending"


@pytest.fixture
def mounted(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    site = Site(Starlette(routes=[Mount("/queue", dashboard_app(app))]), app)
    yield site
    site.close()


def test_all_urls_include_the_mount_path(mounted: Site, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    browser: Browser = mounted.browser()
    assert browser.get("/queue/?window=3600").headers["location"] == "/queue/login?back=/%3Fwindow%3D3600"
    page = browser.get("/queue/login")
    assert 'action="/queue/login"' in page.text
    assert 'href="/queue/assets/style.css"' in page.text
    assert "path=/queue;" in page.headers["set-cookie"].lower()
    browser.get("/queue/login")
    answer = browser.post("/queue/login", {"secret": OPERATOR, "back": f"/jobs/{job}"})
    assert answer.headers["location"] == f"/queue/jobs/{job}"
    browser.get("/queue/login")
    assert browser.post(f"/queue/jobs/{job}/cancel").headers["location"] == f"/queue/jobs/{job}?done=cancel"
    assert browser.get("/queue/api/openapi.json").json()["servers"] == [{"url": "/queue"}]
    assert browser.get("/queue/api/jobs").status_code == 200
    assert browser.get("/queue/api/nothing").json() == {"error": "Not Found"}
    assert browser.post("/queue/logout").headers["location"] == "/queue/login"
    assert list(browser.cookies) == []


def test_parameters_in_the_mount_path_are_escaped(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    site = Site(Starlette(routes=[Mount("/{tenant}", dashboard_app(app))]), app)
    try:
        for tenant in ("a%3b%20domain=evil.example", "a%0d%0ax-evil:1", "%22%3e%3cscript%3e", "a%20b"):
            page = site.run(request(site.asgi, "GET", f"/{tenant}/login"))
            cookie = page.headers["set-cookie"]
            attributes = [part.strip().partition("=")[0].lower() for part in cookie.split(";")]
            assert attributes == ["treadle_browser", "httponly", "path", "samesite"]
            assert cookie.isprintable()
            assert "x-evil" not in page.headers
            assert "<script>" not in page.text
    finally:
        site.close()


def test_without_secrets_access_is_denied(app: Treadle) -> None:
    site = Site(dashboard_app(app), app)
    try:
        assert site.run(request(site.asgi, "GET", "/api/jobs")).status == 401
        assert site.run(request(site.asgi, "GET", "/api/jobs", {"authorization": "Bearer "})).status == 401
        assert "Sign-in is disabled" in site.browser().get("/login").text
    finally:
        site.close()


def test_a_stream_ends_after_its_maximum_duration() -> None:
    async def frames() -> Any:
        while True:
            yield b"data: 1\n\n"
            await asyncio.sleep(0.001)

    async def collect() -> list[Any]:
        stream, sent = EventStream(frames()), []
        stream.max_seconds = 0.05

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.Event().wait()

        await asyncio.wait_for(stream({"type": "http"}, receive, send), 30)
        return sent

    last = asyncio.run(collect())[-1]
    assert last["more_body"] is False


@pytest.mark.own_database
def test_it_waits_for_the_database_and_says_so_once(
    url: str, server_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = conninfo_to_dict(url)["dbname"]
    app = Treadle(url)

    async def body() -> None:
        reached = asyncio.create_task(server._reach_database(app))
        done, _ = await asyncio.wait([reached], timeout=0.7)
        assert not done
        connection.execute(f'alter database "{name}" with allow_connections true')
        await asyncio.wait_for(reached, 10)

    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'alter database "{name}" with allow_connections false')
        asyncio.run(body())
    assert [record.getMessage().partition(",")[0] for record in caplog.records if record.name == "treadle"] == [
        "the database is unavailable",
        "the database is back",
    ]
