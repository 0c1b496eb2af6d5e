"""Jobs as people name them: by their id, or by as much of its beginning as is unique."""

from contextlib import suppress
from uuid import UUID

import click

from treadle.db.database import Database
from treadle.db.queries.jobs import find_job_ids
from treadle.words.errors import InvalidArgument, TreadleError


def meant(database: Database, text: str) -> UUID:
    """The job. A whole id is taken as it is, whether there is such a job or not."""
    with suppress(ValueError):
        return UUID(text)
    try:
        found = database.look(find_job_ids(text))
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="ID") from None
    if not found:
        raise TreadleError(f"there is no job whose id begins with {text}; it may have been pruned")
    if len(found) > 1:
        some = ", ".join(map(str, found))
        raise TreadleError(f"several jobs have an id that begins with {text}, such as {some}; type more of it")
    return found[0]
