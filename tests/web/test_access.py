"""Access to the dashboard: every route, requested by every kind of visitor."""

import json
from typing import Any, NamedTuple

import pytest
from psycopg import Connection
from starlette.routing import Route

from tests.support.dashboard_requests import Reply, protected_routes, request
from tests.support.dashboards import OPERATOR, VIEWER, Site
from tests.support.hostile import fill
from treadle import JobQueue, Treadle
from treadle.web import Role, Visitor, dashboard_app
from treadle.web.dashboard.routes import RouteSpec
from treadle.web.dashboard.security import role_secrets
from treadle.web.dashboard.security.csrf import csrf_token
from treadle.web.dashboard.security.role_secrets import RoleSecrets

BROWSER = "value of the browser cookie"


class Client(NamedTuple):
    name: str
    role: Role
    headers: dict[str, str]
    csrf_token: str = ""


def clients(secrets: RoleSecrets) -> list[Client]:
    def cookie(role: Role) -> tuple[dict[str, str], str]:
        session = secrets.sign_session(role, "Ada")
        return {"cookie": f"treadle_browser={BROWSER}; treadle_session={session}"}, csrf_token(BROWSER, session)

    plain = {"cookie": f"treadle_browser={BROWSER}"}
    return [
        Client("nobody", Role.NOBODY, plain, csrf_token(BROWSER, "")),
        Client("a wrong token", Role.NOBODY, plain | {"authorization": "Bearer wrong"}, csrf_token(BROWSER, "")),
        Client("viewer", Role.VIEWER, *cookie(Role.VIEWER)),
        Client("viewer's program", Role.VIEWER, {"authorization": f"Bearer {VIEWER}"}),
        Client("operator", Role.OPERATOR, *cookie(Role.OPERATOR)),
        Client("operator's program", Role.OPERATOR, {"authorization": f"bearer  {OPERATOR}"}),
    ]


def send(site: Site, route: RouteSpec, client: Client, job: object, **more: str) -> Reply:
    path = route.path.replace("{id}", str(job)).replace("{name}", "style.css")
    assert "{" not in path, f"this test does not know the parameters of {route.path}"
    headers = {**client.headers, "origin": "http://queue.example", **more}
    form = (
        {"csrf_token": client.csrf_token, "secret": VIEWER} if route.method == "POST" and not route.body_model else None
    )
    if route.body_model:
        headers["x-csrf-token"] = client.csrf_token
    answer: Reply = site.run(request(site.asgi, route.method, path, headers, form))
    return answer


def contents(connection: Connection[Any]) -> dict[str, Any]:
    """A digest of every table of the queue."""
    names = connection.execute("select tablename from pg_tables where schemaname = 'treadle' order by 1").fetchall()
    digests = " union all ".join(
        f"select '{name}', count(*), md5(string_agg(each::text, ',' order by each::text)) from {name} as each"
        for (name,) in names
    )
    # Planning it takes longer than running it.
    return {name: digest for name, *digest in connection.execute(digests.encode(), prepare=True).fetchall()}


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_secrets, "WRONG_SECRET_SECONDS", 0.0)


def test_every_route_requires_its_role(site: Site, queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films", delay="1h")
    requests = 0
    known = clients(RoleSecrets.from_environment())
    before = contents(connection)
    for route in protected_routes(site.asgi):
        for client in (each for each in known if each.role < route.role):
            answer = send(site, route, client, job)
            expected = 401 if client.role is Role.NOBODY else 403
            assert answer.status == expected, f"{client.name}: {route.method} {route.path}: {answer}"
            assert list(json.loads(answer.body)) == ["error"]
            requests += 1
    assert contents(connection) == before
    for route in protected_routes(site.asgi):
        for client in (each for each in known if each.role >= route.role):
            answer = send(site, route, client, job)
            assert answer.status not in (401, 403), f"{client.name}: {route.method} {route.path}: {answer}"
            requests += 1
    assert requests >= 6 * 20


def test_visitors_without_a_role_are_redirected_to_the_sign_in_page(site: Site) -> None:
    nobody = clients(RoleSecrets.from_environment())[0]
    for route in protected_routes(site.asgi):
        if route.method == "GET" and route.role and not route.response_model:
            answer = send(site, route, nobody, "7", accept="text/html")
            assert answer.status == 303
            assert answer.headers["location"].startswith("/login?back=/")


def test_a_route_without_access_control_is_detected(app: Treadle) -> None:
    asgi = dashboard_app(app, authorize=lambda _: None)
    asgi.routes.append(Route("/more", lambda request: None))
    with pytest.raises(AssertionError, match="not built by build_route"):
        protected_routes(asgi)


def test_get_requests_change_nothing(site: Site, connection: Connection[Any]) -> None:
    jobs = fill(connection)
    before = contents(connection)
    (operator,) = (each for each in clients(RoleSecrets.from_environment()) if each.name == "operator")
    for route in protected_routes(site.asgi):
        if route.method == "GET":
            answer = send(site, route, operator, jobs[0], accept="text/html")
            assert answer.status < 500, answer
    assert contents(connection) == before
    assert len(before) > 10


def test_a_mounted_dashboard_uses_authorize_of_the_application(app: Treadle, queue: JobQueue) -> None:
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
            answer = site.run(request(site.asgi, "GET", path, {"x-user": user}))
            assert answer.status == status, (user, path)
        # A session cookie of the dashboard itself is not accepted.
        cookie = RoleSecrets({Role.OPERATOR: OPERATOR}).sign_session(Role.OPERATOR, "Mallory")
        assert site.run(request(site.asgi, "GET", "/api/jobs", {"cookie": f"treadle_session={cookie}"})).status == 401
        form, origin = {"csrf_token": csrf_token(BROWSER, "")}, {"origin": "http://queue.example"}
        browser = {"cookie": f"treadle_browser={BROWSER}"}
        path = f"/jobs/{job}/cancel"
        assert site.run(request(site.asgi, "POST", path, {"x-user": "grace", **origin, **browser}, form)).status == 403
        assert site.run(request(site.asgi, "POST", path, {"x-user": "ada", **origin}, form)).status == 403
        assert site.run(request(site.asgi, "POST", path, {"x-user": "ada", **origin, **browser}, form)).status == 303
    finally:
        site.close()


@pytest.mark.parametrize("result", [True, "operator", Role.OPERATOR, ("operator", "Ada")])
def test_authorize_must_return_a_visitor(app: Treadle, caplog: pytest.LogCaptureFixture, result: Any) -> None:
    site = Site(dashboard_app(app, authorize=lambda _: result), app)
    try:
        answer = site.run(request(site.asgi, "GET", "/api/jobs"))
        assert answer.status == 500
        assert b"Visitor" not in answer.body
        assert "authorize must return a Visitor" in caplog.text
    finally:
        site.close()


@pytest.mark.parametrize("name", ["Ada\r\nx-evil: 1", "\x1b[2JAda", "", "A" * 500, "\u202eAda"])
def test_names_in_the_audit_are_printable_and_on_one_line(
    app: Treadle, queue: JobQueue, connection: Connection[Any], name: str
) -> None:
    site = Site(dashboard_app(app, authorize=lambda _: Visitor(Role.OPERATOR, name, by_token=True)), app)
    try:
        assert site.run(request(site.asgi, "POST", f"/jobs/{queue.enqueue('films')}/cancel", form={})).status == 303
    finally:
        site.close()
    row = connection.execute("select actor from audit").fetchone()
    assert row is not None
    assert row[0].startswith("dashboard:")
    assert 10 < len(row[0]) <= 110
    assert row[0].isprintable()
