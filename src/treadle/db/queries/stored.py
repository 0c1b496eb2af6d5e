"""Queries about stored content: writing it, reading it, its use by jobs, sweeping it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from treadle.db.queries import enqueueing
from treadle.db.query import Query, Rows, call, statement
from treadle.words.errors import StoredDamaged, StoredNotFound
from treadle.words.stored import Stored
from treadle.words.unique import Enqueued

# A part is written and read as a whole, so a few times this size is in memory at a time.
PART_SIZE = 256 * 1024


class Swept(NamedTuple):
    """What a sweep did: how many rows it removed, whether there is more to do, and the files to remove."""

    removed: int
    more: bool
    files: list[tuple[UUID, str]]


# Writing


def create(name: str | None, location: str | None, job_id: UUID | None) -> Query[UUID]:
    params = {"name": name, "place": location, "job_id": job_id}
    return Query(statement("create_stored"), params, lambda rows: UUID(str(rows[0][0])))


def write_part(stored_id: UUID, part: int, content: bytes) -> Query[None]:
    params = {"id": stored_id, "part": part, "bytes": content}
    return Query(statement("write_part"), params, _still_there(stored_id))


def touch(stored_id: UUID) -> Query[None]:
    return Query(statement("touch_stored"), {"id": stored_id}, _still_there(stored_id))


def finish(stored: Stored) -> Query[None]:
    params = {"id": stored.id, "size": stored.size, "digest": stored.digest}
    return Query(statement("finish_stored"), params, _still_there(stored.id))


def discard(stored_id: UUID) -> Query[None]:
    return Query(statement("discard_stored"), {"id": stored_id}, lambda _: None)


# Reading


def get_stored(stored: Stored) -> Query[str | None]:
    """Returns the location of its file, or None if its bytes are in PostgreSQL."""

    def read(rows: Rows) -> str | None:
        if not rows:
            raise StoredNotFound(stored.id)
        location: str | None = rows[0][0]
        return location

    return Query(statement("get_stored"), {"id": stored.id}, read)


def get_part(stored: Stored, part: int) -> Query[bytes]:
    def read(rows: Rows) -> bytes:
        if not rows:
            raise StoredNotFound(stored.id, "it was removed while it was being read")
        if rows[0][0] is None:
            raise StoredDamaged(stored.id, f"a part {part}", "none")
        return bytes(rows[0][0])

    return Query(statement("get_part"), {"id": stored.id, "part": part}, read)


# Use by jobs


def enqueue_using(
    enqueues: Sequence[Query[list[Enqueued]]], uses: Sequence[tuple[int, UUID]]
) -> list[Query[list[Enqueued]]]:
    """The same enqueues, which also record the stored content that the jobs use: pairs of the number of a job (from 0)
    and the id of the content.

    First a query checks that all of it exists, before anything is enqueued: an error raised by the server would abort
    the caller's transaction.
    """
    chunks: list[list[tuple[int, UUID]]] = [[] for _ in enqueues]
    for nth, stored_id in uses:
        chunk = 0 if len(enqueues) == 1 else nth // enqueueing.CHUNK
        chunks[chunk].append((nth - chunk * enqueueing.CHUNK + 1, stored_id))
    return [
        lock({stored_id for _, stored_id in uses}),
        *(_using(each, used) if used else each for each, used in zip(enqueues, chunks, strict=True)),
    ]


def lock(stored_ids: Iterable[UUID]) -> Query[list[Enqueued]]:
    """Keep this content from being removed until the transaction ends. Raises StoredNotFound if some does not exist.
    Returns an empty list, so that it can run together with enqueues."""

    def read(rows: Rows) -> list[Enqueued]:
        if rows:
            raise StoredNotFound(rows[0][0])
        return []

    return Query(statement("lock_stored"), {"stored": _joined(stored_ids)}, read)


def use(uses: Sequence[tuple[UUID, UUID | str]]) -> Query[list[UUID]]:
    """Record which job uses which content, in pairs of their ids. Returns the ids of content that no longer exists."""
    params = {"jobs": _joined(job for job, _ in uses), "stored": _joined(stored for _, stored in uses)}
    return Query(statement("use_stored"), params, lambda rows: [row[0] for row in rows])


# Sweeping


def sweep(grace: timedelta, limit: int) -> Query[Swept]:
    def read(rows: Rows) -> Swept:
        removed, more, files, locations = rows[0]
        return Swept(removed, more, list(zip(files, locations, strict=True)))

    return call("sweep_stored", {"grace": grace, "limit": limit}, read, columns="swept, more, files, places")


def forget(stored_ids: Iterable[UUID]) -> Query[int]:
    return Query(statement("forget_stored"), {"stored": _joined(stored_ids)}, len)


def _using(enqueue: Query[list[Enqueued]], uses: Sequence[tuple[int, UUID]]) -> Query[list[Enqueued]]:
    if "options" in enqueue.params:
        # A job that existed before and was not changed has its own payload.
        columns, condition = "id, is_new, is_changed", "enqueued.is_new or enqueued.is_changed"
        return enqueueing.using(enqueue, columns, condition, uses)
    enqueue = replace(enqueue, text=f"select added.id from ({enqueue.text}) as added (id)", alone=False, often=False)
    return enqueueing.using(enqueue, "id", "enqueued.id is not null", uses)


def _still_there(stored_id: UUID) -> Callable[[Rows], None]:
    def read(rows: Rows) -> None:
        if not rows:
            raise StoredNotFound(stored_id, "it was removed while it was being written")

    return read


def _joined(ids: Iterable[UUID | str]) -> str:
    return ",".join(str(each) for each in ids)
