"""The forms on the pages. Each redirects back to the page that it was on, which shows the result."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from starlette.responses import JSONResponse, RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import workflows as workflow_queries
from treadle.db.queries.jobs import job_id
from treadle.jobs import edits
from treadle.jobs.edits import Author
from treadle.operations import bulk
from treadle.operations.bulk import Confirmed
from treadle.text.masking import masked
from treadle.web.dashboard.actions import Chunk, check_pause
from treadle.web.dashboard.filters import filter_of
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path, with_result
from treadle.words.changes import Action
from treadle.words.errors import InvalidArgument, shown
from treadle.words.listing import JobFilter

Choice = TypeVar("Choice", bound=str)
Form: TypeAlias = Callable[[Choice, Context], Awaitable[Response]]


def form_routes(path: str, actions: Sequence[Choice], confirm: Form[Choice], change: Form[Choice]) -> list[RouteSpec]:
    """For each action the page that asks for confirmation, and the change."""
    return [
        RouteSpec(method, path.format(action=action), partial(endpoint, action), Role.OPERATOR)
        for action in actions
        for method, endpoint in (("GET", confirm), ("POST", change))
    ]


def redirect_back(context: Context, default: str, **result: str) -> Response:
    """To the page on which the form was, which shows the result."""
    back = local_path(context.field("back")) or default
    return RedirectResponse(context.url(with_result(back, **result)), 303)


def answer_chunk(context: Context, default: str, action: Action, chunk: Chunk) -> Response:
    """As JSON for the script, which goes on until all jobs are changed."""
    if "application/json" in context.request.headers.get("accept", ""):
        return JSONResponse(chunk._asdict())
    counts = {name: str(value) for name, value in chunk._asdict().items() if value}
    return redirect_back(context, default, bulk=action.value, **(counts or {"done": "0"}))


def routes(app: Treadle) -> list[RouteSpec]:
    arun = app.database.arun

    async def change(action: Action, context: Context) -> Response:
        job, actor, reason = job_id(context.request.path_params["id"]), context.visitor.actor, context.field("reason")
        (done,) = await arun(operation_queries.change_jobs(action, [job], actor, reason, _priority(context, action)))
        job_page = f"/jobs/{job}"
        back = local_path(context.field("back")) or job_page
        is_gone = done.outcome == "missing" or (action is Action.DELETE and done.outcome == "done")
        if is_gone and back.partition("?")[0] == job_page:
            back = "/jobs"
        return RedirectResponse(context.url(with_result(back, **{done.outcome: action.value})), 303)

    async def edit(context: Context) -> Response:
        job = await arun(job_queries.get_job(context.request.path_params["id"]))
        author = Author(context.visitor.actor, context.field("reason"))
        retry = context.field("retry") is not None
        queries = edits.edit(app.backend, job, _arguments(context), author, retry=retry)
        done = (await app.database.arun_together(queries))[-1]
        return redirect_back(context, f"/jobs/{job.id}", **{"done" if done else "unfit": "edit"})

    async def copy(context: Context) -> Response:
        job = await arun(job_queries.get_job(context.request.path_params["id"]))
        author = Author(context.visitor.actor, context.field("reason"), act_of(context))
        queries = edits.copy(app.backend, job, _arguments(context), author)
        made = (await app.database.arun_together(queries))[-1]
        return RedirectResponse(context.url(with_result(f"/jobs/{made}", done="copy")), 303)

    async def send_signal(context: Context) -> Response:
        job, name, value = job_id(context.request.path_params["id"]), context.field("name"), context.field("value")
        done = await arun(workflow_queries.send_signal(job, name or "", _json(value), context.visitor.actor))
        return redirect_back(context, f"/jobs/{job}", **{"done" if done else "unfit": "signal"})

    async def change_several(context: Context) -> Response:
        action = _action(context)
        ids = [job_id(each) for each in context.form.get("ids", [])]
        given = action, context.visitor.actor, context.field("reason"), _priority(context, action)
        act = act_of(context)
        if ids:
            done = await arun(operation_queries.change_jobs(given[0], ids, *given[1:], act))
            counts, following = bulk.counted(done), None
        else:
            job_filter, after = _filter(context), context.field("after")
            _check_number(context, action)
            counts, following = await bulk.achange_chunk(
                app.database, job_filter, *given, after, act, _confirmed(context)
            )
        return answer_chunk(context, "/jobs", action, Chunk(*counts, following))

    async def pause(context: Context) -> Response:
        job_type, queue = job_type_of(context), context.field("queue")
        check_pause(job_type, queue, context.field("everything") is not None)
        query = operation_queries.pause(job_type, queue, context.visitor.actor, context.field("reason"))
        return redirect_back(context, "/", **{"done" if await arun(query) else "unfit": "pause"})

    async def resume(context: Context) -> Response:
        job_type, queue = job_type_of(context), context.field("queue")
        query = operation_queries.resume(job_type, queue, context.visitor.actor, context.field("reason"))
        return redirect_back(context, "/", **{"done" if await arun(query) else "unfit": "resume"})

    async def confirm_resume(context: Context) -> Response:
        job_type, queue = job_type_of(context), context.field("queue")
        pauses = await app.database.aread(operation_queries.find_pauses())
        found = next((each for each in pauses if (each.job_type, each.queue) == (job_type, queue)), None)
        reason = None if found is None else masked(found.reason)
        return page(context, "resume.html", job_type=job_type, queue=queue, pause=found, reason=reason)

    return [
        *(RouteSpec("POST", f"/jobs/{{id}}/{each}", partial(change, each), Role.OPERATOR) for each in Action),
        RouteSpec("POST", "/jobs/{id}/edit", edit, Role.OPERATOR),
        RouteSpec("POST", "/jobs/{id}/copy", copy, Role.OPERATOR),
        RouteSpec("POST", "/jobs/{id}/signal", send_signal, Role.OPERATOR),
        RouteSpec("POST", "/bulk", change_several, Role.OPERATOR),
        RouteSpec("POST", "/pauses", pause, Role.OPERATOR),
        RouteSpec("GET", "/resume", confirm_resume, Role.OPERATOR),
        RouteSpec("POST", "/resumes", resume, Role.OPERATOR),
    ]


def job_type_of(context: Context) -> str | None:
    """`job_type`, or `type` as in the list of jobs."""
    given, short = context.field("job_type"), context.field("type")
    if given is not None and short is not None and given != short:
        raise InvalidArgument(f"give either job_type or type, got {shown(given)} and {shown(short)}")
    return given or short


def _arguments(context: Context) -> dict[str, Any]:
    given = _json(context.field("arguments"))
    if given is not None and not isinstance(given, dict):
        raise InvalidArgument(f'the arguments must be a JSON object, such as {{"user": 8}}, got {shown(given)}')
    return given or {}


def _json(text: str | None) -> Any:
    try:
        return None if text is None or not text.strip() else json.loads(text)
    except ValueError:
        raise InvalidArgument(f'the value must be JSON, such as {{"by": "ann"}}, got {shown(text)}') from None


def _action(context: Context) -> Action:
    given = context.field("action")
    try:
        return Action(given or "")
    except ValueError:
        raise InvalidArgument(f"action must be one of {', '.join(Action)}, got {shown(given)}") from None


def act_of(context: Context) -> UUID | None:
    """The number of the form: it can be submitted once."""
    given = context.field("act")
    try:
        return None if given is None else UUID(given)
    except ValueError:
        raise InvalidArgument(f"act must be a UUID, got {shown(given)}; open the form again") from None


def _check_number(context: Context, action: Action) -> None:
    """To delete all jobs that match, one must have typed how many they are."""
    if action is not Action.DELETE:
        return
    number, given = context.field("number") or "", context.field("confirm")
    if not number or re.sub(r"[\s,.']", "", given or "") != number:
        raise InvalidArgument(
            f"to delete all matching jobs, type their number: expected {number or 'the number on the page'}, "
            f"got {'nothing' if given is None else shown(given)}; nothing was deleted"
        )


def _confirmed(context: Context) -> Confirmed:
    """What was on the page with the form."""
    given = [context.field(name) for name in ("counted_at", "at_most")]
    for name, each in zip(("counted_at", "at_most"), given, strict=True):
        if each is not None and re.fullmatch("[0-9]{1,17}", each, re.ASCII) is None:
            raise InvalidArgument(f"{name} must be a number, got {shown(each)}; open the form again")
    return Confirmed(*(None if each is None else int(each) for each in given))


def _filter(context: Context) -> JobFilter:
    job_filter = filter_of(context)
    if not any(job_filter) and not context.field("all"):
        # An empty form must not change every job.
        raise InvalidArgument("no jobs were selected; give ids or a filter, or set all to change every job")
    return job_filter


def _priority(context: Context, action: Action) -> int | None:
    given = context.field("priority")
    if action is not Action.PRIORITY:
        return None  # one form serves several actions, and always contains this field
    if re.fullmatch(r"[+-]?[0-9]{1,10}", given or "") is None:
        raise InvalidArgument(f"priority must be an integer, got {shown(given)}")
    return int(given or "")
