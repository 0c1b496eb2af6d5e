"""Resolves the ids that people type, which may be shortened to a unique beginning."""

from contextlib import suppress
from uuid import UUID

import click

from treadle.db.database import Database
from treadle.db.queries.jobs import find_job_ids
from treadle.words.errors import InvalidArgument, TreadleError


def resolve_id(database: Database, text: str) -> UUID:
    """A complete id is returned without checking that the job exists."""
    with suppress(ValueError):
        return UUID(text)
    try:
        found = database.read(find_job_ids(text))
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="ID") from None
    if not found:
        raise TreadleError(f"no job has an id that begins with {text}; it may have been pruned")
    if len(found) > 1:
        examples = ", ".join(map(str, found))
        raise TreadleError(f"{text} is ambiguous: several ids begin with it, such as {examples}; give more digits")
    return found[0]
