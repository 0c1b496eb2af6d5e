"""What operators do with a group of errors, by a form or by the API. Each change is written to the audit."""

from datetime import timedelta
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.operations.error_groups import achange_chunk
from treadle.web.dashboard.actions import Chunk, actor
from treadle.web.dashboard.security.access import Visitor
from treadle.words.changes import Action

SUMMARIES = {
    Action.RETRY: "Retry the failed jobs of an error group, one chunk per request",
    Action.CANCEL: "Cancel the jobs of an error group that wait for another attempt, one chunk per request",
}
MUTE_SUMMARY = "Mute an error group"
UNMUTE_SUMMARY = "Unmute an error group"


async def change_jobs(
    app: Treadle,
    visitor: Visitor,
    group_id: int,
    action: Action,
    reason: str | None,
    after: str | None,
    act: UUID | None = None,
) -> Chunk:
    counts, following = await achange_chunk(app.database, group_id, action, actor(visitor), reason, after, act)
    return Chunk(*counts, following)


async def mute(
    app: Treadle, visitor: Visitor, group_id: int, span: timedelta | None, until_new_version: bool, reason: str | None
) -> bool:
    query = group_queries.mute(group_id, span, until_new_version, actor(visitor), reason)
    return await app.database.arun(query)


async def unmute(app: Treadle, visitor: Visitor, group_id: int, reason: str | None) -> bool:
    """False: it was not muted."""
    return await app.database.arun(group_queries.unmute(group_id, actor(visitor), reason))
