"""Large things by reference: stored in parts, streamed back, in PostgreSQL or in a place outside of it.

Every part is a statement of its own: a store of an hour holds no transaction open, and works through any pooler. It
can be referred to once its last statement was carried out; what a crash leaves unfinished is swept.
"""

import asyncio
import hashlib
import io
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import closing, nullcontext, suppress
from typing import Any, BinaryIO, TypeVar
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import stored as queries
from treadle.db.queries.stored import PART_SIZE
from treadle.db.query import Query
from treadle.store.places import check_place, reading, settled_place, writing
from treadle.store.source import Source, check_source, name_of, parts
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, StoredDamaged, shown
from treadle.words.naming import text_within
from treadle.words.size import Size, size
from treadle.words.stored import Stored

T = TypeVar("T")

GRACE = "1h"
LIMIT = "2GB"
# How often a long upload to another place says that it goes on.
TOUCH_SECONDS = 60.0


class Store:
    def __init__(
        self,
        database: Database,
        place: str | None,
        grace: Duration,
        limit: Size,
        running_job_id: Callable[[], UUID | None] = lambda: None,
    ) -> None:
        self._database = database
        self._place = None if place is None else check_place(place)
        self.grace = duration(grace, "store_grace")
        self._limit = size(limit, "store_limit")
        self._running_job_id = running_job_id

    def write(self, source: Source, name: str | None) -> Stored:
        with closing(self._steps(source, name)) as steps:
            result: Any = None
            while not isinstance(query := _next(steps, result), Stored):
                result = self._database.run(query)
            return query

    async def awrite(self, source: Source, name: str | None) -> Stored:
        steps = self._steps(source, name)
        try:
            result: Any = None
            # On a thread: a step reads files and counts the digest.
            while not isinstance(query := await asyncio.to_thread(_next, steps, result), Stored):
                result = await self._database.arun(query)
            return query
        finally:
            with suppress(ValueError):  # cancelled while the thread is at it: it ends when that does
                steps.close()

    def open(self, stored: Stored) -> io.BufferedReader:
        place = self._database.run(queries.find(_checked(stored)))
        if place is None:
            return _buffered(stored, lambda nth: self._database.run(queries.read_part(stored, nth)))
        file = reading(place, stored.id)
        return _buffered(stored, lambda nth: _part_of(file, nth), file.close)

    async def aparts(self, stored: Stored) -> AsyncIterator[bytes]:
        place = await self._database.arun(queries.find(_checked(stored)))
        check = Check(stored)
        file = None if place is None else await asyncio.to_thread(reading, place, stored.id)
        try:
            for nth in range(-(-stored.size // PART_SIZE)):
                if file is None:
                    part = await self._database.arun(queries.read_part(stored, nth))
                else:
                    part = await asyncio.to_thread(_part_of, file, nth)
                check.add(nth * PART_SIZE, part)
                yield part
        finally:
            if file is not None:
                file.close()
        check.end()

    @property
    def _schema(self) -> str:
        return self._database.schema

    def _steps(self, source: Source, name: str | None) -> Generator[Query[Any], Any, Stored]:
        """The queries that store it, one after the other, and in the end the reference."""
        check_source(source, self._limit)
        name = name_of(source) if name is None else text_within(name, 200, "name")
        place = None if self._place is None else settled_place(self._place)
        stored_id: UUID = yield queries.create(name, place, self._running_job_id())
        digest, total, told = hashlib.sha256(), 0, time.monotonic()
        try:
            with nullcontext() if place is None else writing(place, stored_id) as file:
                for nth, part in enumerate(parts(source, self._limit)):
                    digest.update(part)
                    total += len(part)
                    if file is None:
                        yield queries.write_part(stored_id, nth, part)
                        continue
                    file.write(part)
                    if time.monotonic() - told > TOUCH_SECONDS:
                        yield queries.touch(stored_id)
                        told = time.monotonic()
        except Exception:
            yield queries.discard(stored_id)
            raise
        stored = Stored(stored_id, total, digest.hexdigest(), name)
        yield queries.finish(stored)
        return stored


class Check:
    """Whether what is read is what was stored: once all parts were read in their order, the digest has to fit. Parts
    that are read again, or out of turn, are not counted."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._digest = hashlib.sha256()
        self._seen = 0

    def add(self, position: int, content: bytes) -> None:
        """Raises StoredDamaged instead of letting the last bytes through."""
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
    """Reads part by part; one part is kept."""

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
            raise ValueError(f"a position must not be negative, got {begin + offset}")
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


def _next(steps: Generator[Query[Any], Any, Stored], result: Any) -> Query[Any] | Stored:
    try:
        return steps.send(result)
    except StopIteration as done:  # cannot be raised out of a thread
        stored: Stored = done.value
        return stored


def _checked(stored: Stored) -> Stored:
    if not isinstance(stored, Stored):
        raise InvalidArgument(
            f"what is read is meant by its reference, a Stored, got {shown(stored)}; "
            "annotate the parameter that it comes from as Stored"
        )
    return stored


def _buffered(
    stored: Stored, part: Callable[[int], bytes], end: Callable[[], None] = lambda: None
) -> io.BufferedReader:
    return io.BufferedReader(StoredFile(stored, part, end), PART_SIZE)


def _part_of(file: BinaryIO, nth: int) -> bytes:
    file.seek(nth * PART_SIZE)
    return file.read(PART_SIZE)
