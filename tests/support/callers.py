"""Callers with a connection of asyncpg, SQLAlchemy or Django, on which the queue runs its statements."""

import asyncio
from contextlib import ExitStack
from typing import Any

import asyncpg
import django
import django.conf
import django.db
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio
from sqlalchemy.pool import NullPool


class Caller:
    """A caller with a connection of one kind, and an interface for all kinds. Async kinds have their own event loop."""

    def __init__(self, url: str, kind: str, stack: ExitStack) -> None:
        self.stack = stack
        self.parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self.is_async = kind.startswith("async")
        self.runner = stack.enter_context(asyncio.Runner()) if self.is_async else None
        self.kind, _, self.driver = kind.partition(" on ")
        self.connection: Any = self.await_(getattr(self, "open_" + self.kind.replace(" ", "_"))())

    def await_(self, value: Any) -> Any:
        return self.runner.run(value) if self.runner and asyncio.iscoroutine(value) else value

    def execute(self, text: str) -> None:
        if self.kind == "django connection":
            self.connection.cursor().execute(text)
        elif self.kind.startswith("asyncpg"):
            self.await_(self.connection.execute(text))
        else:
            self.await_(self.connection.execute(sqlalchemy.text(text)))

    def begin(self) -> None:
        """Begins a transaction on the kinds that would otherwise commit every statement."""
        if self.kind == "django connection":
            self.connection.set_autocommit(False)
        elif self.kind.startswith("asyncpg"):
            self.execute("begin")

    def end(self, how: str) -> None:
        if self.kind.startswith("asyncpg"):
            self.execute(how)
        else:
            self.await_(getattr(self.connection, how)())

    def call(self, of: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.await_(getattr(of, "a" * self.is_async + method)(*args, **kwargs))

    # Kinds

    def engine(self, **options: Any) -> Any:
        url = sqlalchemy.URL.create(
            f"postgresql+{self.driver}",
            self.parts.get("user"),
            self.parts.get("password"),
            database=self.parts["dbname"],
            query={"host": self.parts["host"], **({"port": self.parts["port"]} if "port" in self.parts else {})},
        )
        if self.is_async:
            return sqlalchemy_asyncio.create_async_engine(url, poolclass=NullPool, **options)
        return sqlalchemy.create_engine(url, poolclass=NullPool, **options)

    def closing(self, connection: Any) -> Any:
        self.stack.callback(lambda: self.await_(connection.close()))
        return connection

    def open_connection(self) -> Any:
        return self.closing(self.engine().connect())

    def open_autocommit_connection(self) -> Any:
        return self.closing(self.engine(isolation_level="AUTOCOMMIT").connect())

    def open_session(self) -> Any:
        return self.closing(orm.Session(self.engine()))

    def open_scoped_session(self) -> Any:
        return self.closing(orm.scoped_session(orm.sessionmaker(self.engine())))

    async def open_async_connection(self) -> Any:
        return self.closing(await self.engine().connect())

    async def open_async_autocommit_connection(self) -> Any:
        return self.closing(await self.engine(isolation_level="AUTOCOMMIT").connect())

    async def open_async_session(self) -> Any:
        return self.closing(sqlalchemy_asyncio.AsyncSession(self.engine()))

    async def open_async_scoped_session(self) -> Any:
        make = sqlalchemy_asyncio.async_sessionmaker(self.engine())
        return self.closing(sqlalchemy_asyncio.async_scoped_session(make, scopefunc=lambda: 1))

    async def open_asyncpg_connection(self) -> Any:
        return self.closing(await asyncpg.connect(**self.asyncpg_arguments()))

    async def open_asyncpg_connection_of_a_pool(self) -> Any:
        pool = await asyncpg.create_pool(**self.asyncpg_arguments(), min_size=1)
        self.closing(pool)
        connection = await pool.acquire()
        self.stack.callback(lambda: self.await_(pool.release(connection)))
        return connection

    def asyncpg_arguments(self) -> dict[str, Any]:
        return {"database" if name == "dbname" else name: value for name, value in self.parts.items()}

    def open_django_connection(self) -> Any:
        set_up_django(self.parts)
        connection = django.db.connection

        def close() -> None:
            if not connection.get_autocommit():
                connection.rollback()
            connection.close()

        self.stack.callback(close)
        return connection


def set_up_django(parts: dict[str, str]) -> None:
    if not django.conf.settings.configured:
        names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
        default = {names[name]: value for name, value in parts.items() if name in names}
        databases = {
            "default": {"ENGINE": "django.db.backends.postgresql", **default},
            "file": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        }
        django.conf.settings.configure(DATABASES=databases, TIME_ZONE="Asia/Kolkata", LOGGING_CONFIG=None)
        django.setup()
