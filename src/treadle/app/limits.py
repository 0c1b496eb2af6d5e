"""The limits of the queue: how they are used, and changes at run time."""

from typing import Unpack

from treadle.db.database import Database
from treadle.db.queries import limits as limit_queries
from treadle.db.queries.limits import LimitOptions
from treadle.words.limit_status import LimitStatus


class Limits:
    """`app.limits()` lists the limits and how they are used; the methods change them. A change stays, also when other
    code is deployed, until it is reset."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, name: str | None = None, limit: int = 100) -> list[LimitStatus]:
        """At most `limit` rows, those that jobs wait for first."""
        return self._database.read(limit_queries.find(name, limit))

    async def alist(self, name: str | None = None, limit: int = 100) -> list[LimitStatus]:
        return await self._database.aread(limit_queries.find(name, limit))

    def set(self, name: str, amount: int | None, **options: Unpack[LimitOptions]) -> None:
        """Change a limit: `app.limits.set("sync", 5, key="acme")`. None: no limit; 0: no job starts.

        With `job_type` or `queue`, it is added if it does not exist: `app.limits.set("api", 10, period="1s",
        job_type="sync", per="tenant")`.
        """
        known = self._database.read(limit_queries.find_kind(name, options))
        self._database.run(limit_queries.change(name, known, amount, options))

    async def aset(self, name: str, amount: int | None, **options: Unpack[LimitOptions]) -> None:
        known = await self._database.aread(limit_queries.find_kind(name, options))
        await self._database.arun(limit_queries.change(name, known, amount, options))

    def pause(self, name: str, key: str | None = None, *, actor: str | None = None, reason: str | None = None) -> None:
        """Start no more jobs of the limit, or of one key, until the limit is set or reset."""
        known = self._database.read(limit_queries.get_kind(name))
        self._database.run(limit_queries.pause(name, known, _given(key, actor, reason)))

    async def apause(
        self, name: str, key: str | None = None, *, actor: str | None = None, reason: str | None = None
    ) -> None:
        known = await self._database.aread(limit_queries.get_kind(name))
        await self._database.arun(limit_queries.pause(name, known, _given(key, actor, reason)))

    def reset(self, name: str, key: str | None = None, *, actor: str | None = None, reason: str | None = None) -> bool:
        """Undo what was set for all keys, or for one: the limit is as the code declares it, or removed if no code does.
        Returns False if nothing was set."""
        known = self._database.read(limit_queries.get_kind(name))
        return self._database.run(limit_queries.reset(known, key, actor, reason))

    async def areset(
        self, name: str, key: str | None = None, *, actor: str | None = None, reason: str | None = None
    ) -> bool:
        known = await self._database.aread(limit_queries.get_kind(name))
        return await self._database.arun(limit_queries.reset(known, key, actor, reason))


def _given(key: str | None, actor: str | None, reason: str | None) -> LimitOptions:
    options = LimitOptions()
    if key is not None:
        options["key"] = key
    if actor is not None:
        options["actor"] = actor
    if reason is not None:
        options["reason"] = reason
    return options
