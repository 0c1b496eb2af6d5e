"""Input that cannot be right is refused with a sentence, wherever it comes from: pages, live updates and the API."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.dashboard_requests import Reply, protected_routes, request
from tests.support.dashboards import OPERATOR, Site
from treadle import JobQueue

# Of every page, list and endpoint.
PARAMETERS = (
    *("act", "action", "actor", "after", "before", "job_id", "job_type", "key", "name", "order", "queue", "search"),
    *("since", "state", "status", "type", "until", "where", "window", "worker"),
)


def get(site: Site, target: str) -> Reply:
    headers = {"authorization": f"Bearer {OPERATOR}", "accept": "text/html"}
    reply: Reply = site.run(request(site.asgi, "GET", target, headers))
    return reply


def message(reply: Reply) -> str:
    return re.sub(r"<[^>]*>", " ", reply.text)


def test_a_nul_character_is_refused_by_every_address(site: Site) -> None:
    paths = {
        route.path.replace("{id}", "7") for route in protected_routes(site.asgi) if route.method == "GET" and route.role
    }
    assert {"/audit", "/api/acts", "/live/jobs"} <= paths
    query = "&".join(f"{name}=a%00b" for name in PARAMETERS)
    for path in sorted(paths):
        reply = get(site, f"{path}?{query}")
        assert reply.status == 400, (path, reply.text)
    for name in ("actor", "action", "job_type"):
        reply = get(site, f"/api/acts?{name}=%00")
        assert reply.status == 400
        assert name in reply.text
        assert "NUL" in reply.text
    assert get(site, "/jobs/%00").status in (400, 404)


@pytest.mark.parametrize(
    "target",
    [
        "errors?order=zz",
        f"errors?type={'x' * 51}",
        f"errors?queue={quote(chr(10))}",
        "errors/zz",
        "workflows?state=zz",
        "workflows?after=zz",
        "schedules?state=zz",
        f"schedules?after={'x' * 101}",
        f"limits?search={'x' * 101}",
        "jobs?status=zz",
        "jobs?since=zz",
        f"jobs?type={'x' * 51}",
        f"jobs?search={'x' * 201}",
        "types?window=zz",
        "queue?window=zz&name=default",
        f"type?name={'x' * 51}",
        "queue",
    ],
)
def test_live_updates_refuse_what_the_page_refuses(site: Site, target: str) -> None:
    """A stream that has begun could only say that it is unavailable, again and again."""
    page, live = get(site, f"/{target}"), get(site, f"/live/{target}")
    assert page.status == live.status, (page.status, live.text)
    if page.status != 200:
        assert "event-stream" not in live.headers["content-type"]
        assert message(page) == message(live) or "<title>" in page.text


def test_blocked_has_one_name_everywhere(site: Site, queue: JobQueue) -> None:
    first, second = (queue.enqueue("films", key="lang") for _ in range(2))
    later = queue.enqueue("films", delay=60)
    found = json.loads(get(site, "/api/jobs?status=blocked").text)["jobs"]
    assert [each["id"] for each in found] == [str(second)]
    confirmation = get(site, "/bulk?action=cancel&all=1&status=blocked").text
    assert '<input type="hidden" name="status" value="blocked">' in confirmation
    assert get(site, "/live/jobs?status=blocked").status == 200
    assert "blocked" in get(site, "/jobs?status=zz").text
    assert "held" not in message(get(site, "/jobs?status=zz"))
    assert "held" not in message(get(site, "/bulk?action=retry&all=1&status=pending"))
    page = get(site, "/jobs?status=later").text
    assert '<a href="/jobs?status=later" aria-current="true">' in page
    assert str(later) in page
    assert str(first) not in page


@pytest.mark.parametrize(
    ("method", "path", "body", "sentence"),
    [
        (
            "GET",
            "/api/jobs?type=a%0Ab",
            None,
            "type must not be empty or contain NUL characters or line breaks, got 'a",
        ),
        ("GET", "/api/jobs?limit=many", None, "limit must be an integer, got 'many'"),
        ("GET", "/api/jobs?limit=0", None, "limit must be at least 1, got '0'"),
        ("GET", "/api/jobs?nonsense=1", None, "there is no parameter nonsense; there are: status, type"),
        ("GET", f"/api/jobs?type={'x' * 51}", None, "type must have at most 50 characters, got 'xxx"),
        ("GET", "/api/audit?act=x", None, "act must be a UUID, got 'x'"),
        ("GET", "/api/errors?order=zz", None, "order must be 'failures', 'last_seen' or 'first_seen', got 'zz'"),
        ("POST", "/api/bulk", [], "the body must be a JSON object, got a list of 0"),
        ("POST", "/api/bulk", {"action": "retry"}, "give either ids or filter"),
        ("POST", "/api/bulk", {"ids": []}, "action is required"),
        ("POST", "/api/bulk", {"action": "x", "ids": ["y"]}, "action must be 'retry', 'cancel', "),
        ("POST", "/api/bulk", {"action": "retry", "ids": ["y"]}, "ids.0 must be a UUID, got 'y'"),
        ("POST", "/api/schedules/pause", {"name": 7}, "name must be a string, got 7"),
    ],
)
def test_the_api_says_what_was_expected(site: Site, method: str, path: str, body: Any, sentence: str) -> None:
    answer = site.program(OPERATOR).send(method, path, **({} if body is None else {"json": body}))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(sentence)
