"""What is stored comes back as it was, in parts; what cannot be stored or read is refused in a sentence."""

import asyncio
import hashlib
import inspect
import io
import json
import re
import tracemalloc
import zipfile
from array import array
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, Connection
from pydantic import BaseModel, ConfigDict, TypeAdapter

from tests.apps import run
from tests.stores import CONTENT, count, large_file, sweep
from treadle import InvalidArgument, InvalidPayload, Stored, StoredDamaged, StoredNotFound, Treadle
from treadle.app.store import Store
from treadle.db.stored import PART_SIZE

DIGEST = hashlib.sha256(CONTENT).hexdigest()
REFERENCE = Stored(UUID(int=7), 3, "0" * 64, "a.txt")


class InPieces:
    """A file that gives less than it is asked for, as sockets do."""

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
    "a file in pieces": lambda _: InPieces(CONTENT),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_comes_back(app: Treadle, tmp_path: Path, kind: str) -> None:
    source = KINDS[kind](tmp_path)
    expected = CONTENT if kind != "a view of numbers" else bytes(source)
    stored = app.store(source, name="n")
    assert stored == Stored(stored.id, len(expected), hashlib.sha256(expected).hexdigest(), "n")
    assert app.read(stored) == expected
    if isinstance(source, io.BufferedReader):
        source.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_comes_back_asynchronously(app: Treadle, tmp_path: Path, kind: str) -> None:
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
def test_sizes_around_a_part(app: Treadle, connection: Connection[Any], size: int) -> None:
    for source in (bytes(size), io.BytesIO(bytes(size))):
        stored = app.store(source)
        assert app.read(stored) == bytes(size)
        assert run(app, app.aread(stored)) == bytes(size)
    assert count(connection, "stored_parts") == 2 * -(-size // PART_SIZE)


def test_a_file_has_its_own_name_unless_it_is_given_another(app: Treadle, tmp_path: Path) -> None:
    assert app.store(as_path(tmp_path)).name == "letter.txt"
    assert app.store(as_path(tmp_path), name="other").name == "other"
    assert app.store(b"").name is None
    with pytest.raises(InvalidArgument, match="name must be a text of 1 to 200 characters"):
        app.store(b"", name="")


def test_it_is_read_like_a_file(app: Treadle) -> None:
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


def test_50_megabytes_go_through_a_few_of_memory(app: Treadle, tmp_path: Path) -> None:
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


def test_50_megabytes_go_through_a_few_of_memory_asynchronously(app: Treadle, tmp_path: Path) -> None:
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


# The reference


class Album(BaseModel):
    model_config = ConfigDict(strict=True)
    cover: Stored
    pictures: dict[str, list[Stored]] = {}


@pytest.mark.parametrize("hint", [Stored, Stored | None, Stored | str, Any])
def test_the_reference_is_small_json_that_tells_what_it_is(hint: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    text = adapter.dump_json(REFERENCE)
    assert json.loads(text) == {"stored": str(REFERENCE.id), "size": 3, "digest": "0" * 64, "name": "a.txt"}
    if hint is not Any:
        assert adapter.validate_json(text) == REFERENCE
    assert adapter.validate_python(REFERENCE) is REFERENCE
    assert "name" not in json.loads(adapter.dump_json(replace(REFERENCE, name=None)))


def test_the_reference_can_be_inside_of_models() -> None:
    album = Album(cover=REFERENCE, pictures={"a": [REFERENCE, REFERENCE]})
    assert Album.model_validate_json(album.model_dump_json()) == album
    assert Album.model_json_schema()["properties"]["cover"]["required"] == ["stored", "size", "digest"]
    with pytest.raises(FrozenInstanceError):
        REFERENCE.size = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        {},
        {"stored": "no uuid", "size": 3, "digest": "0" * 64},
        {"stored": 7, "size": 3, "digest": "0" * 64},
        {"stored": str(uuid4()), "size": True, "digest": "0" * 64},
        {"stored": str(uuid4()), "size": -1, "digest": "0" * 64},
        {"stored": str(uuid4()), "size": 3, "digest": "short"},
        {"stored": str(uuid4()), "size": 3, "digest": "0" * 64, "name": 7},
    ],
)
def test_what_is_no_reference_is_refused(app: Treadle, value: Any) -> None:
    @app.job
    def resize(picture: Stored) -> None: ...

    with pytest.raises(InvalidPayload, match=r"resize\.picture: Input should be what app\.store\(…\) returns"):
        resize.enqueue(value)


# What cannot be stored


def test_what_cannot_be_stored_is_refused(app: Treadle, connection: Connection[Any], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("text")
    refused: list[tuple[Any, str]] = [
        ("a text", "got the text 'a text'; for a path use Path(…), for a text .encode()"),
        (tmp_path / "nowhere", "nowhere', which is no such file"),
        (tmp_path, "which is a folder"),
        (7, "got 7 (int)"),
        (None, "got None (NoneType)"),
        (io.StringIO("text"), "got a file opened as text (<_io.StringIO object"),
    ]
    for source, message in refused:
        with pytest.raises(InvalidArgument, match=re.escape(message)):
            app.store(source)
        with pytest.raises(InvalidArgument, match=re.escape(message)):
            run(app, app.astore(source))
    with text.open() as file, pytest.raises(InvalidArgument, match=r'as text .* open it with "rb"'):
        app.store(file)  # type: ignore[arg-type]
    assert count(connection, "stored") == 0


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
    assert count(connection, "stored_parts") == 4
    assert sweep(url, grace=3600) == 3  # at once: nobody can have the reference
    assert (count(connection, "stored"), count(connection, "stored_parts")) == (0, 0)


def test_what_is_too_large_is_refused(url: str, connection: Connection[Any], tmp_path: Path) -> None:
    app = Treadle(url, store_limit=PART_SIZE)
    path = tmp_path / "large"
    path.write_bytes(CONTENT)
    told = r"at most 262,144 bytes can be stored, got 524,\d+ or more; raise store_limit"
    sources: list[Any] = [CONTENT, path, io.BytesIO(CONTENT)]
    for source, begun in zip(sources, (0, 0, 1), strict=True):
        with pytest.raises(InvalidArgument, match=told):
            app.store(source)
        assert count(connection, "stored") == begun  # where the size is known, nothing is written at all
    app.close()


def test_options_that_cannot_be_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match='store_limit must be a number of bytes or a text such as "512MB"'):
        Treadle(url, store_limit="much")
    with pytest.raises(InvalidArgument, match="store_grace must be a timedelta"):
        Treadle(url, store_grace="long")
    with pytest.raises(InvalidArgument, match=r'store must be a URL such as "file:///var/lib/blobs".*got \'blobs\''):
        Treadle(url, store="blobs")


def test_the_error_of_a_payload_that_is_too_large_points_here(app: Treadle) -> None:
    @app.job
    def resize(picture: str) -> None: ...

    with pytest.raises(InvalidPayload, match=r"put the large part into app\.store\(…\) and send the reference"):
        resize.enqueue("x" * 300_000)


# What cannot be read


def test_an_unknown_reference_is_told(app: Treadle) -> None:
    with pytest.raises(
        StoredNotFound, match=f"nothing stored as {REFERENCE.id}: it was removed because no job used it"
    ):
        app.open(REFERENCE)
    for read in (app.read, lambda each: run(app, app.aread(each))):
        with pytest.raises(StoredNotFound):
            read(REFERENCE)
    with pytest.raises(InvalidArgument, match=r"a Stored, got \{'stored': .* annotate the parameter"):
        app.open({"stored": str(REFERENCE.id)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("update stored_parts set bytes = set_byte(bytes, 0, 255 - get_byte(bytes, 0)) where part = 1", "SHA-256"),
        ("update stored_parts set bytes = 'short' where part = 1", "expected 262,144 bytes at 262,144, got 5"),
        ("update stored_parts set bytes = 'longer than it was' where part = 2", "expected 8 bytes at 524,288, got 18"),
        ("delete from stored_parts where part = 2", "expected a part 2, got none"),
    ],
)
def test_what_was_damaged_is_not_taken_for_what_was_stored(
    app: Treadle, connection: Connection[Any], damage: str, told: str
) -> None:
    stored = app.store(CONTENT)
    connection.execute(damage)
    for read in (app.read, lambda each: run(app, app.aread(each))):
        with pytest.raises(StoredDamaged, match=told):
            read(stored)
    with app.open(stored) as file, pytest.raises(StoredDamaged, match=told):
        list(iter(lambda: file.read(1000), b""))


def test_an_empty_one_with_another_digest_is_damaged(app: Treadle) -> None:
    stored = replace(app.store(b""), digest="0" * 64)
    for read in (app.read, lambda each: run(app, app.aread(each))):
        with pytest.raises(StoredDamaged, match="SHA-256"):
            read(stored)


def test_what_is_not_complete_cannot_be_referred_to(app: Treadle, connection: Connection[Any]) -> None:
    """As a crash leaves it."""

    @app.job
    def resize(picture: Stored) -> None: ...

    stored = app.store(CONTENT)
    connection.execute("update stored set size = null")
    with pytest.raises(StoredNotFound):
        app.read(stored)
    with pytest.raises(StoredNotFound):
        resize.enqueue(stored)


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


def test_on_a_connection_of_the_callers_it_is_part_of_the_transaction(url: str, connection: Connection[Any]) -> None:
    with psycopg.connect(url) as mine:
        app = Treadle(mine)
        stored = app.store(CONTENT)
        assert app.read(stored) == CONTENT
        assert count(connection, "stored") == 0
        mine.rollback()
        with pytest.raises(StoredNotFound):
            app.read(stored)

    async def main() -> bytes:
        async with await AsyncConnection.connect(url) as mine:
            app = Treadle(mine)
            return await app.aread(await app.astore(CONTENT))

    assert asyncio.run(main()) == CONTENT


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
    assert count(connection, "stored") == 0


def test_twins_have_the_same_signature() -> None:
    for one, two in ((Treadle.store, Treadle.astore), (Treadle.read, Treadle.aread), (Store.write, Store.awrite)):
        assert inspect.signature(one) == inspect.signature(two)


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
