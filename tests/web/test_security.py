"""Security of sessions and changes: request forgery, cookies, secrets, and limits of request bodies."""

import asyncio
import time
from typing import Any

import pytest
from itsdangerous import URLSafeTimedSerializer

from tests.support.dashboard_requests import request
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from treadle import InvalidArgument, JobQueue, Status, Treadle
from treadle.web import dashboard_app
from treadle.web.dashboard import request_body
from treadle.web.dashboard.security import role_secrets
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.security.csrf import csrf_token
from treadle.web.dashboard.security.role_secrets import RoleSecrets

SAME_ORIGIN = {"origin": "http://queue.example", "sec-fetch-site": "same-origin"}


def cancel(browser: Browser, job: object, token: str | None, **headers: str) -> int:
    form = {} if token is None else {"csrf_token": token}
    return browser.send("POST", f"/jobs/{job}/cancel", data=form, headers=headers).status_code


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "http://queue.example.evil.example"},
        {"origin": "http://queue.example:8080"},
        {"origin": "http://queue.example@evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "queue.example"},
        {"origin": "file://queue.example"},
        {"origin": "http://[queue.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://queue.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        {"origin": "http://evil.example", "x-forwarded-host": "evil.example"},
        {"referer": "http://queue.example/"},
    ],
)
def test_a_change_from_another_origin_is_refused(operator: Browser, queue: JobQueue, headers: dict[str, str]) -> None:
    job = queue.enqueue("films")
    assert cancel(operator, job, operator.csrf_token, **headers) == 403
    assert queue.get(job).status == Status.PENDING
    assert cancel(operator, job, operator.csrf_token, origin="http://Queue.Example") == 303
    assert queue.get(job).status == Status.CANCELLED


def test_a_change_needs_the_csrf_token(site: Site, operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    other = site.signed_in(OPERATOR)
    nobody = site.browser()
    nobody.get("/login")
    for token in (None, "", "x", "0" * 64, "ü", other.csrf_token, nobody.csrf_token, operator.csrf_token.upper()):
        assert cancel(operator, job, token, **SAME_ORIGIN) == 403
    assert queue.get(job).status == Status.PENDING
    assert cancel(operator, job, operator.csrf_token, **SAME_ORIGIN) == 303


def test_a_planted_cookie_does_not_give_the_csrf_token(site: Site, operator: Browser, queue: JobQueue) -> None:
    """Another site under the same domain can set the browser cookie, but not read the session cookie."""
    planted = site.browser()
    planted.get("/login")
    operator.cookies.delete("treadle_browser")
    operator.cookies.set("treadle_browser", planted.cookies["treadle_browser"], domain="queue.example")
    assert cancel(operator, queue.enqueue("films"), planted.csrf_token, **SAME_ORIGIN) == 403


def test_without_the_browser_cookie_no_csrf_token_is_accepted(site: Site, operator: Browser, queue: JobQueue) -> None:
    operator.cookies.delete("treadle_browser")
    assert (
        cancel(operator, queue.enqueue("films"), csrf_token("", operator.cookies["treadle_session"]), **SAME_ORIGIN)
        == 403
    )


def test_another_site_cannot_sign_a_visitor_in(site: Site) -> None:
    browser = site.browser()
    browser.get("/login")
    form = {"secret": OPERATOR, "csrf_token": browser.csrf_token}
    for headers in ({}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = browser.send("POST", "/login", data=form, headers=headers)
        assert answer.status_code == 403
        assert "treadle_session" not in answer.headers.get("set-cookie", "")
    assert browser.send("POST", "/login", data={"secret": OPERATOR}, headers=SAME_ORIGIN).status_code == 403
    assert browser.send("POST", "/login", data=form, headers=SAME_ORIGIN).status_code == 303


def test_cookies_are_http_only_and_same_site(site: Site) -> None:
    browser = site.browser()
    for given in (browser.get("/login"), browser.sign_in(OPERATOR)):
        cookie = given.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        assert "domain" not in cookie


def test_cookies_over_tls_have_the_host_prefix(app: Treadle, site: Site) -> None:
    browser = site.browser("https://queue.example")
    first = browser.get("/login").headers["set-cookie"]
    second = browser.sign_in(OPERATOR).headers["set-cookie"]
    for cookie, name in ((first, "browser"), (second, "session")):
        assert cookie.startswith(f"__Host-treadle_{name}=")
        assert all(word in cookie.lower() for word in ("secure", "path=/", "httponly"))
    assert browser.get("/api/jobs").status_code == 200
    # A cookie without the prefix may have been set by another site.
    value = browser.cookies["__Host-treadle_session"]
    plain = {"cookie": f"treadle_session={value}"}
    assert site.run(request(site.asgi, "GET", "/api/jobs", plain, scheme="https")).status == 401


def test_signing_out_deletes_the_cookies(operator: Browser) -> None:
    assert operator.get("/api/jobs").status_code == 200
    assert operator.send("POST", "/logout", data={}, headers=SAME_ORIGIN).status_code == 403
    answer = operator.post("/logout")
    assert answer.headers["location"] == "/login"
    assert list(operator.cookies) == []
    assert operator.get("/api/jobs").status_code == 401


def test_a_new_secret_ends_the_sessions_of_the_old_one(
    app: Treadle, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DASHBOARD_OPERATOR", "another secret of the operators")
    site = Site(dashboard_app(app), app)
    try:
        cookie = {"cookie": f"treadle_session={operator.cookies['treadle_session']}"}
        assert site.run(request(site.asgi, "GET", "/api/jobs", cookie)).status == 401
    finally:
        site.close()


def test_forged_and_expired_sessions_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = RoleSecrets.from_environment()
    viewer = secrets.sign_session(Role.VIEWER, "Ada")
    payload, _, signature = viewer.partition(".")
    operator_payload = secrets.sign_session(Role.OPERATOR, "Ada").partition(".")[0]

    def status(cookie: str) -> int:
        answer = site.run(request(site.asgi, "GET", "/api/jobs", {"cookie": f"treadle_session={cookie}"}))
        code: int = answer.status
        return code

    assert status(viewer) == 200
    guesses = ["", "x", viewer[:-1], f"{operator_payload}.{signature}", f"{payload}.", viewer.replace(".", "..")]
    guesses += [
        URLSafeTimedSerializer(key, salt="treadle.session").dumps({"role": "OPERATOR", "name": "Mallory"})
        for key in ("", VIEWER, "treadle")
    ]
    assert {status(each) for each in guesses} == {401}
    later = time.time() + role_secrets.SESSION_SECONDS + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert status(viewer) == 401


def test_the_viewer_secret_cannot_sign_an_operator_session(site: Site) -> None:
    """Whoever knows the viewer secret can forge sessions of viewers only."""
    forged = RoleSecrets({Role.VIEWER: VIEWER})._serializer(Role.VIEWER).dumps({"role": "OPERATOR", "name": "Mallory"})
    assert site.run(request(site.asgi, "GET", "/api/jobs", {"cookie": f"treadle_session={forged}"})).status == 401


@pytest.mark.parametrize(
    "given", ["", OPERATOR[:-1], OPERATOR + "x", OPERATOR.upper(), "Basic", "\xff" * 20, "x" * 9000]
)
def test_wrong_tokens_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setattr(role_secrets, "WRONG_SECRET_SECONDS", 0.0)
    for kind in ("Bearer", "bearer", "Basic", ""):
        headers = {"authorization": f"{kind} {given}"}
        assert site.run(request(site.asgi, "GET", "/api/jobs", headers)).status == 401


def test_guesses_are_limited_per_address(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_secrets, "WRONG_SECRET_SECONDS", 50.0)

    async def guess(secret: str, address: str) -> int:
        sent = {"authorization": f"Bearer {secret}"}
        return (await request(site.asgi, "GET", "/api/jobs", sent, client=(address, 1))).status

    async def all_at_once() -> None:
        guessing = [asyncio.create_task(guess(f"guess {n}", f"2001:db8::{n:x}")) for n in range(20)]
        done: set[asyncio.Task[int]] = set()
        while len(done) < 20 - role_secrets.MAX_CONCURRENT_GUESSES:
            done, waiting = await asyncio.wait(guessing, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            guessing = list(waiting) + list(done)
        assert {each.result() for each in done} == {429}
        # A right token works, whatever else comes from its address.
        assert await guess(OPERATOR, "2001:db8::ff") == 200
        assert await guess("wrong", "2001:db8::ff") == 429
        assert await guess(OPERATOR, "2001:db8:1::1") == 200
        assert len(waiting) == role_secrets.MAX_CONCURRENT_GUESSES
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        assert await guess(OPERATOR, "2001:db8::ff") == 200

    site.run(all_at_once())


def test_a_wrong_secret_is_answered_after_a_delay(site: Site) -> None:
    began = time.monotonic()
    assert site.program("wrong").send("GET", "/api/jobs").status_code == 401
    assert time.monotonic() - began >= role_secrets.WRONG_SECRET_SECONDS


def test_sign_in_shows_a_wrong_secret_and_redirects_after_the_right_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_secrets, "WRONG_SECRET_SECONDS", 0.0)
    browser = site.browser()
    browser.get("/login?back=/jobs?status=failed")
    answer = browser.post("/login", {"secret": "x", "name": "Ada", "back": "/jobs?status=failed"})
    assert (answer.status_code, "Wrong secret." in answer.text) == (403, True)
    assert 'value="/jobs?status=failed"' in answer.text
    answer = browser.post("/login", {"secret": f" {OPERATOR}\n", "back": "/jobs?status=failed"})
    assert answer.headers["location"] == "/jobs?status=failed"
    browser = site.browser()
    browser.get("/login")
    assert browser.post("/login", {"secret": OPERATOR, "back": "//evil.example"}).headers["location"] == "/"


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"TREADLE_DASHBOARD_OPERATOR": "short"}, "at least 12 characters"),
        ({"TREADLE_DASHBOARD_OPERATOR": "   spaces        "}, "at least 12 characters"),
        ({"TREADLE_DASHBOARD_OPERATOR": ""}, "set but empty"),
        ({"TREADLE_DASHBOARD_VIEWER": " \n"}, "set but empty"),
        ({"TREADLE_DASHBOARD_OPERATOR": VIEWER, "TREADLE_DASHBOARD_VIEWER": VIEWER}, "must be different"),
    ],
)
def test_invalid_secrets_are_refused(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        RoleSecrets.from_environment(environment)


def test_a_secret_can_contain_any_character(app: Treadle) -> None:
    secrets = RoleSecrets.from_environment({"TREADLE_DASHBOARD_OPERATOR": "grüße aus köln\udcff\n"})
    assert secrets.role_of("grüße aus köln\udcff") is Role.OPERATOR
    asgi = Site(dashboard_app(app, authorize=RoleSecrets({Role.VIEWER: "grüße aus köln"})), app)
    try:
        sent = "Bearer grüße aus köln".encode().decode("latin-1")
        assert asgi.run(request(asgi.asgi, "GET", "/api/workers", {"authorization": sent})).status == 200
    finally:
        asgi.close()


def test_request_bodies_are_limited_in_size_and_time(
    site: Site, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = site.program(OPERATOR)
    form = {"content-type": "application/x-www-form-urlencoded"}
    large = b"a=" + b"x" * request_body.BODY_LIMIT
    assert program.send("POST", "/bulk", content=large, headers=form).status_code == 413
    headers = {**form, "authorization": f"Bearer {OPERATOR}", "content-length": "200001"}
    assert site.run(request(site.asgi, "POST", "/bulk", headers)).status == 413  # before any of the body has arrived
    answer = program.send("POST", "/bulk", content=b"&".join([b"a=1"] * 3000), headers=form)
    assert (answer.status_code, "at most 2000 fields" in answer.text) == (400, True)
    assert program.send("POST", "/bulk", content=b"a=\xff", headers=form).status_code == 400

    async def much() -> Any:
        for _ in range(100):
            yield b"x" * 10_000

    assert program.send("POST", "/bulk", content=much(), headers=form).status_code == 413
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)

    async def slow() -> Any:
        yield b"a=1"
        await asyncio.sleep(60)

    assert program.send("POST", "/bulk", content=slow(), headers=form).status_code == 408
