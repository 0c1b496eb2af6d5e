"""The endpoints of the JSON API. They offer what the pages show and do, with the same roles."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from uuid import UUID

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.doctor import worst
from treadle.operations.details import JobDetails, aget_details
from treadle.operations.graph import aget_job_graph
from treadle.operations.ids import aresolve_id
from treadle.operations.overview import aoverview
from treadle.text.masking import masked
from treadle.web.dashboard import actions
from treadle.web.dashboard.actions import LimitAction
from treadle.web.dashboard.api import error_operations, openapi, places
from treadle.web.dashboard.api import graph_models as graph_responses
from treadle.web.dashboard.api import limit_models as limit_responses
from treadle.web.dashboard.api import request_models as requests
from treadle.web.dashboard.api import response_models as responses
from treadle.web.dashboard.api.schedule_models import ScheduleChange, ScheduleList
from treadle.web.dashboard.api.validation import read_body, read_query
from treadle.web.dashboard.health import LONGEST_SECONDS, HealthCheck
from treadle.web.dashboard.redaction import redact_details, redact_graph, redact_reason
from treadle.web.dashboard.routes import Context, Endpoint, RouteSpec
from treadle.web.dashboard.searches import Searches
from treadle.web.dashboard.security.access import Role
from treadle.why.explain import awhy, awhy_schedule
from treadle.words.changes import Action
from treadle.words.errors import JobNotFound

Operation: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


def routes(app: Treadle, check: HealthCheck, searches: Searches) -> list[RouteSpec]:
    async def target_of(context: Context) -> UUID:
        """The job in the path, which may be given by the first or last digits of its id."""
        return await aresolve_id(app.database, context.request.path_params["id"])

    async def overview(context: Context, given: requests.OverviewQuery) -> Any:
        return await aoverview(app.database, int(given.window))

    async def jobs(context: Context, given: requests.JobsQuery) -> Any:
        return await searches.find(app.database, context.visitor.role, given.job_filter, given.after, given.limit)

    async def job(context: Context, given: None) -> Any:
        details = await aget_details(app.database, await target_of(context))
        return _job_values(redact_details(context.visitor.role, details))

    async def why(context: Context, given: None) -> Any:
        return redact_reason(await awhy(app.database, await target_of(context)))

    async def graph(context: Context, given: None) -> Any:
        found = await aget_job_graph(app.database, await target_of(context))
        return await asyncio.to_thread(lambda: graph_responses.describe(redact_graph(context.visitor.role, found)))

    async def health(context: Context, given: None) -> Any:
        report = await check.report()
        return {
            "level": worst(report.findings),
            "findings": report.findings,
            "examined_at": report.examined_at,
        }

    async def workers(context: Context, given: None) -> Any:
        return {"workers": await app.workers.alist()}

    async def names(context: Context, given: requests.NamesQuery) -> Any:
        return await app.database.aread(overview_queries.find_names(given.search))

    async def set_concurrency(context: Context, given: requests.ConcurrencyBody) -> Any:
        done = await actions.set_concurrency(app, context.visitor, given.worker_id, given.concurrency, given.reason)
        return {"done": done}

    async def pauses(context: Context, given: None) -> Any:
        return {"pauses": await app.database.aread(operation_queries.find_pauses())}

    async def audit(context: Context, given: requests.AuditQuery) -> Any:
        query = operation_queries.find_audit(given.job_id, given.before, given.limit + 1, given.act)
        found = await app.database.aread(query)
        return {
            "changes": found[: given.limit],
            "next": found[given.limit - 1].id if len(found) > given.limit else None,
        }

    async def acts(context: Context, given: requests.ActsQuery) -> Any:
        found = await app.database.aread(operation_queries.find_acts(given.chosen, given.before, given.limit))
        return {
            "acts": [
                {
                    "first": each.first,
                    "jobs": each.jobs,
                    "examples": [{"id": job, "job_type": job_type} for job, job_type in each.examples],
                }
                for each in found.acts
            ],
            "next": found.next,
        }

    async def schedules(context: Context, given: requests.SchedulesQuery) -> Any:
        query = schedule_queries.find_statuses(given.after, given.limit, search=given.search, state=given.state)
        return await app.database.aread(query)

    async def why_schedule(context: Context, given: requests.ScheduleQuery) -> Any:
        return redact_reason(await awhy_schedule(app.database, given.name))

    async def limits(context: Context, given: requests.LimitsQuery) -> Any:
        query = limit_queries.find(given.name, given.limit, key=given.key, search=given.search)
        found = await app.database.aread(query)
        return {"limits": found[: given.limit], "more": len(found) >= given.limit}

    async def set_limit(context: Context, given: requests.SetLimitBody) -> Any:
        change = (given.name, given.amount, given.key, given.seconds, given.burst, given.reason)
        await actions.set_limit(app, context.visitor, *change)
        return {"done": True}

    async def pause_limit(context: Context, given: requests.LimitBody) -> Any:
        await actions.pause_limit(app, context.visitor, given.name, given.key, given.reason)
        return {"done": True}

    async def reset_limit(context: Context, given: requests.LimitBody) -> Any:
        return {"done": await actions.reset_limit(app, context.visitor, given.name, given.key, given.reason)}

    def schedule_operation(action: actions.ScheduleAction) -> Operation:
        async def change(context: Context, given: requests.ScheduleBody) -> Any:
            done = await actions.change_schedule(app, context.visitor, action, given.name, given.reason)
            return {"done": done}

        return change

    def change_operation(action: Action) -> Operation:
        async def change(context: Context, given: requests.ChangeBody) -> Any:
            target = await target_of(context)
            priority = given.priority if isinstance(given, requests.PriorityBody) else None
            done = await actions.change(app, context.visitor, action, target, given.reason, priority)
            if done.outcome == "missing":
                raise JobNotFound(target)
            if done.outcome == "busy":
                raise HTTPException(409, f"job {target} is locked by another transaction; try again")
            if done.outcome == "unfit":
                raise HTTPException(
                    409,
                    f"job {target} is {done.status}: its status does not allow this action, or nothing would change",
                )
            return done

        return change

    async def signal(context: Context, given: requests.SignalBody) -> Any:
        target = await target_of(context)
        if not await actions.send_signal(app, context.visitor, target, given.name, given.value):
            raise HTTPException(409, f"the step has already received the signal {given.name}, or has ended")
        return {"done": True}

    async def bulk(context: Context, given: requests.BulkBody) -> Any:
        if given.ids is not None:
            return await actions.change_selected(
                app, context.visitor, given.action, given.ids, given.reason, given.priority, given.act
            )
        assert given.filter is not None  # noqa: S101 - for the type checker
        return await actions.change_matching(
            app,
            context.visitor,
            given.action,
            given.filter.job_filter,
            given.after,
            given.reason,
            given.priority,
            given.act,
        )

    async def pause(context: Context, given: requests.PauseBody) -> Any:
        done = await actions.pause(app, context.visitor, given.job_type, given.queue, given.everything, given.reason)
        return {"done": done}

    async def resume(context: Context, given: requests.ResumeBody) -> Any:
        return {"done": await actions.resume(app, context.visitor, given.job_type, given.queue, given.reason)}

    def get(
        path: str, operation: Operation, response_model: Any, summary: str, query_model: type[BaseModel] | None = None
    ) -> RouteSpec:
        endpoint = _endpoint(operation, response_model, query_model)
        return RouteSpec("GET", path, endpoint, Role.VIEWER, summary, response_model, query_model=query_model)

    def post(
        path: str, operation: Operation, response_model: Any, summary: str, body_model: type[BaseModel]
    ) -> RouteSpec:
        endpoint = _endpoint(operation, response_model, None, body_model)
        return RouteSpec("POST", path, endpoint, Role.OPERATOR, summary, response_model, body_model)

    described = [
        get("/api/overview", overview, responses.Overview, "Overview of the queue", requests.OverviewQuery),
        get("/api/jobs", jobs, responses.JobList, "List jobs", requests.JobsQuery),
        get("/api/jobs/{id}", job, responses.JobDetails, "A job with its history"),
        get("/api/jobs/{id}/why", why, responses.Why, "Why a job is not running"),
        get("/api/jobs/{id}/graph", graph, graph_responses.Graph, "The jobs of a workflow, and which wait for which"),
        get("/api/health", health, responses.Health, "Problems in the queue and its database")._replace(
            seconds=LONGEST_SECONDS
        ),
        get("/api/schedules", schedules, ScheduleList, "Schedules", requests.SchedulesQuery),
        get("/api/schedules/why", why_schedule, responses.Why, "Why a schedule does not run", requests.ScheduleQuery),
        get("/api/limits", limits, limit_responses.LimitList, "Limits, and keys of limits", requests.LimitsQuery),
        *(get(*each) for each in error_operations.reads(app)),
        *places.routes(app, get),
        get("/api/workers", workers, responses.WorkerList, "Workers"),
        get("/api/names", names, responses.Names, "Names of job types, queues and workers", requests.NamesQuery),
        get("/api/pauses", pauses, responses.PauseList, "Pauses"),
        get("/api/audit", audit, responses.AuditList, "Changes made by operators", requests.AuditQuery),
        get("/api/acts", acts, responses.ActList, "The same, one entry for all jobs of an act", requests.ActsQuery),
        *(
            post(
                f"/api/jobs/{{id}}/{action.value}",
                change_operation(action),
                responses.JobChange,
                summary,
                requests.PriorityBody if action is Action.PRIORITY else requests.ChangeBody,
            )
            for action, summary in actions.SUMMARIES.items()
        ),
        post("/api/jobs/{id}/signal", signal, responses.SignalSent, actions.SIGNAL_SUMMARY, requests.SignalBody),
        post("/api/bulk", bulk, responses.BulkChange, "Change several jobs, one chunk per request", requests.BulkBody),
        *(post(*each) for each in error_operations.changes(app)),
        post("/api/pauses", pause, responses.PauseChange, "Pause a job type or a queue", requests.PauseBody),
        post("/api/resumes", resume, responses.PauseChange, "Resume a job type or a queue", requests.ResumeBody),
        post(
            "/api/workers/concurrency",
            set_concurrency,
            responses.ConcurrencyChange,
            actions.CONCURRENCY_SUMMARY,
            requests.ConcurrencyBody,
        ),
        *(
            post(
                f"/api/schedules/{action.value}",
                schedule_operation(action),
                ScheduleChange,
                summary,
                requests.ScheduleBody,
            )
            for action, summary in actions.SCHEDULE_SUMMARIES.items()
        ),
        *(
            post(
                f"/api/limits/{action.value}",
                operation,
                limit_responses.LimitChange,
                actions.LIMIT_SUMMARIES[action],
                body,
            )
            for action, operation, body in (
                (LimitAction.SET, set_limit, requests.SetLimitBody),
                (LimitAction.PAUSE, pause_limit, requests.LimitBody),
                (LimitAction.RESET, reset_limit, requests.LimitBody),
            )
        ),
    ]

    async def openapi_json(context: Context) -> Response:
        return JSONResponse(openapi.describe(described, context.url("")))

    description = "The OpenAPI description of this API"
    return [
        *described,
        RouteSpec("GET", "/api/openapi.json", openapi_json, Role.VIEWER, description, dict[str, Any]),
    ]


def _endpoint(
    operation: Operation,
    response_model: type[BaseModel],
    query_model: type[BaseModel] | None = None,
    body_model: type[BaseModel] | None = None,
) -> Endpoint:
    async def respond(context: Context) -> Response:
        given = read_body(context, body_model) if body_model else read_query(context, query_model)
        # Every response is masked here, so that no operation can forget it.
        response = response_model.model_validate(masked(await operation(context, given)))
        return Response(response.model_dump_json(), media_type="application/json")

    return respond


def _job_values(details: JobDetails) -> dict[str, Any]:
    row = details.job._asdict()
    return {
        **{name: row[name] for name in responses.JobDetails.model_fields if name in row},
        "stage": details.job.current_stage,
        "error": details.job.last_error,
        "failed_attempts": details.errors,
        "steps": details.steps,
        "events": details.events,
        "earlier_events": details.earlier_events,
        "logs": details.logs,
        "earlier_logs": details.earlier_logs,
        "audit": details.audit,
        "hidden": details.hidden,
    }
