"""The columns to select, so that a row has the fields of a JobRow or a Claim.

Not in rows.py, which decodes the rows: supervisors use these columns, and must not load what decodes payloads.
"""

from functools import cache
from typing import NamedTuple

JSON_COLUMNS = ("data", "result", "checkpoint", "pace")
_SELECTED = {
    # As text: it is decoded row by row, so that a bad one fails alone.
    **{each: f"{each}::text" for each in JSON_COLUMNS},
    "origin": "origin::text",
    "headers": "headers::text",
    # A job that was inserted by hand may have none.
    "created": "pg_catalog.date_part('epoch', coalesce(created_at, run_at))",
}
# Those that the role treadle_viewer may not read. A payload is never null.
_HIDDEN = {"data": "'null'", "result": "null", "checkpoint": "null", "headers": "null"}


@cache
def columns(shape: type[NamedTuple], payloads: bool = True) -> str:
    """Without `payloads`, for roles that may not read them: null instead."""
    selected = _SELECTED if payloads else _SELECTED | _HIDDEN
    return ", ".join(selected.get(each, each) for each in shape._fields)
