"""Finds out why a job does not run: read-only, with at most two statements."""

from contextlib import suppress
from uuid import UUID

from treadle.db.database import Database
from treadle.why import queries
from treadle.why.decide import decide
from treadle.why.reason import Reason
from treadle.words.errors import JobNotFound


def why(database: Database, job_id: UUID) -> Reason:
    facts = database.read(queries.get_job_facts(job_id))
    blocker = None
    if facts.blocker:
        with suppress(JobNotFound):  # deleted in the meantime
            blocker = decide(database.read(queries.get_job_facts(facts.blocker)))
    return decide(facts, blocker)


async def awhy(database: Database, job_id: UUID) -> Reason:
    facts = await database.aread(queries.get_job_facts(job_id))
    blocker = None
    if facts.blocker:
        with suppress(JobNotFound):
            blocker = decide(await database.aread(queries.get_job_facts(facts.blocker)))
    return decide(facts, blocker)
