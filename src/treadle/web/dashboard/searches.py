"""Searches of visitors: what a role may search, and how many searches run at once."""

import asyncio

from starlette.exceptions import HTTPException

from treadle.db.database import Database
from treadle.db.queries.listing import find_jobs
from treadle.db.query import Query
from treadle.web.dashboard.redaction import may_see_payloads
from treadle.web.dashboard.security.access import Role
from treadle.words.listing import JobFilter, Listing

# A search is a series of queries of about 100 ms each. However many visitors search, at most this many of their queries
# run at once; they take turns.
AT_ONCE = 2


class Searches:
    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def find(
        self, database: Database, role: Role, job_filter: JobFilter, after: str | None, limit: int
    ) -> Listing:
        """One page, or the part of it that one query finds. Viewers search errors and ids, not payloads."""
        query = search_query(role, job_filter, after, limit)
        if not job_filter.is_search:
            return await database.aread(query)
        async with self._turns:
            return await database.aread(query)


def search_query(role: Role, job_filter: JobFilter, after: str | None, limit: int) -> Query[Listing]:
    """Raises an error if the filter is invalid, or not for this role."""
    payloads = may_see_payloads(role)
    if job_filter.where is not None and not payloads:
        raise HTTPException(403, "a payload condition requires the role operator, because viewers do not see payloads")
    return find_jobs(job_filter, after, limit, payloads=payloads)
