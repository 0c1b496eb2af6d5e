"""Events of jobs over HTTP, for browsers (EventSource) and anything else that reads server-sent events.

Who may read them, the application decides that mounts this: there is no authentication here.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from uuid import UUID

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from treadle.app import Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.jobs import job_id
from treadle.watching.updates import job_updates
from treadle.web.frames import end_frame, event_frame, progress_frame
from treadle.web.stream import HEADERS, EventStream
from treadle.words.errors import InvalidArgument, JobNotFound, TreadleError
from treadle.words.record import RecordedEvent

log = logging.getLogger("treadle")


def events_app(app: Treadle) -> Starlette:
    """`GET /jobs/{id}/events` and `GET /events`, for an ASGI application: `mount("/queue", events_app(app))`.

    The queue stays open when it ends: close it where it was made.
    """

    async def of_job(request: Request) -> Response:
        job = job_id(request.path_params["id"])
        after = _after(request)
        event_queries.Position.read(after)
        found = await app.database.arun(snapshot_queries.get_job_states([job]))
        if job not in found:
            raise JobNotFound(job)
        return _answer(request, _job_frames(app, job, after))

    async def of_all(request: Request) -> Response:
        after = _after(request)
        event_queries.Place.read(after)
        await app.database.arun(snapshot_queries.get_job_states([]))
        types, names = _listed(request, "types"), _listed(request, "names")
        return _answer(request, _all_frames(app, types, names, after))

    return Starlette(
        routes=[Route("/jobs/{id}/events", of_job), Route("/events", of_all)],
        exception_handlers={
            InvalidArgument: _refusal(400),
            JobNotFound: _refusal(404),
            # What is wrong with the database is for the log, not for the client.
            TreadleError: _refusal(503, "the queue cannot be reached"),
            DatabaseError: _refusal(503, "the queue cannot be reached"),
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


def _answer(request: Request, frames: AsyncGenerator[bytes, None]) -> Response:
    if request.method == "HEAD":
        return Response(media_type=EventStream.media_type, headers=HEADERS)
    return EventStream(frames)


def _refusal(status: int, said: str | None = None) -> Callable[[Request, Exception], Response]:
    def refuse(request: Request, error: Exception) -> Response:
        if said is not None:
            log.error("events cannot be sent: %s", error)
        return JSONResponse({"error": said or str(error)}, status)

    return refuse


def _after(request: Request) -> str | None:
    """Where a browser comes back, it says so in the header, and the address is the one it had first."""
    return request.headers.get("last-event-id") or request.query_params.get("after") or None


def _listed(request: Request, name: str) -> list[str] | None:
    parts = [part.strip() for text in request.query_params.getlist(name) for part in text.split(",")]
    return [part for part in parts if part] or None
