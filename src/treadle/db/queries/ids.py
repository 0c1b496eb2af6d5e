"""Ids by their first or last digits: see sql/functions/public/find_ids.sql."""

import re
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from treadle.db.query import Query, Rows, call
from treadle.words.errors import InvalidArgument, shown

FEWEST = 4
# As many digits as pages show: these identify a job.
SURE = 8
# A query examines at most this many ids, for about this long.
EXAMINED_LIMIT = 50_000
SEARCH_TIME: timedelta | None = timedelta(milliseconds=100)
LIMIT = 6


class FoundIds(NamedTuple):
    ids: list[UUID]
    examined: int
    next: UUID | None
    """Continue before this id; None: all were examined."""


def check_digits(text: str) -> str:
    digits = text.replace("-", "").lower()
    if not re.fullmatch(f"[0-9a-f]{{{FEWEST},32}}", digits):
        raise InvalidArgument(
            f"expected the id of a job (a UUID), or at least {FEWEST} of its first or last digits, got {shown(text)}"
        )
    return digits


def find_ids(digits: str, before: UUID | None = None) -> Query[FoundIds]:
    """Without `before`, those that begin with the digits, and the newest that end with them."""

    def read(rows: Rows) -> FoundIds:
        stopped = next((row for row in rows if row[2]), None)
        return FoundIds(
            [row[0] for row in rows if row[1]], *((0, None) if stopped is None else (stopped[3], stopped[0]))
        )

    params = {"digits": digits, "before": before, "limit": LIMIT, "look": EXAMINED_LIMIT, "patience": SEARCH_TIME}
    return call("find_ids", params, read, columns="id, fits, last, examined")
