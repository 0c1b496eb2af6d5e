"""Stores large content by reference: written and read in parts, in PostgreSQL or in a location outside of it.

Every part is a statement of its own, so that a long upload keeps no transaction open and works through any pooler. The
content can be referred to after the last statement; what a crash leaves incomplete is swept.
"""

import asyncio
import hashlib
import io
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import nullcontext
from typing import Any, BinaryIO
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import stored as stored_queries
from treadle.db.queries.stored import PART_SIZE
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.store.locations import check_location, reading, settled_location, writing
from treadle.store.source import Source, check_source, name_of, parts
from treadle.words.duration import duration
from treadle.words.errors import InvalidArgument, StoredDamaged, shown
from treadle.words.naming import text_within
from treadle.words.size import size
from treadle.words.store import Store
from treadle.words.stored import Stored

# How often a long upload to a location outside of the database is touched, so that it is not swept.
TOUCH_SECONDS = 60.0


class Storage:
    """Writes and reads stored content, in the database or in the location that `store` names."""

    def __init__(self, database: Database, store: Store) -> None:
        self._database = database
        self._location = None if store.url is None else check_location(store.url)
        self.grace = duration(store.grace)
        self._limit = size(store.limit)

    def write(self, source: Source, name: str | None, job_id: UUID | None = None) -> Stored:
        """Store the source. With `job_id` it is kept as long as that job exists."""
        return drive(self._write(source, name, job_id), self._database.run)

    async def awrite(self, source: Source, name: str | None, job_id: UUID | None = None) -> Stored:
        # On a thread, because the script reads files and computes the digest.
        return await adrive(self._write(source, name, job_id), self._database.arun, on_thread=True)

    def open(self, stored: Stored) -> io.BufferedReader:
        location = self._database.run(stored_queries.get_stored(_checked(stored)))
        if location is None:
            return _buffered(stored, lambda nth: self._database.run(stored_queries.get_part(stored, nth)))
        file = reading(location, stored.id)
        return _buffered(stored, lambda nth: _part_of(file, nth), file.close)

    async def aparts(self, stored: Stored) -> AsyncIterator[bytes]:
        location = await self._database.arun(stored_queries.get_stored(_checked(stored)))
        check = Check(stored)
        file = None if location is None else await asyncio.to_thread(reading, location, stored.id)
        try:
            for nth in range(-(-stored.size // PART_SIZE)):
                if file is None:
                    part = await self._database.arun(stored_queries.get_part(stored, nth))
                else:
                    part = await asyncio.to_thread(_part_of, file, nth)
                check.add(nth * PART_SIZE, part)
                yield part
        finally:
            if file is not None:
                file.close()
        check.end()

    def _write(self, source: Source, name: str | None, job_id: UUID | None) -> Generator[Query[Any], Any, Stored]:
        check_source(source, self._limit)
        name = name_of(source) if name is None else text_within(name, 200, "name")
        location = None if self._location is None else settled_location(self._location)
        stored_id: UUID = yield stored_queries.create(name, location, job_id)
        digest, total, touched = hashlib.sha256(), 0, time.monotonic()
        try:
            with nullcontext() if location is None else writing(location, stored_id) as file:
                for nth, part in enumerate(parts(source, self._limit)):
                    digest.update(part)
                    total += len(part)
                    if file is None:
                        yield stored_queries.write_part(stored_id, nth, part)
                        continue
                    file.write(part)
                    if time.monotonic() - touched > TOUCH_SECONDS:
                        yield stored_queries.touch(stored_id)
                        touched = time.monotonic()
        except Exception:
            yield stored_queries.discard(stored_id)
            raise
        stored = Stored(stored_id, total, digest.hexdigest(), name)
        yield stored_queries.finish(stored)
        return stored


class Check:
    """Checks that what is read is what was stored: once all parts were read in order, the digest must match. Parts that
    are read again or out of order are ignored."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._digest = hashlib.sha256()
        self._seen = 0

    def add(self, position: int, content: bytes) -> None:
        """Raise StoredDamaged before the last bytes are returned, if the digest does not match."""
        expected = min(PART_SIZE, self._stored.size - position)
        if len(content) != expected:
            raise StoredDamaged(self._stored.id, f"{expected:,} bytes at {position:,}", f"{len(content):,}")
        if position == self._seen:
            self._digest.update(content)
            self._seen += len(content)
            if self._seen == self._stored.size:
                self.end()

    def end(self) -> None:
        if self._digest.hexdigest() != self._stored.digest:
            raise StoredDamaged(self._stored.id, f"SHA-256 {self._stored.digest}", self._digest.hexdigest())


class StoredFile(io.RawIOBase):
    """Reads stored content as a file, and keeps one part in memory."""

    def __init__(self, stored: Stored, part: Callable[[int], bytes], end: Callable[[], None]) -> None:
        super().__init__()
        self._stored = stored
        self._part = part
        self._end = end
        self._check = Check(stored)
        self._position = 0
        self._kept: tuple[int, bytes] = (-1, b"")
        if stored.size == 0:
            self._check.end()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._stored.size}[whence]
        if begin + offset < 0:
            raise ValueError(f"the position must not be negative, got {begin + offset}")
        self._position = begin + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._stored.size:
            return 0
        nth, offset = divmod(self._position, PART_SIZE)
        if self._kept[0] != nth:
            content = self._part(nth)
            self._check.add(nth * PART_SIZE, content)
            self._kept = nth, content
        given = self._kept[1][offset : offset + len(buffer)]
        buffer[: len(given)] = given
        self._position += len(given)
        return len(given)

    def close(self) -> None:
        if not self.closed:
            self._end()
        super().close()


def _checked(stored: Stored) -> Stored:
    if not isinstance(stored, Stored):
        raise InvalidArgument(
            f"expected a Stored reference, got {shown(stored)}; annotate the parameter that it comes from as Stored"
        )
    return stored


def _buffered(
    stored: Stored, part: Callable[[int], bytes], end: Callable[[], None] = lambda: None
) -> io.BufferedReader:
    return io.BufferedReader(StoredFile(stored, part, end), PART_SIZE)


def _part_of(file: BinaryIO, nth: int) -> bytes:
    file.seek(nth * PART_SIZE)
    return file.read(PART_SIZE)
