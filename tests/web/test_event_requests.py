"""Requests for event streams: invalid ones are refused, and the application decides about access."""

from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.web import Server, read, serving
from tests.support.workers import until
from treadle import JobQueue, JobRow, Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import events as event_queries
from treadle.watching import streams
from treadle.watching.streams import Stream
from treadle.watching.watch import ANY
from treadle.web import events_app


def get(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(server.url + path, headers=headers, timeout=60)


def test_invalid_requests_get_a_json_error(server: Server, job: JobRow) -> None:
    unknown = uuid4()
    refused = get(server, f"/jobs/{unknown}/events")
    assert (refused.status_code, refused.json()) == (
        404,
        {"error": f"there is no job {unknown}; it may have been pruned"},
    )
    for path in (
        "/jobs/seven/events",
        f"/jobs/{job.id}/events?after=soon",
        f"/jobs/{job.id}/events?after=-1",
        f"/jobs/{job.id}/events?after=1.2",
        f"/jobs/{job.id}/events?after={2**31}",
        f"/jobs/{job.id}/events?after=1.{2**63}.1",
        f"/jobs/{job.id}/events?after={'9' * 5000}",
        "/events?after=1",
        f"/events?after={2**64}.{uuid4()}.1",
        f"/events?after=1.{uuid4()}.{2**31}",
        "/events?after=1.seven.1",
        f"/events?after=-1.{uuid4()}.1",
    ):
        refused = get(server, path)
        assert refused.status_code == 400, path
        assert "must be" in refused.json()["error"] or "expected the id of a job" in refused.json()["error"]
    refused = get(server, f"/jobs/{job.id}/events", **{"last-event-id": "soon"})
    assert refused.status_code == 400
    assert httpx.post(f"{server.url}/jobs/{job.id}/events").status_code == 405


def test_an_error_of_the_database_ends_the_stream(app: Treadle) -> None:
    """A cursor that passes the checks but that PostgreSQL refuses must not be retried forever."""
    place = event_queries.Cursor(number=2**40)
    stream = Stream(app.database, app.watch, lambda: streams._all_events(None, None, place, True), [ANY], 1.0)
    with pytest.raises(DatabaseError, match="out of range"):
        next(iter(stream))


def test_a_head_request_starts_no_stream(server: Server, job: JobRow) -> None:
    with httpx.Client() as client:
        head = client.head(f"{server.url}/jobs/{job.id}/events")
        assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        until(lambda: server.tasks() == 0)


def test_clients_do_not_see_details_of_database_errors() -> None:
    app = Treadle("postgresql://ada:secret@127.0.0.1:1/app")
    with serving(events_app(app)) as server:
        for path in (f"/jobs/{uuid4()}/events", "/events"):
            refused = get(server, path)
            assert (refused.status_code, refused.json()) == (503, {"error": "the database is unavailable"})


class Authentication:
    """A middleware for authentication, as an application might have one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: ASGIApp = self.app
        if scope["type"] == "http" and Request(scope).headers.get("authorization") != "Bearer me":
            response = PlainTextResponse("unauthorized", 401)
        await response(scope, receive, send)


def test_the_application_that_mounts_it_controls_access(app: Treadle, queue: JobQueue, job: JobRow) -> None:
    queue.complete(job)
    outer = Starlette(routes=[Mount("/queue", events_app(app))], middleware=[Middleware(Authentication)])
    with serving(outer) as server:
        path = f"/queue/jobs/{job.id}/events"
        assert get(server, path).status_code == 401
        assert read(server, path, authorization="Bearer me")[-1].name == "end"
