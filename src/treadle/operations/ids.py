"""Finds jobs by the first or last digits of their id.

The first digits are a range of the primary key. The last ones, which pages show, are random, and an index for them
would be written by every enqueue: so the newest jobs are examined, and the errors say how many.
"""

from collections.abc import Generator
from contextlib import suppress
from typing import Any
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries.ids import SURE, FoundIds, check_digits, find_ids
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.words.errors import InvalidArgument, JobNotFound

# How many jobs are examined at most for the last digits: about two seconds.
EXAMINED_LIMIT = 1_000_000


def resolve_id(database: Database, text: str) -> UUID:
    """The id that these digits identify. A complete id is returned without checking that the job exists."""
    return drive(_resolve(text), database.read)


async def aresolve_id(database: Database, text: str) -> UUID:
    return await adrive(_resolve(text), database.aread)


def _resolve(text: str) -> Generator[Query[FoundIds], Any, UUID]:
    with suppress(ValueError, AttributeError):
        return UUID(text)
    digits = check_digits(text)
    found: list[UUID] = []
    before, examined = None, 0
    while True:
        page: FoundIds = yield find_ids(digits, before)
        found += page.ids
        examined += page.examined
        before = page.next
        # Eight digits of another job are the same once in four billion.
        if before is None or len(found) > 1 or examined >= EXAMINED_LIMIT or (found and len(digits) >= SURE):
            break
    covered = "" if before is None else f" (of the last digits, those of the newest {examined:,} jobs were examined)"
    if not found:
        raise JobNotFound(
            text, f"there is no job whose id begins or ends with {text}{covered}; it may have been pruned"
        )
    if len(found) > 1:
        examples = ", ".join(str(each) for each in found[:5])
        raise InvalidArgument(
            f"{text} is ambiguous: several ids begin or end with it, such as {examples}; give more digits"
        )
    if before is not None and len(digits) < SURE:
        raise InvalidArgument(
            f"{text} may be ambiguous: {found[0]} begins or ends with it{covered}; give at least {SURE} digits"
        )
    return found[0]
