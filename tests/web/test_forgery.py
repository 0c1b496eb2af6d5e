"""Changes that somebody else's page, an old session or a stolen idea asks for: nothing happens."""

import asyncio
import time
from typing import Any

import pytest
from itsdangerous import URLSafeTimedSerializer

from tests.support.dashboard_requests import ask
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from treadle import InvalidArgument, JobQueue, Status, Treadle
from treadle.web import dashboard_app
from treadle.web.dashboard import access, body
from treadle.web.dashboard.access import Access, Role
from treadle.web.dashboard.routes import _proof as proof_of

OURS = {"origin": "http://queue.example", "sec-fetch-site": "same-origin"}


def tried(browser: Browser, job: object, proof: str | None, **headers: str) -> int:
    form = {} if proof is None else {"proof": proof}
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
def test_a_change_comes_from_a_page_of_ours(operator: Browser, queue: JobQueue, headers: dict[str, str]) -> None:
    job = queue.enqueue("films")
    assert tried(operator, job, operator.proof, **headers) == 403
    assert queue.get(job).status == Status.PENDING
    assert tried(operator, job, operator.proof, origin="http://Queue.Example") == 303
    assert queue.get(job).status == Status.CANCELLED


def test_a_change_proves_that_it_knows_the_cookies(site: Site, operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    other = site.signed_in(OPERATOR)
    nobody = site.browser()
    nobody.get("/login")
    for proof in (None, "", "x", "0" * 64, "ü", other.proof, nobody.proof, operator.proof.upper()):
        assert tried(operator, job, proof, **OURS) == 403
    assert queue.get(job).status == Status.PENDING
    assert tried(operator, job, operator.proof, **OURS) == 303


def test_a_planted_cookie_proves_nothing(site: Site, operator: Browser, queue: JobQueue) -> None:
    """A neighbour under the same domain can set a cookie for it, but not read the one of the session."""
    planted = site.browser()
    planted.get("/login")
    operator.cookies.delete("treadle_browser")
    operator.cookies.set("treadle_browser", planted.cookies["treadle_browser"], domain="queue.example")
    assert tried(operator, queue.enqueue("films"), planted.proof, **OURS) == 403


def test_without_the_cookie_no_proof_counts(site: Site, operator: Browser, queue: JobQueue) -> None:
    operator.cookies.delete("treadle_browser")
    assert tried(operator, queue.enqueue("films"), proof_of("", operator.cookies["treadle_session"]), **OURS) == 403


def test_nobody_is_signed_in_by_another_site(site: Site) -> None:
    browser = site.browser()
    browser.get("/login")
    form = {"secret": OPERATOR, "proof": browser.proof}
    for headers in ({}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = browser.send("POST", "/login", data=form, headers=headers)
        assert answer.status_code == 403
        assert "treadle_session" not in answer.headers.get("set-cookie", "")
    assert browser.send("POST", "/login", data={"secret": OPERATOR}, headers=OURS).status_code == 403
    assert browser.send("POST", "/login", data=form, headers=OURS).status_code == 303


def test_cookies_are_for_this_site_and_no_script(site: Site) -> None:
    browser = site.browser()
    for given in (browser.get("/login"), browser.sign_in(OPERATOR)):
        cookie = given.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        assert "domain" not in cookie


def test_cookies_over_tls_are_of_this_very_host(app: Treadle, site: Site) -> None:
    browser = site.browser("https://queue.example")
    first = browser.get("/login").headers["set-cookie"]
    second = browser.sign_in(OPERATOR).headers["set-cookie"]
    for cookie, name in ((first, "browser"), (second, "session")):
        assert cookie.startswith(f"__Host-treadle_{name}=")
        assert all(word in cookie.lower() for word in ("secure", "path=/", "httponly"))
    assert browser.get("/api/jobs").status_code == 200
    # One without the prefix may have been set by a neighbour.
    value = browser.cookies["__Host-treadle_session"]
    plain = {"cookie": f"treadle_session={value}"}
    assert site.run(ask(site.asgi, "GET", "/api/jobs", plain, scheme="https")).status == 401


def test_who_signs_out_has_no_cookies_left(operator: Browser) -> None:
    assert operator.get("/api/jobs").status_code == 200
    assert operator.send("POST", "/logout", data={}, headers=OURS).status_code == 403
    answer = operator.post("/logout")
    assert answer.headers["location"] == "/login"
    assert list(operator.cookies) == []
    assert operator.get("/api/jobs").status_code == 401


def test_a_new_secret_ends_the_sessions_of_the_old_one(
    app: Treadle, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DASHBOARD_OPERATOR", "another secret of those who change")
    site = Site(dashboard_app(app), app)
    try:
        cookie = {"cookie": f"treadle_session={operator.cookies['treadle_session']}"}
        assert site.run(ask(site.asgi, "GET", "/api/jobs", cookie)).status == 401
    finally:
        site.close()


def test_forged_and_old_cookies_are_nobodys(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Access.from_environment()
    viewer = secrets.sign(Role.VIEWER, "Ada")
    payload, _, signature = viewer.partition(".")
    operator_payload = secrets.sign(Role.OPERATOR, "Ada").partition(".")[0]

    def status(cookie: str) -> int:
        answer = site.run(ask(site.asgi, "GET", "/api/jobs", {"cookie": f"treadle_session={cookie}"}))
        code: int = answer.status
        return code

    assert status(viewer) == 200
    guesses = ["", "x", viewer[:-1], f"{operator_payload}.{signature}", f"{payload}.", viewer.replace(".", "..")]
    guesses += [
        URLSafeTimedSerializer(key, salt="treadle.session").dumps({"role": "OPERATOR", "name": "Mallory"})
        for key in ("", VIEWER, "treadle")
    ]
    assert {status(each) for each in guesses} == {401}
    later = time.time() + access.SESSION_SECONDS + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert status(viewer) == 401


def test_a_viewers_key_signs_no_operator(site: Site) -> None:
    """Who knows the viewers' secret can make cookies of viewers, and of nobody else."""
    forged = Access({Role.VIEWER: VIEWER})._serializer(Role.VIEWER).dumps({"role": "OPERATOR", "name": "Mallory"})
    assert site.run(ask(site.asgi, "GET", "/api/jobs", {"cookie": f"treadle_session={forged}"})).status == 401


@pytest.mark.parametrize(
    "given", ["", OPERATOR[:-1], OPERATOR + "x", OPERATOR.upper(), "Basic", "\xff" * 20, "x" * 9000]
)
def test_wrong_tokens_are_nobodys(site: Site, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setattr(access, "WRONG_SECONDS", 0.0)
    for kind in ("Bearer", "bearer", "Basic", ""):
        headers = {"authorization": f"{kind} {given}"}
        assert site.run(ask(site.asgi, "GET", "/api/jobs", headers)).status == 401


def test_whoever_guesses_waits_and_keeps_nobody_else_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_SECONDS", 50.0)

    async def guess(secret: str, address: str) -> int:
        sent = {"authorization": f"Bearer {secret}"}
        return (await ask(site.asgi, "GET", "/api/jobs", sent, client=(address, 1))).status

    async def all_at_once() -> None:
        guessing = [asyncio.create_task(guess(f"guess {n}", f"2001:db8::{n:x}")) for n in range(20)]
        done: set[asyncio.Task[int]] = set()
        while len(done) < 20 - access.GUESSES:
            done, waiting = await asyncio.wait(guessing, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            guessing = list(waiting) + list(done)
        assert {each.result() for each in done} == {429}
        assert await guess(OPERATOR, "2001:db8::ff") == 429
        assert await guess(OPERATOR, "2001:db8:1::1") == 200
        assert len(waiting) == access.GUESSES
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        assert await guess(OPERATOR, "2001:db8::ff") == 200

    site.run(all_at_once())


def test_a_wrong_secret_takes_its_time(site: Site) -> None:
    began = time.monotonic()
    assert site.program("wrong").send("GET", "/api/jobs").status_code == 401
    assert time.monotonic() - began >= access.WRONG_SECONDS


def test_the_form_says_what_was_wrong(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_SECONDS", 0.0)
    browser = site.browser()
    browser.get("/login?back=/jobs?status=failed")
    answer = browser.post("/login", {"secret": "x", "name": "Ada", "back": "/jobs?status=failed"})
    assert (answer.status_code, "not known here" in answer.text) == (403, True)
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
        ({"TREADLE_DASHBOARD_OPERATOR": VIEWER, "TREADLE_DASHBOARD_VIEWER": VIEWER}, "must not have the same secret"),
    ],
)
def test_secrets_that_are_none(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        Access.from_environment(environment)


def test_a_secret_may_be_any_text(app: Treadle) -> None:
    secrets = Access.from_environment({"TREADLE_DASHBOARD_OPERATOR": "grüße aus köln\udcff\n"})
    assert secrets.role_of("grüße aus köln\udcff") is Role.OPERATOR
    asgi = Site(dashboard_app(app, authorize=Access({Role.VIEWER: "grüße aus köln"})), app)
    try:
        sent = "Bearer grüße aus köln".encode().decode("latin-1")
        assert asgi.run(ask(asgi.asgi, "GET", "/api/workers", {"authorization": sent})).status == 200
    finally:
        asgi.close()


def test_bodies_are_small_and_quick(site: Site, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    program = site.program(OPERATOR)
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert program.send("POST", "/bulk", content=b"a=" + b"x" * body.BODY_LIMIT, headers=form).status_code == 413
    said = {**form, "authorization": f"Bearer {OPERATOR}", "content-length": "200001"}
    assert site.run(ask(site.asgi, "POST", "/bulk", said)).status == 413  # before any of it has come
    answer = program.send("POST", "/bulk", content=b"&".join([b"a=1"] * 3000), headers=form)
    assert (answer.status_code, "at most 2000 fields" in answer.text) == (400, True)
    assert program.send("POST", "/bulk", content=b"a=\xff", headers=form).status_code == 400

    async def much() -> Any:
        for _ in range(100):
            yield b"x" * 10_000

    assert program.send("POST", "/bulk", content=much(), headers=form).status_code == 413
    monkeypatch.setattr(body, "BODY_SECONDS", 0.05)

    async def slow() -> Any:
        yield b"a=1"
        await asyncio.sleep(60)

    assert program.send("POST", "/bulk", content=slow(), headers=form).status_code == 408
