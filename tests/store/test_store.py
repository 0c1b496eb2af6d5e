"""Stored contents are read back unchanged, in parts."""

import hashlib
import inspect
import io
import tracemalloc
import zipfile
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from psycopg import Connection

from tests.support.apps import run
from tests.support.stores import CONTENT, count_rows, large_file
from treadle import InvalidArgument, Stored, Treadle
from treadle.db.queries.stored import PART_SIZE
from treadle.store.storage import Storage


class ShortReads:
    """A file that returns fewer bytes than requested, as sockets do."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 100_000))


def as_path(folder: Path) -> Path:
    path = folder / "letter.txt"
    path.write_bytes(CONTENT)
    return path


def as_part_of_a_file(folder: Path) -> BinaryIO:
    file = io.BytesIO(b"read already" + CONTENT)
    file.seek(len(b"read already"))
    return file


KINDS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda _: CONTENT,
    "bytearray": lambda _: bytearray(CONTENT),
    "memoryview": lambda _: memoryview(CONTENT),
    "a view of numbers": lambda _: memoryview(array("d", CONTENT)),
    "a path": as_path,
    "an open file": lambda folder: as_path(folder).open("rb"),
    "the rest of a file": as_part_of_a_file,
    "a file in pieces": lambda _: ShortReads(CONTENT),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_is_read_back_unchanged(app: Treadle, tmp_path: Path, kind: str) -> None:
    source = KINDS[kind](tmp_path)
    expected = CONTENT if kind != "a view of numbers" else bytes(source)
    stored = app.store(source, name="n")
    assert stored == Stored(stored.id, len(expected), hashlib.sha256(expected).hexdigest(), "n")
    assert app.read(stored) == expected
    if isinstance(source, io.BufferedReader):
        source.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_is_read_back_unchanged_asynchronously(app: Treadle, tmp_path: Path, kind: str) -> None:
    source = KINDS[kind](tmp_path)

    async def main() -> tuple[bytes, list[int]]:
        stored = await app.astore(source)
        return await app.aread(stored), [len(part) async for part in app.aparts(stored)]

    content, sizes = run(app, main())
    if kind != "a view of numbers":
        assert (content, sizes) == (CONTENT, [PART_SIZE, PART_SIZE, 8])
    if isinstance(source, io.BufferedReader):
        source.close()


@pytest.mark.parametrize("size", [0, 1, PART_SIZE - 1, PART_SIZE, PART_SIZE + 1])
def test_sizes_around_a_multiple_of_the_part_size_are_stored_correctly(
    app: Treadle, connection: Connection[Any], size: int
) -> None:
    for source in (bytes(size), io.BytesIO(bytes(size))):
        stored = app.store(source)
        assert app.read(stored) == bytes(size)
        assert run(app, app.aread(stored)) == bytes(size)
    assert count_rows(connection, "stored_parts") == 2 * -(-size // PART_SIZE)


def test_the_name_of_a_file_is_kept_unless_another_is_given(app: Treadle, tmp_path: Path) -> None:
    assert app.store(as_path(tmp_path)).name == "letter.txt"
    assert app.store(as_path(tmp_path), name="other").name == "other"
    assert app.store(b"").name is None
    with pytest.raises(InvalidArgument, match="name must be a string of 1 to 200 characters"):
        app.store(b"", name="")


def test_stored_content_can_be_read_like_a_file(app: Treadle) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("a.txt", "a" * 10)
        writer.writestr("b.bin", CONTENT)
    with app.open(app.store(archive.getvalue())) as file, zipfile.ZipFile(file) as reader:
        assert reader.read("b.bin") == CONTENT
    with app.open(app.store(CONTENT)) as file:
        assert file.seek(-4, io.SEEK_END) == len(CONTENT) - 4
        assert file.read() == b"rest"
        assert file.read() == b""
        file.seek(PART_SIZE - 2)
        assert file.read(4) == CONTENT[PART_SIZE - 2 : PART_SIZE + 2]
        assert file.seek(10, io.SEEK_CUR) == file.tell() == PART_SIZE + 12
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)
    with app.open(app.store(b"one\ntwo\n")) as file:
        assert list(file) == [b"one\n", b"two\n"]


@pytest.mark.long
def test_50_megabytes_are_stored_and_read_with_little_memory(app: Treadle, tmp_path: Path) -> None:
    path = large_file(tmp_path, 50)
    app.store(b"warm")
    tracemalloc.start()
    try:
        stored = app.store(path)
        digest = hashlib.sha256()
        with app.open(stored) as file:
            while piece := file.read(100_000):
                digest.update(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert digest.hexdigest() == stored.digest
    assert stored.size == 50 * 2**20
    assert peak < 10 * 2**20


@pytest.mark.long
def test_50_megabytes_are_stored_and_read_with_little_memory_asynchronously(app: Treadle, tmp_path: Path) -> None:
    path = large_file(tmp_path, 50)

    async def main() -> int:
        await app.astore(b"warm")
        tracemalloc.start()
        try:
            with path.open("rb") as file:
                stored = await app.astore(file)
            assert sum([len(part) async for part in app.aparts(stored)]) == 50 * 2**20
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert run(app, main()) < 10 * 2**20


def test_sync_and_async_methods_have_the_same_signature() -> None:
    for one, two in ((Treadle.store, Treadle.astore), (Treadle.read, Treadle.aread), (Storage.write, Storage.awrite)):
        assert inspect.signature(one) == inspect.signature(two)
