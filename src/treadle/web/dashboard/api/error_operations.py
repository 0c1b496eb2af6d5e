"""The operations of the API on groups of errors."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.operations.error_groups import aget_details
from treadle.web.dashboard import error_actions
from treadle.web.dashboard.api import error_models as models
from treadle.web.dashboard.api import response_models as responses
from treadle.web.dashboard.routes import Context
from treadle.words.changes import Action
from treadle.words.errors import UnknownErrorGroup


def group_id(context: Context) -> int:
    given: str = context.request.path_params["id"]
    if not (given.isascii() and given.isdigit() and len(given) < 11):
        raise UnknownErrorGroup(given)
    return group_queries.checked_id(int(given))


def reads(app: Treadle) -> list[tuple[Any, ...]]:
    """Path, operation, response, summary and query parameters."""

    async def groups(context: Context, given: models.ErrorGroupsQuery) -> Any:
        muted = None if given.muted is None else given.muted == "true"
        chosen = group_queries.GroupFilter(given.type, given.queue, muted, given.order)
        return await app.database.aread(group_queries.find_groups(chosen, given.limit))

    async def group(context: Context, given: None) -> Any:
        return await aget_details(app.database, group_id(context))

    return [
        ("/api/errors", groups, models.ErrorGroupList, "Groups of failed attempts", models.ErrorGroupsQuery),
        ("/api/errors/{id}", group, models.ErrorGroupDetails, "A group of failed attempts, with an example"),
    ]


def changes(app: Treadle) -> list[tuple[Any, ...]]:
    """Path, operation, response, summary and body."""

    def change_jobs(action: Action) -> Callable[[Context, models.GroupChangeBody], Awaitable[Any]]:
        async def change(context: Context, given: models.GroupChangeBody) -> Any:
            target = group_id(context)
            return await error_actions.change_jobs(
                app, context.visitor, target, action, given.reason, given.after, given.act
            )

        return change

    async def mute(context: Context, given: models.MuteBody) -> Any:
        span = None if given.seconds is None else timedelta(seconds=given.seconds)
        target = group_id(context)
        done = await error_actions.mute(app, context.visitor, target, span, given.until_new_version, given.reason)
        return {"done": done}

    async def unmute(context: Context, given: models.UnmuteBody) -> Any:
        return {"done": await error_actions.unmute(app, context.visitor, group_id(context), given.reason)}

    return [
        *(
            (
                f"/api/errors/{{id}}/{action.value}",
                change_jobs(action),
                responses.BulkChange,
                summary,
                models.GroupChangeBody,
            )
            for action, summary in error_actions.SUMMARIES.items()
        ),
        ("/api/errors/{id}/mute", mute, models.MuteChange, error_actions.MUTE_SUMMARY, models.MuteBody),
        ("/api/errors/{id}/unmute", unmute, models.MuteChange, error_actions.UNMUTE_SUMMARY, models.UnmuteBody),
    ]
