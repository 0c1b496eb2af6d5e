"""Streams the events of jobs over HTTP as server-sent events, for browsers (EventSource) and other clients.

There is no authentication here: the application that mounts this must provide it.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from uuid import UUID

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from treadle.app.treadle import Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.jobs import job_id
from treadle.text.log import log
from treadle.text.masking import masked
from treadle.watching.updates import job_updates
from treadle.web.stream import HEADERS, EventStream, end_frame, event_frame, progress_frame
from treadle.words.errors import InvalidArgument, JobNotFound, TreadleError
from treadle.words.record import RecordedEvent


def events_app(app: Treadle) -> Starlette:
    """`GET /jobs/{id}/events` and `GET /events`, for an ASGI application: `mount("/queue", events_app(app))`.

    It does not close `app`: close that where you created it.
    """

    async def job_events(request: Request) -> Response:
        job = job_id(request.path_params["id"])
        after = _after(request)
        event_queries.Position.read(after)
        found = await app.database.arun(snapshot_queries.get_job_states([job]))
        if job not in found:
            raise JobNotFound(job)
        return _stream(request, _job_frames(app, job, after))

    async def all_events(request: Request) -> Response:
        after = _after(request)
        event_queries.Cursor.read(after)
        await app.database.arun(snapshot_queries.get_job_states([]))
        types, names = _list(request, "types"), _list(request, "names")
        return _stream(request, _all_frames(app, types, names, after))

    return Starlette(
        routes=[Route("/jobs/{id}/events", job_events), Route("/events", all_events)],
        exception_handlers={
            InvalidArgument: _error_handler(400),
            JobNotFound: _error_handler(404),
            # The details of a database error are for the log, not for clients.
            TreadleError: _error_handler(503, "the database is unavailable"),
            DatabaseError: _error_handler(503, "the database is unavailable"),
        },
    )


async def _job_frames(app: Treadle, job: UUID, after: str | None) -> AsyncGenerator[bytes, None]:
    status: str | None = None
    async with aclosing(aiter(job_updates(app.database, app.watch, job, after))) as updates:
        async for each in updates:
            if isinstance(each, RecordedEvent):
                yield event_frame(each)
            else:
                status = each.status
                yield progress_frame(each)
    yield end_frame(status)


async def _all_frames(
    app: Treadle, types: list[str] | None, names: list[str] | None, after: str | None
) -> AsyncGenerator[bytes, None]:
    async with aclosing(aiter(app.events(types=types, names=names, after=after))) as events:
        async for event in events:
            yield event_frame(event, with_job=True)


def _stream(request: Request, frames: AsyncGenerator[bytes, None]) -> Response:
    if request.method == "HEAD":
        return Response(media_type=EventStream.media_type, headers=HEADERS)
    return EventStream(frames)


def _error_handler(status: int, message: str | None = None) -> Callable[[Request, Exception], Response]:
    def respond(request: Request, error: Exception) -> Response:
        if message is not None:
            log.error("cannot send events: %s", error)
        return JSONResponse({"error": message or masked(str(error))}, status)

    return respond


def _after(request: Request) -> str | None:
    """A browser that reconnects repeats the original URL, so the header takes precedence over the parameter."""
    return request.headers.get("last-event-id") or request.query_params.get("after") or None


def _list(request: Request, name: str) -> list[str] | None:
    parts = [part.strip() for text in request.query_params.getlist(name) for part in text.split(",")]
    return [part for part in parts if part] or None
