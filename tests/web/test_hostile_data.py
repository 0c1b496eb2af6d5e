"""Whatever is in the tables is text on a page and in an answer: no element, no attribute, no header comes of it."""

import json
from collections import Counter
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from psycopg import Connection

from tests.support.dashboard_requests import Answered, ask, guarded
from tests.support.dashboards import OPERATOR, VIEWER, Site
from tests.support.hostile import HUGE, MARK, TEXTS, fill
from treadle import JobQueue
from treadle.web.dashboard import refusals
from treadle.web.dashboard.access import Access, Role
from treadle.web.dashboard.render import HEADERS
from treadle.web.dashboard.routes import Rule

# Where an address or a program would be read out of text.
_ADDRESSES = {"href", "src", "action", "formaction", "data", "poster", "ping", "background", "srcset", "xlink:href"}


class Markup(HTMLParser):
    """Counts what a browser would make of a page, and objects to what no page of ours has."""

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
        assert MARK not in given.get("id", ""), "an id of the table's"  # type: ignore[operator]
        for name in names:
            if name in _ADDRESSES:
                split = urlsplit(given[name] or "")
                assert not split.scheme, f"{name}={given[name]!r} leads elsewhere"
                assert not split.netloc, f"{name}={given[name]!r} leads elsewhere"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            assert not data.strip(), "an inline script"
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment of nobody's: {data!r}")


@pytest.fixture
def pages(site: Site) -> list[Rule]:
    return [rule for rule in guarded(site.asgi) if rule.method == "GET"]


def seen(site: Site, rule: Rule, job: object, role: Role = Role.OPERATOR, query: str = "") -> Answered:
    path = rule.path.replace("{id}", str(job)).replace("{name}", "live.js")
    if path == "/bulk":
        query += "?action=retry&all=yes" if not query else "&action=retry&all=yes"
    cookie = f"treadle_session={Access.from_environment().sign(role, 'Ada')}"
    answer: Answered = site.run(ask(site.asgi, "GET", path + query, {"cookie": cookie, "accept": "text/html"}))
    return answer


def test_every_page_is_the_same_whatever_the_texts_are(
    site: Site, pages: list[Rule], connection: Connection[Any]
) -> None:
    """The same elements with the same attributes as a page with harmless texts."""
    shapes: list[dict[tuple[Role, str, int], Any]] = []
    for texts in ([f"mark {n}" for n in range(len(TEXTS))], TEXTS):
        connection.execute("truncate jobs, errors, events, logs, steps, lanes, workers, pauses, audit, minutes")
        jobs = fill(connection, texts)
        asked = [(role, rule) for role in (Role.VIEWER, Role.OPERATOR) for rule in pages if "/live/" not in rule.path]
        shapes.append({})
        for role, rule in asked:
            for nth, job in enumerate(jobs if "{id}" in rule.path else jobs[:1]):
                answer = seen(site, rule, job, role)
                assert answer.status in (200, 403), (rule.path, answer)
                if answer.headers.get("content-type", "").startswith("text/html"):
                    shapes[-1][role, rule.path, nth] = Markup(answer.text).elements
    harmless, hostile = shapes
    assert len(harmless) > 2 * len(TEXTS)
    for each in harmless:
        assert harmless[each] == hostile[each], each


def test_every_answer_of_the_api_has_the_texts_as_they_are(
    site: Site, pages: list[Rule], connection: Connection[Any]
) -> None:
    jobs = fill(connection)
    for rule in pages:
        if rule.path.startswith("/api/") and not rule.path.endswith(("/openapi.json", "/why", "/health")):
            for text, job in zip(TEXTS, jobs, strict=True):
                answer = seen(site, rule, job)
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
                assert text[:50] in json.dumps(json.loads(answer.body), ensure_ascii=False) or _has(
                    json.loads(answer.body), text[:50]
                )


def test_live_frames_stay_within_their_lines(site: Site, pages: list[Rule], connection: Connection[Any]) -> None:
    jobs = fill(connection)
    for rule in pages:
        if rule.path.startswith("/live/"):
            for job in jobs if "{id}" in rule.path else jobs[:1]:
                answer = seen(site, rule, job)
                assert answer.headers["content-type"].startswith("text/event-stream")
                for line in answer.text.split("\n"):
                    assert line.partition(":")[0] in ("", "id", "event", "data", "retry"), line


def test_a_huge_text_is_no_trouble(site: Site, pages: list[Rule], connection: Connection[Any]) -> None:
    (job,) = fill(connection, [HUGE])
    for rule in pages:
        answer = seen(site, rule, job)
        assert answer.status in (200, 303), rule.path
        if answer.headers.get("content-type", "").startswith("text/html"):
            Markup(answer.text)


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_asked_for_is_text_too(site: Site, pages: list[Rule], text: str) -> None:
    names = ("back", "done", "unfit", "status", "type", "queue", "worker", "key", "search", "after", "window", "before")
    query = "?" + "&".join(f"{name}={quote(text)}" for name in names)
    for rule in pages:
        if rule.path.endswith("/health"):
            continue  # takes its time, and nothing from the address
        for asked in (seen(site, rule, quote(text, safe=""), query=query), seen(site, rule, "7", query=query)):
            assert asked.status < 500, (rule.path, asked)
            assert "set-cookie" not in asked.headers or "a=b" not in asked.headers["set-cookie"]
            if asked.headers.get("content-type", "").startswith("text/html"):
                elements = Markup(asked.text).elements
                assert not [names for _, names in elements if "onfocus" in names or "onerror" in names]
                assert ("img", ("onerror", "src")) not in elements


def test_headers_are_on_every_answer(
    site: Site, pages: list[Rule], queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queue.enqueue("films")
    answers = [(rule.path, seen(site, rule, job)) for rule in pages]
    for method, path in (
        ("GET", "/nothing"), ("GET", "/assets/nothing"), ("GET", "/jobs/"), ("GET", "/jobs/7"), ("POST", "/"),
        ("PUT", "/login"), ("DELETE", "/api/jobs"), ("OPTIONS", "/api/jobs"), ("HEAD", "/"), ("TRACE", "/"),
        ("BREW", "/"), ("POST", "/bulk"), ("GET", "/api/jobs"), ("GET", "//evil.example/"), ("GET", "/%2e%2e/etc"),
        ("GET", "/assets/..%2frender.py"), ("GET", "/api/../jobs"), ("GET", "/JOBS"), ("GET", "/jobs%00"),
    ):  # fmt: skip
        answer = site.run(ask(site.asgi, method, path))
        assert 300 <= answer.status < 500, (method, path, answer)
        assert "evil.example" not in answer.headers.get("location", "")
        answers.append((path, answer))
    assert site.run(ask(site.asgi, "OPTIONS", "/api/jobs")).headers.get("access-control-allow-origin") is None
    # Nobody is sent to where the header Host says.
    assert site.run(ask(site.asgi, "GET", "/login/", {"host": "evil.example"})).status == 404
    monkeypatch.setattr(refusals, "page", _broken)
    answers.append(("500", site.run(ask(site.asgi, "GET", "/nothing", {"accept": "text/html"}))))
    assert answers[-1][1].status == 500
    assert b"a secret" not in answers[-1][1].body
    for path, answer in answers:
        for name, value in HEADERS.items():
            if name == "cache-control" and path.startswith("/assets/") and answer.status == 200:
                continue
            assert answer.headers.getlist(name) == [value], (path, name, answer)


def test_the_policy_of_content_allows_no_inline_script() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    assert (policy["frame-ancestors"], policy["base-uri"], policy["form-action"]) == ("'none'", "'none'", "'self'")
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_secrets_are_in_no_answer(site: Site, pages: list[Rule], queue: JobQueue) -> None:
    job = queue.enqueue("films")
    for rule in pages:
        answer = seen(site, rule, job)
        assert OPERATOR.encode() not in answer.body
        assert VIEWER.encode() not in answer.body


def _broken(*_: object, **__: object) -> Any:
    raise RuntimeError("a secret of the server")


def _has(value: Any, text: str) -> bool:
    """Whether a text is in there, as a value or as a key."""
    if isinstance(value, dict):
        return any(_has(key, text) or _has(item, text) for key, item in value.items())
    if isinstance(value, list):
        return any(_has(item, text) for item in value)
    return isinstance(value, str) and text in value
