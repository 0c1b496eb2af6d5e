"""Failing sources, sweeps and cancellations in the middle of writing and reading stored contents."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

from tests.support.apps import run
from tests.support.stores import CONTENT, count_rows, sweep
from treadle import InvalidArgument, StoredNotFound, Treadle
from treadle.db.queries.stored import PART_SIZE

# While writing


class TextSource:
    def read(self, size: int) -> str:
        return "text"


class FailingSource:
    """A source that fails in its third part."""

    def __init__(self) -> None:
        self.parts = 0

    def read(self, size: int) -> bytes:
        self.parts += 1
        if self.parts == 3:
            raise OSError("the cable was pulled")
        return bytes(size)


def test_the_next_sweep_removes_what_a_failed_source_left(app: Treadle, url: str, connection: Connection[Any]) -> None:
    sources: list[tuple[Any, type[Exception], str]] = [
        (FailingSource(), OSError, "the cable was pulled"),
        (TextSource(), InvalidArgument, "opened as text"),
    ]
    for source, error, message in sources:
        with pytest.raises(error, match=message):
            app.store(source)
    with pytest.raises(OSError, match="the cable was pulled"):
        run(app, app.astore(FailingSource()))  # type: ignore[arg-type]
    assert count_rows(connection, "stored_parts") == 4
    assert sweep(url, grace=3600) == 3  # the grace does not apply: no caller can have the reference
    assert (count_rows(connection, "stored"), count_rows(connection, "stored_parts")) == (0, 0)


@pytest.mark.parametrize("end", [3, 5])
@pytest.mark.parametrize("limit", [1, 400])
def test_content_that_is_swept_while_it_is_written_is_an_error(
    app: Treadle, connection: Connection[Any], limit: int, end: int
) -> None:
    """The sweep removes all or only some of it, before its last part or before its last statement."""

    class SlowSource(FailingSource):
        def read(self, size: int) -> bytes:
            self.parts += 1
            if self.parts == 3:
                connection.execute("select sweep_stored('0', p_parts => %s)", [limit])
            return bytes(size if self.parts < end else 0)

    source = SlowSource()
    with pytest.raises(StoredNotFound, match="it was removed while it was being written"):
        app.store(source)  # type: ignore[arg-type]
    assert source.parts == 3  # the error comes at once, not after the whole content was sent


def test_content_is_not_swept_during_a_long_write(app: Treadle, url: str, connection: Connection[Any]) -> None:
    class SlowSource(FailingSource):
        def read(self, size: int) -> bytes:
            self.parts += 1
            if self.parts in (2, 3):
                # It began long ago, but wrote just now.
                connection.execute("update stored set created_at = now() - interval '1 day'")
                assert sweep(url, grace=60) == 0
                connection.execute("update stored set written_at = now() - interval '1 day'")
            return bytes(size if self.parts < 4 else 0)

    stored = app.store(SlowSource())  # type: ignore[arg-type]
    assert sweep(url, grace=60) == 0
    assert app.read(stored) == bytes(3 * PART_SIZE)


def test_storing_can_be_cancelled(app: Treadle, url: str, connection: Connection[Any]) -> None:
    async def main() -> None:
        class EndlessSource(FailingSource):
            def read(self, size: int) -> bytes:
                self.parts += 1
                if self.parts == 3:
                    loop.call_soon_threadsafe(task.cancel)
                return bytes(size)

        loop = asyncio.get_running_loop()
        task = loop.create_task(app.astore(EndlessSource()))  # type: ignore[arg-type]
        with pytest.raises(asyncio.CancelledError):
            await task

    run(app, main())
    assert sweep(url, grace=3600) == 0
    assert sweep(url) == 1
    assert count_rows(connection, "stored") == 0


# While reading


def test_content_that_is_removed_while_it_is_read_is_an_error(app: Treadle, url: str) -> None:
    stored = app.store(CONTENT)
    with app.open(stored) as file:
        assert file.read(10) == CONTENT[:10]
        assert sweep(url) == 1
        with pytest.raises(StoredNotFound, match="it was removed while it was being read"):
            file.read()


def test_content_that_is_being_removed_cannot_be_read(app: Treadle, connection: Connection[Any]) -> None:
    """It is marked as removed, and some parts still exist."""
    stored = app.store(CONTENT)
    with app.open(stored) as file:
        assert file.read(10) == CONTENT[:10]
        assert connection.execute("select swept from sweep_stored('0', p_parts => 1)").fetchone() == (0,)
        with pytest.raises(StoredNotFound, match="it was removed while it was being read"):
            file.read()
    with pytest.raises(StoredNotFound, match="it was removed because no job used it"):
        app.open(stored)
