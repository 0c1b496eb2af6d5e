"""What the tests of stored contents share."""

import asyncio
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from pydantic import BaseModel

from treadle import Stored
from treadle.db.queries.stored import PART_SIZE
from treadle.db.reconnecting import ReconnectingConnection
from treadle.jobs.function import JobFunction
from treadle.worker import maintenance

# Two full parts and a short one.
CONTENT = bytes(range(256)) * (2 * PART_SIZE // 256) + b"the rest"

REFERENCE = Stored(UUID(int=7), 3, "0" * 64, "a.txt")

Resize = JobFunction[..., None, ..., None]


class Album(BaseModel):
    cover: Stored
    pictures: list[Stored] = []


def unknown_reference() -> Stored:
    return Stored(uuid4(), 3, "0" * 64)


def uses(connection: Connection[Any]) -> set[tuple[Any, Any]]:
    return set(connection.execute("select stored_id, job_id from stored_uses").fetchall())


def sweep(url: str, grace: float = 0) -> int:
    async def swept() -> int:
        connection = ReconnectingConnection(url, "treadle", "sweeper")
        try:
            return await maintenance.sweep(connection, timedelta(seconds=grace))
        finally:
            await connection.close()

    return asyncio.run(swept())


def count_rows(connection: Connection[Any], table: str) -> int:
    return len(connection.execute(f"select from {table}").fetchall())


def large_file(folder: Path, megabytes: int) -> Path:
    path = folder / "large"
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(secrets.token_bytes(2**20))
    return path
