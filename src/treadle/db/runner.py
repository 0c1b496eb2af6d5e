"""Runs a Query on a connection: once for sync, once for async, and nowhere else.

Nothing is committed or rolled back here: on an autocommit connection each statement is its own transaction, on any
other the query is part of whatever transaction the caller has open.
"""

from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from treadle.db.query import Query, Result


def run(connection: Connection[Any], query: Query[Result]) -> Result:
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query.text, query.params)
        return query.read(cursor.fetchall() if cursor.description else ())


async def arun(connection: AsyncConnection[Any], query: Query[Result]) -> Result:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query.text, query.params)
        return query.read(await cursor.fetchall() if cursor.description else ())
