"""The endpoints of the API that read. They require the role viewer."""

import asyncio

from starlette.exceptions import HTTPException

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries.dashboard import find_workflows
from treadle.db.queries.listing import may_read_payloads
from treadle.operations import error_groups
from treadle.operations.details import aget_details
from treadle.operations.graph import aget_job_graph
from treadle.operations.known_names import acheck_name
from treadle.operations.overview import aoverview
from treadle.operations.places import Kind, aget_activities, aget_place, aget_places
from treadle.web.dashboard.actions import group_id, target_of
from treadle.web.dashboard.api import requests, responses
from treadle.web.dashboard.api.endpoints import Operation, endpoint
from treadle.web.dashboard.api.graph import Graph, describe
from treadle.web.dashboard.health import LONGEST_SECONDS, HealthCheck, HealthReport
from treadle.web.dashboard.redaction import may_see_payloads, redact_details, redact_graph, redact_reason
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.searches import Searches
from treadle.why.explain import awhy, awhy_schedule
from treadle.why.reason import Reason
from treadle.words.changes import ActList
from treadle.words.error_group import ErrorGroups, GroupDetails
from treadle.words.overview import Overview
from treadle.words.schedule_status import ScheduleList
from treadle.words.workflow_list import WorkflowList


def routes(app: Treadle, check: HealthCheck, searches: Searches) -> list[RouteSpec]:
    aread = app.database.aread

    async def overview(context: Context, given: requests.OverviewQuery) -> Overview:
        return await aoverview(app.database, int(given.window))

    async def jobs(context: Context, given: requests.JobsQuery) -> responses.JobList:
        role = context.visitor.role
        found = await searches.find(app.database, role, given.job_filter, given.after, given.limit)
        return responses.JobList(found.jobs, found.next, found.examined, found.reached)

    async def job(context: Context, given: None) -> responses.JobDetails:
        found = await aget_details(app.database, await target_of(app, context))
        return responses.job_details(redact_details(context.visitor.role, found))

    async def why(context: Context, given: None) -> Reason:
        return redact_reason(await awhy(app.database, await target_of(app, context)))

    async def graph(context: Context, given: None) -> Graph:
        found = await aget_job_graph(app.database, await target_of(app, context))
        return await asyncio.to_thread(lambda: describe(redact_graph(context.visitor.role, found)))

    async def health(context: Context, given: None) -> HealthReport:
        return await check.report()

    async def schedules(context: Context, given: requests.SchedulesQuery) -> ScheduleList:
        query = schedule_queries.find_statuses(given.after, given.limit, search=given.search, state=given.state)
        return await aread(query)

    async def why_schedule(context: Context, given: requests.ScheduleQuery) -> Reason:
        return redact_reason(await awhy_schedule(app.database, given.name))

    async def limits(context: Context, given: requests.LimitsQuery) -> responses.LimitList:
        found = await aread(limit_queries.find(given.name, given.limit, key=given.key, search=given.search))
        return responses.LimitList(found[: given.limit], more=len(found) >= given.limit)

    async def groups(context: Context, given: requests.ErrorGroupsQuery) -> ErrorGroups:
        return await aread(group_queries.find_groups(given.chosen, given.limit))

    async def group(context: Context, given: None) -> GroupDetails:
        return await error_groups.aget_details(app.database, group_id(context))

    async def types(context: Context, given: requests.WindowQuery) -> responses.TypeList:
        return responses.TypeList(*await aget_places(app.database, "type", int(given.window)))

    async def queues(context: Context, given: requests.WindowQuery) -> responses.QueueList:
        return responses.QueueList(*await aget_places(app.database, "queue", int(given.window)))

    def place(kind: Kind) -> Operation:
        async def read(context: Context, given: requests.PlaceQuery) -> responses.PlaceDetails:
            found = await aget_place(app.database, kind, given.name, int(given.window))
            activities = await aget_activities(app.database, kind, given.name)
            await acheck_name(app.database, kind, given.name, found, activities)
            return responses.PlaceDetails(
                found.at, found.place, found.parts, activities, found.step, found.spans, found.depths
            )

        return read

    async def workflows(context: Context, given: requests.WorkflowsQuery) -> WorkflowList:
        names = may_see_payloads(context.visitor.role)
        if given.name is not None and not names:
            raise HTTPException(403, "name requires the role operator, because names of workflows are in payloads")
        names = names and await aread(may_read_payloads())
        return await aread(find_workflows(given.state, given.name, given.after, given.limit, names=names))

    async def workers(context: Context, given: None) -> responses.WorkerList:
        return responses.WorkerList(await app.workers.alist())

    async def names(context: Context, given: requests.NamesQuery) -> overview_queries.Names:
        return await aread(overview_queries.find_names(given.search))

    async def pauses(context: Context, given: None) -> responses.PauseList:
        return responses.PauseList(await aread(operation_queries.find_pauses()))

    async def audit(context: Context, given: requests.AuditQuery) -> responses.AuditList:
        found = await aread(operation_queries.find_audit(given.job_id, given.before, given.limit + 1, given.act))
        following = found[given.limit - 1].id if len(found) > given.limit else None
        return responses.AuditList(found[: given.limit], following)

    async def acts(context: Context, given: requests.ActsQuery) -> ActList:
        return await aread(operation_queries.find_acts(given.chosen, given.before, given.limit))

    def get(path: str, operation: Operation, summary: str, seconds: float | None = None) -> RouteSpec:
        return endpoint("GET", f"/api/{path}", operation, summary, seconds)

    return [
        get("overview", overview, "Overview of the queue"),
        get("jobs", jobs, "List jobs"),
        get("jobs/{id}", job, "A job with its history"),
        get("jobs/{id}/why", why, "Why a job is not running"),
        get("jobs/{id}/graph", graph, "The jobs of a workflow, and which wait for which"),
        get("health", health, "Problems in the queue and its database", LONGEST_SECONDS),
        get("schedules", schedules, "Schedules"),
        get("schedules/why", why_schedule, "Why a schedule does not run"),
        get("limits", limits, "Limits, and keys of limits"),
        get("errors", groups, "Groups of failed attempts"),
        get("errors/{id}", group, "A group of failed attempts, with an example"),
        get("types", types, "Job types"),
        get("type", place("type"), "One job type"),
        get("queues", queues, "Queues"),
        get("queue", place("queue"), "One queue"),
        get("workflows", workflows, "List workflows"),
        get("workers", workers, "Workers"),
        get("names", names, "Names of job types, queues and workers"),
        get("pauses", pauses, "Pauses"),
        get("audit", audit, "Changes made by operators"),
        get("acts", acts, "The same, one entry for all jobs of an act"),
    ]
