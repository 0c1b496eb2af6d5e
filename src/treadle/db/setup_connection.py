"""The connection for set-up and checks, outside of the pools."""

from typing import Any

import psycopg
from psycopg import Connection, IsolationLevel
from psycopg.rows import tuple_row

from treadle.db.url import described, patient, reason_of
from treadle.words.errors import DatabaseUnreachable


def connect(url: str) -> Connection[tuple[Any, ...]]:
    """A connection for set-up and checks, or DatabaseUnreachable without the password."""
    try:
        connection = psycopg.connect(patient(url, 10), autocommit=True, row_factory=tuple_row)
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from None
    # Regardless of the server's default: after waiting for a lock, the next statement has to see what was committed.
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    return connection


def unreachable(error: psycopg.Error, url: str) -> DatabaseUnreachable:
    """The error in a sentence, without the password."""
    return DatabaseUnreachable(f"cannot reach PostgreSQL at {described(url)}: {reason_of(error, url)}")
