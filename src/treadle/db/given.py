"""Over a connection or pool of psycopg that the caller has given: nothing is committed or rolled back."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from treadle.db.transport import Driver
from treadle.words.errors import InvalidArgument


class Given(Driver):
    def __init__(self, source: Connection[Any] | ConnectionPool[Any], schema: str) -> None:
        self._source, self.schema = source, schema

    def taken(self) -> AbstractContextManager[Connection[Any]]:
        return nullcontext(self._source) if isinstance(self._source, Connection) else self._source.connection()

    def ataken(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        raise InvalidArgument("this queue was given a sync connection; use the sync methods, such as claim")


class AsyncGiven(Driver):
    is_async = True

    def __init__(self, source: AsyncConnection[Any] | AsyncConnectionPool[Any], schema: str) -> None:
        self._source, self.schema = source, schema

    def taken(self) -> AbstractContextManager[Connection[Any]]:
        raise InvalidArgument("this queue was given an async connection; use the async methods, such as aclaim")

    def ataken(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        return nullcontext(self._source) if isinstance(self._source, AsyncConnection) else self._source.connection()
