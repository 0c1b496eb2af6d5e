"""Opening a batch: a workflow without jobs, which are added later."""

from typing import Any

from treadle.app.backend import Backend
from treadle.app.function import Call
from treadle.app.workflows.blocks import Blocks
from treadle.app.workflows.handles import Batch
from treadle.app.workflows.workflow import CALLBACKS, checked_callbacks, deadline_seconds
from treadle.db.queries import stored as stored_queries
from treadle.db.queries import workflows as queries
from treadle.db.query import Query
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument


def open_batch(backend: Backend, name: str, deadline: Duration | None, callbacks: dict[str, Call[Any] | None]) -> Batch:
    enqueued = backend.database.run_together(_queries(name, deadline, callbacks))[-1]
    return Batch(backend, enqueued.id)


async def aopen_batch(
    backend: Backend, name: str, deadline: Duration | None, callbacks: dict[str, Call[Any] | None]
) -> Batch:
    enqueued = (await backend.database.arun_together(_queries(name, deadline, callbacks)))[-1]
    return Batch(backend, enqueued.id)


def _queries(name: str, deadline: Duration | None, callbacks: dict[str, Call[Any] | None]) -> list[Query[Any]]:
    if unknown := callbacks.keys() - CALLBACKS.keys():
        raise InvalidArgument(f"a batch has {', '.join(CALLBACKS)}, got {min(unknown)}")
    blocks = Blocks()
    for callback, call in checked_callbacks(**callbacks).items():
        blocks.add_callback(call, CALLBACKS[callback])
    options: dict[str, Any] = {"is_open": True}
    if (seconds := deadline_seconds(deadline)) is not None:
        options["deadline"] = seconds
    found: list[Query[Any]] = [queries.enqueue_workflow(name, blocks.records, blocks.uses, options)]
    if blocks.uses:
        found.insert(0, stored_queries.lock({stored_id for _, stored_id in blocks.uses}))
    return found
