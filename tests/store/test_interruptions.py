"""A source that fails, a sweep that comes, somebody who cancels: in the middle of writing and of reading."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

from tests.support.apps import run
from tests.support.stores import CONTENT, count_rows, sweep
from treadle import InvalidArgument, StoredNotFound, Treadle
from treadle.db.queries.stored import PART_SIZE

# While it is written


class Texts:
    def read(self, size: int) -> str:
        return "text"


class Broken:
    """Fails in its third part."""

    def __init__(self) -> None:
        self.parts = 0

    def read(self, size: int) -> bytes:
        self.parts += 1
        if self.parts == 3:
            raise OSError("the cable was pulled")
        return bytes(size)


def test_a_source_that_fails_leaves_nothing_that_the_next_sweep_does_not_remove(
    app: Treadle, url: str, connection: Connection[Any]
) -> None:
    sources: list[tuple[Any, type[Exception], str]] = [
        (Broken(), OSError, "the cable was pulled"),
        (Texts(), InvalidArgument, "opened as text"),
    ]
    for source, error, message in sources:
        with pytest.raises(error, match=message):
            app.store(source)
    with pytest.raises(OSError, match="the cable was pulled"):
        run(app, app.astore(Broken()))  # type: ignore[arg-type]
    assert count_rows(connection, "stored_parts") == 4
    assert sweep(url, grace=3600) == 3  # at once: nobody can have the reference
    assert (count_rows(connection, "stored"), count_rows(connection, "stored_parts")) == (0, 0)


@pytest.mark.parametrize("end", [3, 5])
@pytest.mark.parametrize("limit", [1, 400])
def test_what_is_swept_while_it_is_written_is_told(
    app: Treadle, connection: Connection[Any], limit: int, end: int
) -> None:
    """Wholly, or so far that only some of it is gone; before its last part, or before its last statement."""

    class Slow(Broken):
        def read(self, size: int) -> bytes:
            self.parts += 1
            if self.parts == 3:
                connection.execute("select sweep_stored('0', p_parts => %s)", [limit])
            return bytes(size if self.parts < end else 0)

    source = Slow()
    with pytest.raises(StoredNotFound, match="it was removed while it was being written"):
        app.store(source)  # type: ignore[arg-type]
    assert source.parts == 3  # at once, not when all of it was sent


def test_a_long_store_is_not_swept_while_it_goes_on(app: Treadle, url: str, connection: Connection[Any]) -> None:
    class Slow(Broken):
        def read(self, size: int) -> bytes:
            self.parts += 1
            if self.parts in (2, 3):
                # It began long ago, and wrote just now.
                connection.execute("update stored set created_at = now() - interval '1 day'")
                assert sweep(url, grace=60) == 0
                connection.execute("update stored set written_at = now() - interval '1 day'")
            return bytes(size if self.parts < 4 else 0)

    stored = app.store(Slow())  # type: ignore[arg-type]
    assert sweep(url, grace=60) == 0
    assert app.read(stored) == bytes(3 * PART_SIZE)


def test_a_store_that_is_cancelled_ends(app: Treadle, url: str, connection: Connection[Any]) -> None:
    async def main() -> None:
        class Endless(Broken):
            def read(self, size: int) -> bytes:
                self.parts += 1
                if self.parts == 3:
                    loop.call_soon_threadsafe(task.cancel)
                return bytes(size)

        loop = asyncio.get_running_loop()
        task = loop.create_task(app.astore(Endless()))  # type: ignore[arg-type]
        with pytest.raises(asyncio.CancelledError):
            await task

    run(app, main())
    assert sweep(url, grace=3600) == 0
    assert sweep(url) == 1
    assert count_rows(connection, "stored") == 0


# While it is read


def test_what_is_removed_while_it_is_read_is_told(app: Treadle, url: str) -> None:
    stored = app.store(CONTENT)
    with app.open(stored) as file:
        assert file.read(10) == CONTENT[:10]
        assert sweep(url) == 1
        with pytest.raises(StoredNotFound, match="it was removed while it was being read"):
            file.read()


def test_what_is_being_removed_cannot_be_read(app: Treadle, connection: Connection[Any]) -> None:
    """Marked, with some of it still there."""
    stored = app.store(CONTENT)
    with app.open(stored) as file:
        assert file.read(10) == CONTENT[:10]
        assert connection.execute("select swept from sweep_stored('0', p_parts => 1)").fetchone() == (0,)
        with pytest.raises(StoredNotFound, match="it was removed while it was being read"):
            file.read()
    with pytest.raises(StoredNotFound, match="it was removed because no job used it"):
        app.open(stored)
