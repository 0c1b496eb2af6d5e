"""Turns rows of the table into JobRows, one by one, so that one that cannot be decoded does not affect the others."""

from functools import cache
from typing import Any, NamedTuple

from treadle.db.queries.columns import JSON_COLUMNS, columns
from treadle.db.query import Rows, statement
from treadle.words.errors import UndecodableJob
from treadle.words.headers import read_headers
from treadle.words.job import JobRow
from treadle.words.payload import decode
from treadle.words.status import Status


class Claimed(NamedTuple):
    """The claimed jobs, and those whose payload cannot be decoded, each with the error."""

    jobs: list[JobRow]
    undecodable: list[tuple[JobRow, UndecodableJob]]


@cache
def row_statement(name: str, payloads: bool = True) -> str:
    """A statement whose columns are the fields of a JobRow."""
    return statement(name).replace("/* columns */", columns(JobRow, payloads))


# The positions of the status and of the JSON columns in a JobRow.
_STATUS, _DATA, *_OTHERS = (JobRow._fields.index(name) for name in ("status", *JSON_COLUMNS))
_HEADERS = JobRow._fields.index("headers")
_STATUSES = {status.value: status for status in Status}


def read_row(row: tuple[Any, ...]) -> JobRow:
    values = list(row)
    values[_STATUS] = _STATUSES[row[_STATUS]]
    values[_DATA] = decode(row[_DATA])
    for column in _OTHERS:
        if row[column] is not None:
            values[column] = decode(row[column])
    if row[_HEADERS] is not None:
        values[_HEADERS] = read_headers(row[_HEADERS])
    return JobRow._make(values)


def read_claimed(rows: Rows) -> Claimed:
    claimed = Claimed([], [])
    for row in rows:
        try:
            claimed.jobs.append(read_row(row))
        except UndecodableJob as error:
            values = list(row)
            values[_STATUS] = Status.CLAIMED
            for column in (_DATA, *_OTHERS, _HEADERS):
                values[column] = None
            claimed.undecodable.append((JobRow._make(values), error))
    return claimed
