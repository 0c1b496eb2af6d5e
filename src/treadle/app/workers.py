"""The workers of the queue: which there are, and changes of a live one."""

from treadle.db.database import Database
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import overview as overview_queries
from treadle.words.overview import WorkerRow


class Workers:
    """`app.workers()` lists the workers; the methods change how many jobs one of them runs at once, until it ends. A
    worker that is started again has the concurrency of its option."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self) -> list[WorkerRow]:
        """The live workers, those that were lost within the last 24 hours, and those that still have jobs; at most
        1,000."""
        return self._database.read(overview_queries.find_recent_workers(hours=24))

    async def alist(self) -> list[WorkerRow]:
        return await self._database.aread(overview_queries.find_recent_workers(hours=24))

    def set_concurrency(
        self, worker_id: str, concurrency: int, *, actor: str | None = None, reason: str | None = None
    ) -> bool:
        """Let a live worker run so many jobs at once; with 0, it claims nothing. Running jobs continue.

        Returns False if it is so already. Raises UnknownWorker if there is no such live worker.
        """
        return self._database.run(operation_queries.set_concurrency(worker_id, concurrency, actor, reason))

    async def aset_concurrency(
        self, worker_id: str, concurrency: int, *, actor: str | None = None, reason: str | None = None
    ) -> bool:
        return await self._database.arun(operation_queries.set_concurrency(worker_id, concurrency, actor, reason))

    def reset_concurrency(self, worker_id: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        """Let a live worker run as many jobs at once as it was started with. Returns False if it does already."""
        return self._database.run(operation_queries.set_concurrency(worker_id, None, actor, reason))

    async def areset_concurrency(self, worker_id: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        return await self._database.arun(operation_queries.set_concurrency(worker_id, None, actor, reason))
