"""Opening a batch: a workflow without jobs, which are added later."""

from typing import Any

from treadle.db.queries import workflows as queries
from treadle.db.query import Query
from treadle.jobs.backend import Backend
from treadle.jobs.function import Call
from treadle.jobs.middleware import EnqueueCall
from treadle.jobs.workflows.blocks import Blocks
from treadle.jobs.workflows.handles import Batch
from treadle.jobs.workflows.workflow import CALLBACKS, checked_callbacks, deadline_seconds, noted
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument


def open_batch(backend: Backend, name: str, deadline: Duration | None, callbacks: dict[str, Call[Any] | None]) -> Batch:
    with backend.middlewares.around_enqueue(queries.WORKFLOW) as call:
        enqueued = noted(backend.database.run_together(_queries(name, deadline, callbacks, call)), call)
    return Batch(backend, enqueued.id)


async def aopen_batch(
    backend: Backend, name: str, deadline: Duration | None, callbacks: dict[str, Call[Any] | None]
) -> Batch:
    with backend.middlewares.around_enqueue(queries.WORKFLOW) as call:
        enqueued = noted(await backend.database.arun_together(_queries(name, deadline, callbacks, call)), call)
    return Batch(backend, enqueued.id)


def _queries(
    name: str, deadline: Duration | None, callbacks: dict[str, Call[Any] | None], enqueue: EnqueueCall
) -> list[Query[Any]]:
    if unknown := callbacks.keys() - CALLBACKS.keys():
        raise InvalidArgument(f"a batch has {', '.join(CALLBACKS)}, got {min(unknown)}")
    blocks = Blocks()
    for callback, call in checked_callbacks(**callbacks).items():
        blocks.add_callback(call, CALLBACKS[callback])
    options: dict[str, Any] = {"is_open": True}
    if (seconds := deadline_seconds(deadline)) is not None:
        options["deadline"] = seconds
    return blocks.queries(name, options, enqueue.headers)
