"""What the forms and the API have in common."""

from typing import NamedTuple
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries.limits import LimitOptions
from treadle.operations.ids import aresolve_id
from treadle.web.dashboard.routes import Context
from treadle.web.dashboard.security.access import Visitor
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument, UnknownErrorGroup


class Chunk(NamedTuple):
    """The number of jobs per outcome in one chunk."""

    done: int
    unfit: int
    """The status does not allow the action, or nothing would change."""
    busy: int
    """The row is locked by another transaction."""
    missing: int
    """The job does not exist."""
    next: str | None = None
    """Pass it as `after` to change the next chunk; null after the last one."""


async def target_of(app: Treadle, context: Context) -> UUID:
    """The job in the path, which may be given by the first or last digits of its id."""
    return await aresolve_id(app.database, context.request.path_params["id"])


def group_id(context: Context) -> int:
    given: str = context.request.path_params["id"]
    if not (given.isascii() and given.isdigit() and len(given) < 11):
        raise UnknownErrorGroup(given)
    return group_queries.checked_id(int(given))


def check_pause(job_type: str | None, queue: str | None, everything: bool) -> None:
    if (job_type is None and queue is None) != everything:
        # An empty form must not pause the whole queue.
        raise InvalidArgument("give a job type, a queue or both; to pause all jobs, give only everything")


def limit_options(
    visitor: Visitor, key: str | None, period: Duration | None, burst: int | None, reason: str | None
) -> LimitOptions:
    options = LimitOptions(actor=visitor.actor)
    if key is not None:
        options["key"] = key
    if period is not None:
        options["period"] = period
    if burst is not None:
        options["burst"] = burst
    if reason is not None:
        options["reason"] = reason
    return options
