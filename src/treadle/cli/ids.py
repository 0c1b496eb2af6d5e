"""Resolves the ids that people type, which may be shortened to their first or last digits."""

from uuid import UUID

import click

from treadle.db.database import Database
from treadle.db.queries.ids import check_digits
from treadle.operations import ids
from treadle.words.errors import InvalidArgument


def resolve_id(database: Database, text: str) -> UUID:
    """A complete id is returned without checking that the job exists."""
    try:
        check_digits(text)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="ID") from None
    return ids.resolve_id(database, text)
