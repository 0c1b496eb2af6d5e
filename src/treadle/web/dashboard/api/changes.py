"""The endpoints of the API that change something. They require the role operator."""

from datetime import timedelta

from starlette.exceptions import HTTPException

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import workflows as workflow_queries
from treadle.jobs import edits
from treadle.jobs.edits import Author
from treadle.operations import bulk, error_groups
from treadle.web.dashboard.actions import Chunk, check_pause, group_id, limit_options, target_of
from treadle.web.dashboard.api import requests
from treadle.web.dashboard.api.endpoints import Operation, endpoint
from treadle.web.dashboard.api.responses import Done, JobChange, JobCopy
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.words.changes import Action
from treadle.words.errors import JobNotFound

# Each action with its summary.
OF_JOBS = {
    Action.RETRY: "Retry a job",
    Action.CANCEL: "Cancel a job",
    Action.DELETE: "Delete a job",
    Action.RUN_NOW: "Run a scheduled job now",
    Action.PRIORITY: "Change a job's priority",
}
OF_ERROR_GROUPS = {
    Action.RETRY: "Retry the failed jobs of an error group, one chunk per request",
    Action.CANCEL: "Cancel the jobs of an error group that wait for another attempt, one chunk per request",
}
OF_SCHEDULES = {
    "pause": "Pause a schedule",
    "resume": "Resume a schedule",
    "run": "Enqueue a job of a schedule now",
}


def routes(app: Treadle) -> list[RouteSpec]:
    arun = app.database.arun

    async def change_job(context: Context, action: Action, reason: str | None, priority: int | None) -> JobChange:
        target, actor = await target_of(app, context), context.visitor.actor
        (done,) = await arun(operation_queries.change_jobs(action, [target], actor, reason, priority))
        if done.outcome == "missing" or done.status is None:
            raise JobNotFound(target)
        if done.outcome == "busy":
            raise HTTPException(409, f"job {target} is locked by another transaction; try again")
        if done.outcome == "unfit":
            raise HTTPException(
                409, f"job {target} is {done.status}: its status does not allow this action, or nothing would change"
            )
        return JobChange(done.id, "done", done.status)

    def job_operation(action: Action) -> Operation:
        async def change(context: Context, given: requests.ChangeBody) -> JobChange:
            return await change_job(context, action, given.reason, None)

        async def change_priority(context: Context, given: requests.PriorityBody) -> JobChange:
            return await change_job(context, action, given.reason, given.priority)

        return change_priority if action is Action.PRIORITY else change

    async def edit(context: Context, given: requests.EditBody) -> Done:
        job = await arun(job_queries.get_job(await target_of(app, context)))
        author = Author(context.visitor.actor, given.reason)
        queries = edits.edit(app.backend, job, given.arguments, author, retry=given.retry)
        if not (await app.database.arun_together(queries))[-1]:
            raise HTTPException(
                409, f"job {job.id} is {job.status}: its status does not allow this action, or nothing would change"
            )
        return Done(True)

    async def copy(context: Context, given: requests.CopyBody) -> JobCopy:
        job = await arun(job_queries.get_job(await target_of(app, context)))
        author = Author(context.visitor.actor, given.reason, given.act)
        queries = edits.copy(app.backend, job, given.arguments, author)
        return JobCopy((await app.database.arun_together(queries))[-1])

    async def signal(context: Context, given: requests.SignalBody) -> Done:
        target = await target_of(app, context)
        if not await arun(workflow_queries.send_signal(target, given.name, given.value, context.visitor.actor)):
            raise HTTPException(409, f"the step has already received the signal {given.name}, or has ended")
        return Done(True)

    async def change_jobs(context: Context, given: requests.BulkBody) -> Chunk:
        action, actor, reason, priority = given.action, context.visitor.actor, given.reason, given.priority
        if given.ids is not None:
            query = operation_queries.change_jobs(action, given.ids, actor, reason, priority, given.act)
            done = await arun(query)
            return Chunk(*bulk.counted(done))
        assert given.filter is not None  # noqa: S101 - for the type checker
        job_filter = given.filter.job_filter
        counts, following = await bulk.achange_chunk(
            app.database, job_filter, action, actor, reason, priority, given.after, given.act
        )
        return Chunk(*counts, following)

    def group_operation(action: Action) -> Operation:
        async def change(context: Context, given: requests.GroupChangeBody) -> Chunk:
            target, actor = group_id(context), context.visitor.actor
            counts, following = await error_groups.achange_chunk(
                app.database, target, action, actor, given.reason, given.after, given.act
            )
            return Chunk(*counts, following)

        return change

    async def mute(context: Context, given: requests.MuteBody) -> Done:
        span = None if given.seconds is None else timedelta(seconds=given.seconds)
        target, actor = group_id(context), context.visitor.actor
        return Done(await arun(group_queries.mute(target, span, given.until_new_version, actor, given.reason)))

    async def unmute(context: Context, given: requests.UnmuteBody) -> Done:
        return Done(await arun(group_queries.unmute(group_id(context), context.visitor.actor, given.reason)))

    async def pause(context: Context, given: requests.PauseBody) -> Done:
        check_pause(given.job_type, given.queue, given.everything)
        query = operation_queries.pause(given.job_type, given.queue, context.visitor.actor, given.reason)
        return Done(await arun(query))

    async def resume(context: Context, given: requests.ResumeBody) -> Done:
        query = operation_queries.resume(given.job_type, given.queue, context.visitor.actor, given.reason)
        return Done(await arun(query))

    async def set_concurrency(context: Context, given: requests.ConcurrencyBody) -> Done:
        actor = context.visitor.actor
        query = operation_queries.set_concurrency(given.worker_id, given.concurrency, actor, given.reason)
        return Done(await arun(query))

    def schedule_operation(action: str) -> Operation:
        async def change(context: Context, given: requests.ScheduleBody) -> Done:
            return Done(await arun(schedule_queries.operate(action, given.name, context.visitor.actor, given.reason)))

        return change

    async def set_limit(context: Context, given: requests.SetLimitBody) -> Done:
        options = limit_options(
            context.visitor, key=given.key, period=given.seconds, burst=given.burst, reason=given.reason
        )
        await app.limits.aset(given.name, given.amount, **options)
        return Done(True)

    async def pause_limit(context: Context, given: requests.LimitBody) -> Done:
        await app.limits.apause(given.name, given.key, actor=context.visitor.actor, reason=given.reason)
        return Done(True)

    async def reset_limit(context: Context, given: requests.LimitBody) -> Done:
        done = await app.limits.areset(given.name, given.key, actor=context.visitor.actor, reason=given.reason)
        return Done(done)

    def post(path: str, operation: Operation, summary: str) -> RouteSpec:
        return endpoint("POST", f"/api/{path}", operation, summary)

    return [
        *(post(f"jobs/{{id}}/{action}", job_operation(action), text) for action, text in OF_JOBS.items()),
        post("jobs/{id}/edit", edit, "Change arguments of a job before it runs, or is retried"),
        post("jobs/{id}/copy", copy, "Enqueue a new job like another one"),
        post("jobs/{id}/signal", signal, "Send a signal to a workflow"),
        post("bulk", change_jobs, "Change several jobs, one chunk per request"),
        *(post(f"errors/{{id}}/{each}", group_operation(each), text) for each, text in OF_ERROR_GROUPS.items()),
        post("errors/{id}/mute", mute, "Mute an error group"),
        post("errors/{id}/unmute", unmute, "Unmute an error group"),
        post("pauses", pause, "Pause a job type or a queue"),
        post("resumes", resume, "Resume a job type or a queue"),
        post("workers/concurrency", set_concurrency, "Change how many jobs a worker runs at once"),
        *(post(f"schedules/{each}", schedule_operation(each), text) for each, text in OF_SCHEDULES.items()),
        post("limits/set", set_limit, "Change a limit, or one key of it"),
        post("limits/pause", pause_limit, "Start no more jobs of a limit, or of one key of it"),
        post("limits/reset", reset_limit, "Undo a change of a limit, or of one key of it"),
    ]
