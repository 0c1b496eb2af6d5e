"""Whether a job type or a queue exists. A page of a name that was mistyped would look healthy and quiet."""

from collections.abc import Generator, Sequence
from difflib import get_close_matches
from typing import Any

from treadle.db.database import Database
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries.error_groups import GroupFilter
from treadle.db.queries.listing import find_jobs
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.operations.places import Kind
from treadle.words.errors import UnknownName
from treadle.words.listing import JobFilter
from treadle.words.places import Activity, PlaceDetails

# Jobs that name no queue are in this one.
DEFAULT_QUEUE = "default"
MOST_NAMES = 10_000


def check_name(
    database: Database, kind: Kind, name: str, details: PlaceDetails, activities: Sequence[Activity]
) -> None:
    """Raises UnknownName. Reads nothing more if there are such jobs, or have been within a week."""
    if not _is_used(details, activities):
        drive(_check(kind, name), database.read)


async def acheck_name(
    database: Database, kind: Kind, name: str, details: PlaceDetails, activities: Sequence[Activity]
) -> None:
    if not _is_used(details, activities):
        await adrive(_check(kind, name), database.aread)


def _is_used(details: PlaceDetails, activities: Sequence[Activity]) -> bool:
    return bool(details.parts) or any(each.rate or each.errors for each in activities)


def _check(kind: Kind, name: str) -> Generator[Query[Any], Any, None]:
    of = (name, None) if kind == "type" else (None, name)
    found = yield overview_queries.find_names(limit=MOST_NAMES)
    names: list[str] = found.types if kind == "type" else found.queues
    if name in names or (kind, name) == ("queue", DEFAULT_QUEUE):
        return
    pauses = yield operation_queries.find_pauses()
    if any((each.job_type if kind == "type" else each.queue) == name for each in pauses):
        return
    limits = yield limit_queries.find_matching(name)
    if any(name in (each.job_types if kind == "type" else each.queues) for each in limits):
        return
    if (yield group_queries.find_groups(GroupFilter(*of), 1)).groups:
        return
    if (yield find_jobs(JobFilter(None, *of), None, 1)).jobs:
        return
    raise UnknownName(kind, name, get_close_matches(name, names, 3))
