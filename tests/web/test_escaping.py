"""Values from the tables are escaped everywhere: they never become an element, an attribute or a header."""

import json
from collections import Counter
from html.parser import HTMLParser
from itertools import product
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.dashboard_requests import Reply, protected_routes, request
from tests.support.dashboards import OPERATOR, VIEWER, Site
from tests.support.hostile import HUGE, LIMIT, MARK, PLACE, SCHEDULE, STATUSES, TEXTS, WORKER, fill, group_of
from treadle import JobQueue
from treadle.doctor import Finding, Severity
from treadle.operations.verdict import Verdict, VerdictReader
from treadle.text.masking import MASK, masked
from treadle.web.dashboard import errors, health
from treadle.web.dashboard.pages.rendering import HEADERS
from treadle.web.dashboard.routes import RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.security.role_secrets import RoleSecrets

# The attributes that contain a URL.
_ADDRESSES = {"href", "src", "action", "formaction", "data", "poster", "ping", "background", "srcset", "xlink:href"}


SECRET = "hush-hush"  # noqa: S105

# What is about one schedule, which a parameter names.
OF_ONE_LIMIT = {"/limit", "/limits/set", "/limits/pause", "/limits/reset"}
OF_ONE_SCHEDULE = {"/schedule", "/schedules/pause", "/schedules/resume", "/schedules/run", "/api/schedules/why"}

# About one job type or queue.
OF_ONE_PLACE = {"/type", "/queue", "/live/type", "/live/queue", "/api/type", "/api/queue"}


class Markup(HTMLParser):
    """Counts the elements of a page by their attributes, and fails on anything that no page should contain."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = tuple(sorted(name for name, _ in attributes))
        self.elements[tag, names] += 1
        given = dict(attributes)
        self._open.append(tag)
        assert tag not in ("style", "iframe", "object", "embed", "base", "meta-refresh"), tag
        assert "style" not in names, f"an inline style in <{tag}>"
        assert not [name for name in names if name.startswith("on")], f"an inline script in <{tag}>"
        assert tag != "script" or given.get("src", "").startswith("/"), "an inline script"  # type: ignore[union-attr]
        assert given.get("http-equiv") is None
        assert MARK not in given.get("id", ""), "an id from the table"  # type: ignore[operator]
        for name in names:
            if name in _ADDRESSES:
                split = urlsplit(given[name] or "")
                assert not split.scheme, f"{name}={given[name]!r} leads to another site"
                assert not split.netloc, f"{name}={given[name]!r} leads to another site"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            assert not data.strip(), "an inline script"
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"an unexpected comment: {data!r}")


@pytest.fixture
def pages(site: Site) -> list[RouteSpec]:
    return [route for route in protected_routes(site.asgi) if route.method == "GET"]


def fetch(site: Site, route: RouteSpec, job: object, role: Role = Role.OPERATOR, query: str = "") -> Reply:
    number = group_of(job) if isinstance(job, UUID) and "/errors/" in route.path else job
    path = route.path.replace("{id}", str(number)).replace("{name}", "main.js")
    if path == "/bulk":
        query += "?action=retry&all=yes" if not query else "&action=retry&all=yes"
    if path in OF_ONE_SCHEDULE:
        query += f"{'&' if query else '?'}name={quote(SCHEDULE)}"
    if path in OF_ONE_LIMIT:
        query += f"{'&' if query else '?'}name={quote(LIMIT)}"
    if path in OF_ONE_PLACE:
        query += f"{'&' if query else '?'}name={quote(PLACE)}"
    if path == "/workers/concurrency":
        query += f"{'&' if query else '?'}worker={quote(WORKER)}"
    cookie = f"treadle_session={RoleSecrets.from_environment().sign_session(role, 'Ada')}"
    answer: Reply = site.run(request(site.asgi, "GET", path + query, {"cookie": cookie, "accept": "text/html"}))
    return answer


@pytest.mark.long
def test_hostile_texts_do_not_change_the_markup(
    site: Site, pages: list[RouteSpec], connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages have the same elements with the same attributes as with harmless texts."""
    shown: list[str] = []

    async def verdicts(_: object) -> list[Verdict]:
        return [Verdict(Severity.WARNING, each, each, "/health", each, each) for each in shown]

    async def findings(_: object) -> list[Finding]:
        return [Finding(each, Severity.WARNING, each, each, each) for each in shown]

    # The real ones depend on the time that has passed.
    monkeypatch.setattr(VerdictReader, "aread", verdicts)
    monkeypatch.setattr(health, "aexamine", findings)
    monkeypatch.setattr(health, "HEALTH_SECONDS", 0.0)
    shapes: list[dict[tuple[Role, str, int], Any]] = []
    for texts in ([f"mark {n}" for n in range(len(TEXTS))], TEXTS):
        connection.execute("truncate jobs, errors, events, logs, steps, lanes, workers, pauses, audit, minutes")
        connection.execute("truncate error_groups, error_group_hours, error_group_versions, grouped_errors")
        connection.execute("truncate schedules, occurrences, limits, limit_targets, limit_keys")
        jobs = fill(connection, texts)
        shown[:] = texts
        rendered = [route for route in pages if not route.path.startswith(("/live/", "/api/"))]
        shapes.append({})
        for role, route in product((Role.VIEWER, Role.OPERATOR), rendered):
            # What a viewer sees depends on the state of a job.
            several = jobs if role is Role.OPERATOR else jobs[: len(STATUSES)]
            for nth, job in enumerate(several if "{id}" in route.path else jobs[:1]):
                answer = fetch(site, route, job, role)
                assert answer.status in (200, 403), (route.path, answer)
                if answer.headers.get("content-type", "").startswith("text/html"):
                    shapes[-1][role, route.path, nth] = Markup(answer.text).elements
    harmless, hostile = shapes
    assert len(harmless) > 2 * len(TEXTS)
    for each in harmless:
        assert harmless[each] == hostile[each], each


def test_the_api_returns_texts_unchanged(site: Site, pages: list[RouteSpec], connection: Connection[Any]) -> None:
    jobs = fill(connection)
    for route in pages:
        if route.path in OF_ONE_PLACE or route.path == "/api/workflows":
            continue  # nothing has this name, and there are no workflows
        if route.path.startswith("/api/") and not route.path.endswith(("/openapi.json", "/why", "/health")):
            answer = fetch(site, route, jobs[0])
            for hostile, job in zip(TEXTS, jobs, strict=True):
                text = masked(hostile)  # one of them has a cookie
                if "{id}" in route.path:
                    answer = fetch(site, route, job)
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
                assert text[:50] in json.dumps(json.loads(answer.body), ensure_ascii=False) or _has(
                    json.loads(answer.body), text[:50]
                )


def test_texts_cannot_break_the_framing_of_live_updates(
    site: Site, pages: list[RouteSpec], connection: Connection[Any]
) -> None:
    jobs = fill(connection)
    for route in pages:
        if route.path.startswith("/live/"):
            for job in jobs if "{id}" in route.path else jobs[:1]:
                answer = fetch(site, route, job)
                assert answer.headers["content-type"].startswith("text/event-stream")
                for line in answer.text.split("\n"):
                    assert line.partition(":")[0] in ("", "id", "event", "data", "retry"), line


@pytest.mark.long
def test_a_huge_text(site: Site, pages: list[RouteSpec], connection: Connection[Any]) -> None:
    (job,) = fill(connection, [HUGE])
    for route in pages:
        answer = fetch(site, route, job)
        assert answer.status in (200, 303), route.path
        if answer.headers.get("content-type", "").startswith("text/html"):
            Markup(answer.text)


@pytest.mark.parametrize(
    "text",
    [
        "javascript:window.mark=1//",
        "".join(TEXTS),
        *(pytest.param("".join(TEXTS[::-1][nth::5]), marks=pytest.mark.long) for nth in range(5)),
    ],
)
def test_parameters_are_escaped(site: Site, pages: list[RouteSpec], text: str) -> None:
    names = ("back", "done", "unfit", "status", "type", "queue", "worker", "key", "search", "after", "window", "before")
    query = "?" + "&".join(f"{name}={quote(text)}" for name in names)
    for route in pages:
        if route.path.endswith("/health"):
            continue  # slow, and without parameters
        for job in (quote(text, safe=""), "7") if "{id}" in route.path else ("7",):
            answer = fetch(site, route, job, query=query)
            assert answer.status < 500, (route.path, answer)
            assert "set-cookie" not in answer.headers or "a=b" not in answer.headers["set-cookie"]
            if answer.headers.get("content-type", "").startswith("text/html"):
                elements = Markup(answer.text).elements
                assert not [names for _, names in elements if "onfocus" in names or "onerror" in names]
                assert ("img", ("onerror", "src")) not in elements


def test_every_response_has_the_security_headers(
    site: Site, pages: list[RouteSpec], queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queue.enqueue("films")
    answers = [(route.path, fetch(site, route, job)) for route in pages]
    for method, path in (
        ("GET", "/nothing"), ("GET", "/assets/nothing"), ("GET", "/jobs/"), ("GET", "/jobs/7"), ("POST", "/"),
        ("PUT", "/login"), ("DELETE", "/api/jobs"), ("OPTIONS", "/api/jobs"), ("HEAD", "/"), ("TRACE", "/"),
        ("BREW", "/"), ("POST", "/bulk"), ("GET", "/api/jobs"), ("GET", "//evil.example/"), ("GET", "/%2e%2e/etc"),
        ("GET", "/assets/..%2frender.py"), ("GET", "/api/../jobs"), ("GET", "/JOBS"), ("GET", "/jobs%00"),
    ):  # fmt: skip
        answer = site.run(request(site.asgi, method, path))
        assert 300 <= answer.status < 500, (method, path, answer)
        assert "evil.example" not in answer.headers.get("location", "")
        answers.append((path, answer))
    assert site.run(request(site.asgi, "OPTIONS", "/api/jobs")).headers.get("access-control-allow-origin") is None
    # No redirect is built from the Host header.
    assert site.run(request(site.asgi, "GET", "/login/", {"host": "evil.example"})).status == 404
    monkeypatch.setattr(errors, "page", _broken)
    answers.append(("500", site.run(request(site.asgi, "GET", "/nothing", {"accept": "text/html"}))))
    assert answers[-1][1].status == 500
    assert b"a secret" not in answers[-1][1].body
    for path, answer in answers:
        for name, value in HEADERS.items():
            if name == "cache-control" and path.startswith("/assets/") and answer.status == 200:
                continue
            assert answer.headers.getlist(name) == [value], (path, name, answer)


def test_the_content_security_policy_allows_no_inline_scripts() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    assert (policy["frame-ancestors"], policy["base-uri"], policy["form-action"]) == ("'none'", "'none'", "'self'")
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_no_response_contains_a_secret(site: Site, pages: list[RouteSpec], queue: JobQueue) -> None:
    job = queue.enqueue("films")
    for route in pages:
        answer = fetch(site, route, job)
        assert OPERATOR.encode() not in answer.body
        assert VIEWER.encode() not in answer.body


def _broken(*_: object, **__: object) -> Any:
    raise RuntimeError("a secret of the server")


def _has(value: Any, text: str) -> bool:
    """Whether the text is part of any value or key."""
    if isinstance(value, dict):
        return any(_has(key, text) or _has(item, text) for key, item in value.items())
    if isinstance(value, list):
        return any(_has(item, text) for item in value)
    return isinstance(value, str) and text in value


# What jobs, people and other systems have written. Names (of types, queues, limits, schedules, workers) are shown.
WRITTEN = {
    "jobs": ("current_stage", "last_error", "data", "result", "checkpoint"),
    "errors": ("error", "traceback"),
    "events": ("data",),
    "logs": ("message",),
    "steps": ("result",),
    "audit": ("reason", "details"),
    "pauses": ("reason",),
    "schedules": ("data", "error"),
    "error_groups": ("exception", "message", "example_error", "example_traceback", "muted_reason"),
    "workers": ("stuck_stack",),
}


def test_no_response_shows_a_secret_that_was_written(
    site: Site, pages: list[RouteSpec], connection: Connection[Any]
) -> None:
    jobs = fill(connection, [f"mark {n}" for n in range(len(STATUSES))])
    secrets = {"text": f"see postgresql://ada:{SECRET}@db", "json": json.dumps({"password": SECRET})}
    for table, columns in WRITTEN.items():
        for column in columns:
            kinds = "select data_type from information_schema.columns where table_name = %s and column_name = %s"
            (kind,) = connection.execute(kinds, [table, column]).fetchone() or ("",)
            secret = secrets["json" if kind == "jsonb" else "text"]
            connection.execute(f"update treadle.{table} set {column} = %s".encode(), [secret])
    masks = 0
    for route, role in product(pages, (Role.VIEWER, Role.OPERATOR)):
        for job in jobs if "{id}" in route.path else jobs[:1]:
            text = fetch(site, route, job, role).text
            assert SECRET not in text, (role, route.path)
            masks += MASK in text
    assert masks > 30
