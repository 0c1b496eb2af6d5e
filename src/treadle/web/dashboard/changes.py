"""Changes by the forms of the pages. Each answers with the page it came from, which says what came of it."""

import re

from starlette.responses import JSONResponse, RedirectResponse, Response

from treadle.app import Treadle
from treadle.db.queries.jobs import job_id
from treadle.web.dashboard import operating
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.roots import own_path, with_words
from treadle.web.dashboard.routes import Asked, Endpoint, Rule
from treadle.words.changes import Action
from treadle.words.errors import InvalidArgument, shown
from treadle.words.listing import Wanted


def rules(app: Treadle) -> list[Rule]:
    def changing(action: Action) -> Endpoint:
        async def change(asked: Asked) -> Response:
            job = job_id(asked.request.path_params["id"])
            priority = _priority(asked, action)
            done = await operating.change(app, asked.visitor, action, job, asked.field("reason"), priority)
            own = f"/jobs/{job}"
            back = own_path(asked.field("back")) or own
            gone = done.outcome == "missing" or (action is Action.DELETE and done.outcome == "done")
            if gone and back.partition("?")[0] == own:
                back = "/jobs"
            return RedirectResponse(asked.url(with_words(back, **{done.outcome: action.value})), 303)

        return change

    async def bulk(asked: Asked) -> Response:
        action = _action(asked)
        ids = [job_id(each) for each in asked.form.get("ids", [])]
        reason, priority = asked.field("reason"), _priority(asked, action)
        if ids:
            chunk = await operating.change_these(app, asked.visitor, action, ids, reason, priority)
        else:
            wanted, after = _wanted(asked), asked.field("after")
            chunk = await operating.change_matching(app, asked.visitor, action, wanted, after, reason, priority)
        if "application/json" in asked.request.headers.get("accept", ""):
            return JSONResponse(chunk._asdict())
        words = {name: str(value) for name, value in chunk._asdict().items() if value}
        return _back(asked, "/jobs", bulk=action.value, **(words or {"done": "0"}))

    async def pause(asked: Asked) -> Response:
        done = await operating.pause(
            app,
            asked.visitor,
            asked.field("job_type"),
            asked.field("queue"),
            asked.field("everything") is not None,
            asked.field("reason"),
        )
        return _back(asked, "/", **{"done" if done else "unfit": "pause"})

    async def resume(asked: Asked) -> Response:
        done = await operating.resume(
            app, asked.visitor, asked.field("job_type"), asked.field("queue"), asked.field("reason")
        )
        return _back(asked, "/", **{"done" if done else "unfit": "resume"})

    return [
        *(
            Rule("POST", f"/jobs/{{id}}/{action.value}", changing(action), Role.OPERATOR, said)
            for action, said in operating.SAID.items()
        ),
        Rule("POST", "/bulk", bulk, Role.OPERATOR, "Change several jobs"),
        Rule("POST", "/pauses", pause, Role.OPERATOR, "Pause a job type or a queue"),
        Rule("POST", "/resumes", resume, Role.OPERATOR, "End a pause"),
    ]


def _back(asked: Asked, otherwise: str, **words: str) -> Response:
    back = own_path(asked.field("back")) or otherwise
    return RedirectResponse(asked.url(with_words(back, **words)), 303)


def _action(asked: Asked) -> Action:
    given = asked.field("action")
    try:
        return Action(given or "")
    except ValueError:
        raise InvalidArgument(f"action must be one of {', '.join(Action)}, got {shown(given)}") from None


def _wanted(asked: Asked) -> Wanted:
    wanted = Wanted(*map(asked.field, ("status", "type", "queue", "worker", "key", "search")))
    if not any(wanted) and not asked.field("all"):
        # An empty form must not mean every job there is.
        raise InvalidArgument("no job was meant: give ids or a filter; to change all, say so: all")
    return wanted


def _priority(asked: Asked, action: Action) -> int | None:
    given = asked.field("priority")
    if action is not Action.PRIORITY:
        return None  # a form for several actions has the field, whatever is done
    if re.fullmatch(r"[+-]?[0-9]{1,10}", given or "") is None:
        raise InvalidArgument(f"priority must be a whole number, got {shown(given)}")
    return int(given or "")
