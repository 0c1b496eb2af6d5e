"""The JSON API: what the pages show and do, under the same gate."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from treadle.app import Treadle
from treadle.db.queries import listing
from treadle.db.queries import operations as operate
from treadle.db.queries import overview as looks
from treadle.db.queries.jobs import job_id
from treadle.doctor import worst
from treadle.operations.details import Life, alife
from treadle.operations.overview import aoverview
from treadle.web.dashboard import answers, openapi, operating, questions
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.health import Health
from treadle.web.dashboard.redaction import may_look_inside, reason_veiled, veiled
from treadle.web.dashboard.routes import Asked, Endpoint, Rule
from treadle.why.explain import awhy
from treadle.words.changes import Action
from treadle.words.errors import InvalidArgument, JobNotFound, shown
from treadle.words.masking import masked

Value = TypeVar("Value", bound=BaseModel)
Reply: TypeAlias = Callable[[Asked, Any], Awaitable[Any]]


def rules(app: Treadle, doctor: Health) -> list[Rule]:
    async def overview(asked: Asked, given: questions.OverviewQuestion) -> Any:
        return await aoverview(app, int(given.window))

    async def jobs(asked: Asked, given: questions.JobsQuestion) -> Any:
        _check_search(asked, given)
        return await app.database.alook(listing.find_jobs(given.wanted, given.after, given.limit))

    async def job(asked: Asked, given: None) -> Any:
        return _job(veiled(asked.visitor.role, await alife(app, job_id(asked.request.path_params["id"]))))

    async def why(asked: Asked, given: None) -> Any:
        return reason_veiled(await awhy(app.database, job_id(asked.request.path_params["id"])))

    async def health(asked: Asked, given: None) -> Any:
        findings = await doctor.findings()
        return {"level": worst(findings), "findings": findings}

    async def workers(asked: Asked, given: None) -> Any:
        return {"workers": await app.database.alook(looks.find_recent_workers())}

    async def pauses(asked: Asked, given: None) -> Any:
        return {"pauses": await app.database.alook(operate.find_pauses())}

    async def audit(asked: Asked, given: questions.AuditQuestion) -> Any:
        query = operate.find_audit(given.job_id, given.before, given.limit + 1)
        found = await app.database.alook(query)
        return {
            "changes": found[: given.limit],
            "next": found[given.limit - 1].id if len(found) > given.limit else None,
        }

    def changing(action: Action) -> Reply:
        async def change(asked: Asked, given: questions.Order) -> Any:
            meant = job_id(asked.request.path_params["id"])
            priority = given.priority if isinstance(given, questions.PriorityOrder) else None
            done = await operating.change(app, asked.visitor, action, meant, given.reason, priority)
            if done.outcome == "missing":
                raise JobNotFound(meant)
            if done.outcome == "busy":
                raise HTTPException(409, f"somebody else holds job {meant} at this moment; try again")
            if done.outcome == "unfit":
                raise HTTPException(
                    409, f"job {meant} is {done.status}: this cannot be done to it, or nothing would change"
                )
            return done

        return change

    async def bulk(asked: Asked, given: questions.BulkOrder) -> Any:
        if given.ids is not None:
            return await operating.change_these(
                app, asked.visitor, given.action, given.ids, given.reason, given.priority
            )
        assert given.filter is not None  # noqa: S101 - for the type checker
        return await operating.change_matching(
            app, asked.visitor, given.action, given.filter.wanted, given.after, given.reason, given.priority
        )

    async def pause(asked: Asked, given: questions.PauseMoreOrder) -> Any:
        done = await operating.pause(app, asked.visitor, given.job_type, given.queue, given.everything, given.reason)
        return {"done": done}

    async def resume(asked: Asked, given: questions.PauseOrder) -> Any:
        return {"done": await operating.resume(app, asked.visitor, given.job_type, given.queue, given.reason)}

    def get(path: str, reply: Reply, gives: Any, summary: str, asks: type[BaseModel] | None = None) -> Rule:
        return Rule("GET", path, _answering(reply, gives, asks), Role.VIEWER, summary, gives, asks=asks)

    def post(path: str, reply: Reply, gives: Any, summary: str, takes: type[BaseModel]) -> Rule:
        return Rule("POST", path, _answering(reply, gives, None, takes), Role.OPERATOR, summary, gives, takes)

    made = [
        get("/api/overview", overview, answers.OverviewAnswer, "The queue at a glance", questions.OverviewQuestion),
        get("/api/jobs", jobs, answers.ListAnswer, "Jobs, page by page", questions.JobsQuestion),
        get("/api/jobs/{id}", job, answers.JobAnswer, "A job's whole life"),
        get("/api/jobs/{id}/why", why, answers.WhyAnswer, "Why a job does not run"),
        get("/api/health", health, answers.HealthAnswer, "What makes the queue ill"),
        get("/api/workers", workers, answers.WorkersAnswer, "Workers"),
        get("/api/pauses", pauses, answers.PausesAnswer, "What is paused"),
        get("/api/audit", audit, answers.AuditAnswer, "What operators changed", questions.AuditQuestion),
        *(
            post(
                f"/api/jobs/{{id}}/{action.value}",
                changing(action),
                answers.ChangedAnswer,
                said,
                questions.PriorityOrder if action is Action.PRIORITY else questions.Order,
            )
            for action, said in operating.SAID.items()
        ),
        post("/api/bulk", bulk, answers.ChunkAnswer, "Change several jobs, a chunk at a time", questions.BulkOrder),
        post("/api/pauses", pause, answers.DoneAnswer, "Pause a type or a queue", questions.PauseMoreOrder),
        post("/api/resumes", resume, answers.DoneAnswer, "End a pause", questions.PauseOrder),
    ]

    async def description(asked: Asked) -> Response:
        return JSONResponse(openapi.describe(made, asked.url("")))

    return [*made, Rule("GET", "/api/openapi.json", description, Role.VIEWER, "This description", dict[str, Any])]


def _answering(
    reply: Reply, gives: type[BaseModel], asks: type[BaseModel] | None = None, takes: type[BaseModel] | None = None
) -> Endpoint:
    async def answer(asked: Asked) -> Response:
        given = _body(asked, takes) if takes else _query(asked, asks)
        # Every answer is masked here, so that no route can forget it.
        said = gives.model_validate(masked(await reply(asked, given)))
        return Response(said.model_dump_json(), media_type="application/json")

    return answer


def _query(asked: Asked, asks: type[BaseModel] | None) -> BaseModel | None:
    given = asked.request.query_params
    if len(given.multi_items()) > len(given):
        raise InvalidArgument("a parameter was given twice")
    if asks is None:
        if given:
            raise InvalidArgument(f"there are no parameters here, got {shown(next(iter(given)))}")
        return None
    return _checked(asks, dict(given))


def _body(asked: Asked, takes: type[BaseModel]) -> BaseModel:
    headers = asked.request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if kind != "application/json" and not empty:
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    return _checked(takes, {} if empty else asked.sent)


def _checked(model: type[Value], given: Any) -> Value:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{shown(where) + ': ' if where else ''}{first['msg']}") from None


def _check_search(asked: Asked, given: questions.Filter) -> None:
    if given.search is not None and not may_look_inside(asked.visitor.role):
        raise HTTPException(403, "a search looks into payloads, and so it needs the role operator")


def _job(life: Life) -> dict[str, Any]:
    row = life.job._asdict()
    return {
        **{name: row[name] for name in answers.JobAnswer.model_fields if name in row},
        "stage": life.job.current_stage,
        "error": life.job.last_error,
        "failed_attempts": life.errors,
        "steps": life.steps,
        "events": life.events,
        "earlier_events": life.earlier_events,
        "logs": life.logs,
        "earlier_logs": life.earlier_logs,
        "audit": life.audit,
    }
