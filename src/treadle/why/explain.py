"""Why a job does not run, asked of the database: read-only, in two statements at most."""

from contextlib import suppress
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import why as queries
from treadle.why.decide import decide
from treadle.why.reason import Reason
from treadle.words.errors import JobNotFound


def why(database: Database, job_id: UUID) -> Reason:
    facts = database.read(queries.why(job_id))
    blocker = None
    if facts.blocker:
        with suppress(JobNotFound):  # deleted in between
            blocker = decide(database.read(queries.why(facts.blocker)))
    return decide(facts, blocker)


async def awhy(database: Database, job_id: UUID) -> Reason:
    facts = await database.aread(queries.why(job_id))
    blocker = None
    if facts.blocker:
        with suppress(JobNotFound):
            blocker = decide(await database.aread(queries.why(facts.blocker)))
    return decide(facts, blocker)
