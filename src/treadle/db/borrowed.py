"""Runs queries on a caller's connection of another library: asyncpg, SQLAlchemy, Django.

This is the only module that knows these libraries. It imports none of them: it recognizes a connection by the name of
its class.

Queries join the caller's transaction, and the caller commits or rolls back. Only if the connection is in autocommit
mode do several queries get a transaction of their own, so that all or none of them take effect.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader

from treadle.db.explaining import explained_to_callers
from treadle.db.query import Query, Result, Rows
from treadle.db.transport import Transport
from treadle.words.errors import InvalidArgument

_Execute: TypeAlias = Callable[[bytes, Mapping[str, Any]], Rows]

# %(name)b is psycopg's: a value that is sent in binary form.
_PLACEHOLDER = re.compile(r"%(?:\((?P<name>\w+)\)[sb]|%)")
_BINARY = re.compile(rb"(%\(\w+\))b")


# What a connection must offer, for type checkers: they do not need these libraries either.


class AsyncpgLike(Protocol):
    @property
    def fetch(self) -> Any: ...
    @property
    def is_in_transaction(self) -> Any: ...


class SqlalchemyConnectionLike(Protocol):
    @property
    def exec_driver_sql(self) -> Any: ...


class SqlalchemySessionLike(Protocol):
    @property
    def get_bind(self) -> Any: ...
    @property
    def connection(self) -> Any: ...


class DjangoLike(Protocol):
    @property
    def vendor(self) -> Any: ...
    @property
    def ensure_connection(self) -> Any: ...


Borrowable: TypeAlias = AsyncpgLike | SqlalchemyConnectionLike | SqlalchemySessionLike | DjangoLike


class DjangoConnection(Transport):
    """`django.db.connection`, or one of `django.db.connections`, on psycopg or psycopg2.

    `django.db.connection` is a different connection in each thread, so it is looked up for each call.
    """

    has_thread = True

    def __init__(self, connection: Any, schema: str) -> None:
        vendor = getattr(connection, "vendor", type(connection).__name__)
        if vendor != "postgresql":
            raise InvalidArgument(f"a Django connection must be to PostgreSQL, got {vendor}")
        self._connection = connection
        self.schema = schema

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        with self._connection.cursor() as cursor:
            if self._connection.timezone is None:
                _read_time_zones(cursor.cursor)

            def execute(text: bytes, params: Mapping[str, Any]) -> Rows:
                cursor.execute(_without_binary(text), params)
                rows: Rows = cursor.fetchall() if cursor.description else ()
                return rows

            driver = self._connection.connection
            return _run_together(execute, queries, self.schema, driver.autocommit and _is_idle(driver))

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        results: list[Result] = await self.on_its_thread(self.run_together, queries)
        return results

    async def on_its_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """The one on which Django runs the queries of its async ORM."""
        from asgiref.sync import sync_to_async  # a part of Django

        return await sync_to_async(function)(*args)


class SqlalchemyConnection(Transport):
    """A Connection or Session of SQLAlchemy."""

    def __init__(self, source: Any, schema: str) -> None:
        self._source = source
        self.schema = schema

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        source = self._source
        connection = source if hasattr(source, "exec_driver_sql") else source.connection()
        return _on_sqlalchemy(connection, queries, self.schema)


class AsyncSqlalchemyConnection(Transport):
    """An AsyncConnection or AsyncSession of SQLAlchemy: runs the sync code on the connection inside it."""

    is_async = True

    def __init__(self, source: Any, schema: str) -> None:
        self._source = source
        self.schema = schema

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        source = self._source
        connection = source if hasattr(source, "exec_driver_sql") else await source.connection()
        results: list[Result] = await connection.run_sync(_on_sqlalchemy, queries, self.schema)
        return results


class AsyncpgConnection(Transport):
    """A connection of asyncpg, or one acquired from its pool."""

    is_async = True

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self.schema = schema

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        connection = self._connection
        alone = len(queries) > 1 and not connection.is_in_transaction()
        with explained_to_callers(self.schema):
            async with connection.transaction() if alone else nullcontext():
                results = []
                for query in queries:
                    text, values = numbered(query.bound(self.schema), query.params)
                    results.append(query.read(_plain(await connection.fetch(text, *values))))
                return results


_KINDS: dict[str, Callable[[Any, str], Transport]] = {
    "asyncpg.connection.Connection": AsyncpgConnection,
    "asyncpg.pool.PoolConnectionProxy": AsyncpgConnection,
    "sqlalchemy.engine.base.Connection": SqlalchemyConnection,
    "sqlalchemy.orm.session.Session": SqlalchemyConnection,
    "sqlalchemy.orm.scoping.scoped_session": SqlalchemyConnection,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": AsyncSqlalchemyConnection,
    "sqlalchemy.ext.asyncio.session.AsyncSession": AsyncSqlalchemyConnection,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": AsyncSqlalchemyConnection,
    "django.db.backends.base.base.BaseDatabaseWrapper": DjangoConnection,
    "django.utils.connection.ConnectionProxy": DjangoConnection,
}


def borrow(source: object, schema: str) -> Transport | None:
    """The adapter for this connection, or None if its library is not supported."""
    for each in type(source).__mro__:
        kind = _KINDS.get(f"{each.__module__}.{each.__qualname__}")
        if kind is not None:
            return kind(source, schema)
    return None


def numbered(text: bytes, params: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The statement and its values in asyncpg's form: $1 for the first name, wherever it occurs."""
    translated, names = _numbered(text)
    # prune() passes one time as text. asyncpg accepts no text, and writes Python's earliest time as -infinity.
    values = (datetime.min if name == "after" and params[name] == "-infinity" else params[name] for name in names)
    return translated, tuple(values)


def _without_binary(text: bytes) -> str:
    """psycopg2 does not know %(name)b."""
    return _BINARY.sub(rb"\1s", text).decode()


@lru_cache(maxsize=512)
def _numbered(text: bytes) -> tuple[str, tuple[str, ...]]:
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found["name"]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    return _PLACEHOLDER.sub(number, text.decode()), tuple(numbers)


def _on_sqlalchemy(connection: Any, queries: Sequence[Query[Result]], schema: str) -> list[Result]:
    driver = connection.dialect.driver
    if connection.dialect.name != "postgresql" or driver not in ("psycopg", "psycopg2", "asyncpg"):
        raise InvalidArgument(
            f"a SQLAlchemy connection must use psycopg, psycopg2 or asyncpg, got {connection.dialect.name}+{driver}"
        )

    def execute(text: bytes, params: Mapping[str, Any]) -> Rows:
        statement, values = numbered(text, params) if driver == "asyncpg" else (_without_binary(text), dict(params))
        # With the caller's stream_results each statement would become a server-side cursor, which BEGIN cannot be.
        result = connection.exec_driver_sql(statement, values, execution_options={"stream_results": False})
        return _plain(result) if result.returns_rows else ()

    # SQLAlchemy's own in_transaction() does not help: it is true in autocommit mode too, and with asyncpg the
    # transaction begins only with the first statement.
    autocommit = connection.connection.dbapi_connection.autocommit
    return _run_together(execute, queries, schema, autocommit and _is_idle(connection.connection.driver_connection))


def _run_together(execute: _Execute, queries: Sequence[Query[Result]], schema: str, alone: bool) -> list[Result]:
    """With `alone`, each statement would be a transaction of its own."""
    with explained_to_callers(schema), _transaction(execute) if alone and len(queries) > 1 else nullcontext():
        return [query.read(execute(query.bound(schema), query.params)) for query in queries]


@contextmanager
def _transaction(execute: _Execute) -> Iterator[None]:
    execute(b"begin", {})
    try:
        yield
    except BaseException:
        with suppress(Exception):  # a broken connection has nothing to roll back, and the first error is the useful one
            execute(b"rollback", {})
        raise
    execute(b"commit", {})


def _is_idle(driver: Any) -> bool:
    """Whether no transaction is open, including one that the caller began by hand."""
    if hasattr(driver, "is_in_transaction"):
        return not driver.is_in_transaction()
    return bool(driver.info.transaction_status == TransactionStatus.IDLE)


def _plain(rows: Iterable[Iterable[Any]]) -> Rows:
    """Tuples with UUIDs of the standard library: asyncpg has its own class."""
    return [tuple(UUID(int=value.int) if isinstance(value, UUID) else value for value in row) for row in rows]


def _read_time_zones(cursor: Any) -> None:
    """With USE_TZ = False Django drops the time zone; make this one cursor keep it."""
    if hasattr(cursor, "adapters"):  # psycopg
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
    else:  # psycopg2
        cursor.tzinfo_factory = timezone
