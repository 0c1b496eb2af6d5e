"""Finds out why a job or a schedule does not run: read-only, with at most two statements."""

from contextlib import suppress
from uuid import UUID

from treadle.db.database import Database
from treadle.why import queries
from treadle.why.decide import decide, decide_schedule
from treadle.why.facts import ScheduleFacts
from treadle.why.reason import Reason
from treadle.words.commands import as_called
from treadle.words.errors import JobNotFound


def why(database: Database, job_id: UUID) -> Reason:
    facts = database.read(queries.get_job_facts(job_id))
    blocker = None
    if other := facts.waited_for or facts.blocker:
        with suppress(JobNotFound):  # deleted in the meantime
            blocker = decide(database.read(queries.get_job_facts(other)))
    return _as_called(decide(facts, blocker))


async def awhy(database: Database, job_id: UUID) -> Reason:
    facts = await database.aread(queries.get_job_facts(job_id))
    blocker = None
    if other := facts.waited_for or facts.blocker:
        with suppress(JobNotFound):
            blocker = decide(await database.aread(queries.get_job_facts(other)))
    return _as_called(decide(facts, blocker))


def why_schedule(database: Database, name: str) -> Reason:
    facts = database.read(queries.get_schedule_facts(name))
    unfinished = None
    if job_id := _unfinished_job(facts):
        with suppress(JobNotFound):
            unfinished = decide(database.read(queries.get_job_facts(job_id)))
    return _as_called(decide_schedule(facts, unfinished))


async def awhy_schedule(database: Database, name: str) -> Reason:
    facts = await database.aread(queries.get_schedule_facts(name))
    unfinished = None
    if job_id := _unfinished_job(facts):
        with suppress(JobNotFound):
            unfinished = decide(await database.aread(queries.get_job_facts(job_id)))
    return _as_called(decide_schedule(facts, unfinished))


def _as_called(reason: Reason) -> Reason:
    return reason._replace(remedy=as_called(reason.remedy))


def _unfinished_job(facts: ScheduleFacts) -> UUID | None:
    return facts.last_job if facts.last_status and not facts.last_status.finished else None
