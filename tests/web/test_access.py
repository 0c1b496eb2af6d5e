"""Who may do what in the dashboard: every route with every kind of visitor, as its rule says."""

import json
from typing import Any, NamedTuple

import pytest
from psycopg import Connection
from starlette.routing import Route

from tests.support.dashboard_requests import Answered, ask, guarded
from tests.support.dashboards import OPERATOR, VIEWER, Site
from tests.support.hostile import fill
from treadle import JobQueue, Treadle
from treadle.web import Role, Visitor, dashboard_app
from treadle.web.dashboard import access
from treadle.web.dashboard.access import Access
from treadle.web.dashboard.routes import Rule
from treadle.web.dashboard.routes import _proof as proof_of

BROWSER = "a browser's cookie"


class Who(NamedTuple):
    name: str
    role: Role
    headers: dict[str, str]
    proof: str = ""


def visitors(secrets: Access) -> list[Who]:
    def cookie(role: Role) -> tuple[dict[str, str], str]:
        session = secrets.sign(role, "Ada")
        return {"cookie": f"treadle_browser={BROWSER}; treadle_session={session}"}, proof_of(BROWSER, session)

    plain = {"cookie": f"treadle_browser={BROWSER}"}
    return [
        Who("nobody", Role.NOBODY, plain, proof_of(BROWSER, "")),
        Who("a wrong token", Role.NOBODY, plain | {"authorization": "Bearer of bad news"}, proof_of(BROWSER, "")),
        Who("viewer", Role.VIEWER, *cookie(Role.VIEWER)),
        Who("viewer's program", Role.VIEWER, {"authorization": f"Bearer {VIEWER}"}),
        Who("operator", Role.OPERATOR, *cookie(Role.OPERATOR)),
        Who("operator's program", Role.OPERATOR, {"authorization": f"bearer  {OPERATOR}"}),
    ]


def request(site: Site, rule: Rule, who: Who, job: object, **more: str) -> Answered:
    path = rule.path.replace("{id}", str(job)).replace("{name}", "style.css")
    assert "{" not in path, f"this test does not know how to ask for {rule.path}"
    headers = {**who.headers, "origin": "http://queue.example", **more}
    form = {"proof": who.proof, "secret": VIEWER} if rule.method == "POST" and not rule.takes else None
    if rule.takes:
        headers["x-treadle-proof"] = who.proof
    answer: Answered = site.run(ask(site.asgi, rule.method, path, headers, form))
    return answer


def contents(connection: Connection[Any]) -> dict[str, Any]:
    """All tables of the queue."""
    names = connection.execute("select tablename from pg_tables where schemaname = 'treadle' order by 1").fetchall()
    return {
        name: connection.execute(
            f"select count(*), md5(string_agg(each::text, ',' order by each::text)) from {name} as each".encode()
        ).fetchone()
        for (name,) in names
    }


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_SECONDS", 0.0)


def test_every_route_lets_in_whom_its_rule_says_and_nobody_else(
    site: Site, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = queue.enqueue("films", delay="1h")
    asked = 0
    for rule in guarded(site.asgi):
        for who in visitors(Access.from_environment()):
            before = contents(connection)
            answer = request(site, rule, who, job)
            let_in = answer.status not in (401, 403)
            assert let_in == (who.role >= rule.role), f"{who.name}: {rule.method} {rule.path}: {answer}"
            if not let_in:
                assert answer.status == (401 if who.role is Role.NOBODY else 403)
                assert list(json.loads(answer.body)) == ["error"]
                assert contents(connection) == before
            asked += 1
    assert asked >= 6 * 20


def test_nobody_is_led_to_the_way_in(site: Site) -> None:
    nobody = visitors(Access.from_environment())[0]
    for rule in guarded(site.asgi):
        if rule.method == "GET" and rule.role and not rule.gives:
            answer = request(site, rule, nobody, "7", accept="text/html")
            assert answer.status == 303
            assert answer.headers["location"].startswith("/login?back=/")


def test_a_route_of_somebody_else_is_found_out(app: Treadle) -> None:
    asgi = dashboard_app(app, authorize=lambda _: None)
    asgi.routes.append(Route("/more", lambda request: None))
    with pytest.raises(AssertionError, match="not made by the gate"):
        guarded(asgi)


def test_nothing_changes_by_get(site: Site, connection: Connection[Any]) -> None:
    jobs = fill(connection)
    before = contents(connection)
    (operator,) = (who for who in visitors(Access.from_environment()) if who.name == "operator")
    for rule in guarded(site.asgi):
        if rule.method == "GET":
            answer = request(site, rule, operator, jobs[0], accept="text/html")
            assert answer.status < 500, answer
    assert contents(connection) == before
    assert len(before) > 10


def test_the_application_decides_when_it_mounts_it(app: Treadle, queue: JobQueue) -> None:
    known = {"ada": Visitor(Role.OPERATOR, "Ada"), "grace": Visitor(Role.VIEWER, "Grace")}

    async def authorize(connection: Any) -> Visitor | None:
        return known.get(connection.headers.get("x-user"))

    site = Site(dashboard_app(app, authorize=authorize), app)
    job = queue.enqueue("films")
    try:
        for user, path, status in (
            ("ada", "/api/jobs", 200),
            ("grace", "/api/jobs", 200),
            ("mallory", "/api/jobs", 401),
            ("ada", "/login", 404),
        ):
            answer = site.run(ask(site.asgi, "GET", path, {"x-user": user}))
            assert answer.status == status, (user, path)
        # A cookie of the dashboard's own says nothing here.
        cookie = Access({Role.OPERATOR: OPERATOR}).sign(Role.OPERATOR, "Mallory")
        assert site.run(ask(site.asgi, "GET", "/api/jobs", {"cookie": f"treadle_session={cookie}"})).status == 401
        form, origin = {"proof": proof_of(BROWSER, "")}, {"origin": "http://queue.example"}
        browser = {"cookie": f"treadle_browser={BROWSER}"}
        path = f"/jobs/{job}/cancel"
        assert site.run(ask(site.asgi, "POST", path, {"x-user": "grace", **origin, **browser}, form)).status == 403
        assert site.run(ask(site.asgi, "POST", path, {"x-user": "ada", **origin}, form)).status == 403
        assert site.run(ask(site.asgi, "POST", path, {"x-user": "ada", **origin, **browser}, form)).status == 303
    finally:
        site.close()


@pytest.mark.parametrize("said", [True, "operator", Role.OPERATOR, ("operator", "Ada")])
def test_an_answer_that_is_no_visitor_lets_nobody_in(app: Treadle, caplog: pytest.LogCaptureFixture, said: Any) -> None:
    site = Site(dashboard_app(app, authorize=lambda _: said), app)
    try:
        answer = site.run(ask(site.asgi, "GET", "/api/jobs"))
        assert answer.status == 500
        assert b"Visitor" not in answer.body
        assert "authorize must return a Visitor" in caplog.text
    finally:
        site.close()


@pytest.mark.parametrize("name", ["Ada\r\nx-evil: 1", "\x1b[2JAda", "", "A" * 500, "\u202eAda"])
def test_names_are_one_line_in_the_audit(app: Treadle, queue: JobQueue, connection: Connection[Any], name: str) -> None:
    site = Site(dashboard_app(app, authorize=lambda _: Visitor(Role.OPERATOR, name, by_token=True)), app)
    try:
        assert site.run(ask(site.asgi, "POST", f"/jobs/{queue.enqueue('films')}/cancel", form={})).status == 303
    finally:
        site.close()
    row = connection.execute("select actor from audit").fetchone()
    assert row is not None
    assert row[0].startswith("dashboard:")
    assert 10 < len(row[0]) <= 110
    assert row[0].isprintable()
