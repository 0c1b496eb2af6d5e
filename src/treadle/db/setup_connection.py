"""The connection for set-up and checks, outside of the pools."""

import math
from typing import Any

import psycopg
from psycopg import Connection, IsolationLevel
from psycopg.rows import tuple_row

from treadle.db.own_connection import OwnConnection
from treadle.db.url import described, patient, reason_of
from treadle.words.errors import DatabaseUnreachable


def connect(url: str, seconds: float | None = None) -> Connection[tuple[Any, ...]]:
    """A connection for set-up and checks, or DatabaseUnreachable without the password. With `seconds`, this is the time
    for connecting, at each host, and for each statement."""
    try:
        connection = OwnConnection.connect(
            patient(url, 10 if seconds is None else math.ceil(seconds)), autocommit=True, row_factory=tuple_row
        )
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from None
    connection.answer_seconds = seconds
    # Regardless of the server's default: after waiting for a lock, the next statement has to see what was committed.
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    return connection


def unreachable(error: psycopg.Error, url: str) -> DatabaseUnreachable:
    """The error in a sentence, without the password."""
    return DatabaseUnreachable(f"cannot reach PostgreSQL at {described(url)}: {reason_of(error, url)}")
