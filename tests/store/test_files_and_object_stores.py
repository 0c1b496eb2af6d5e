"""Contents stored in a folder or an object store, through fsspec."""

import hashlib
import io
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from psycopg import Connection

from tests.support.apps import run
from tests.support.stores import CONTENT, count_rows, large_file, sweep
from treadle import InvalidArgument, Store, Stored, StoredDamaged, StoredNotFound, StoreMissing, Treadle
from treadle.db.queries.stored import PART_SIZE
from treadle.store import locations
from treadle.store.storage import Storage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "not there yet" / "blobs"


@pytest.fixture(params=["a folder", "an object store"])
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    MemoryFileSystem.store.clear()
    yield folder.as_uri().replace("%20", " ") if request.param == "a folder" else "memory://bucket/prefix"
    MemoryFileSystem.store.clear()


@pytest.fixture
def app_with_place(url: str, place: str) -> Iterator[Treadle]:
    app = Treadle(url, store=place)
    yield app
    app.close()


def files(place: str) -> list[str]:
    filesystem, root = fsspec.core.url_to_fs(place)
    return sorted(each.rpartition("/")[2] for each in filesystem.find(root))


def test_contents_are_read_back_unchanged(
    app_with_place: Treadle, place: str, connection: Connection[Any], tmp_path: Path
) -> None:
    path = tmp_path / "letter"
    path.write_bytes(CONTENT)
    for source in (CONTENT, path, io.BytesIO(CONTENT), b""):
        stored = app_with_place.store(source)
        expected = b"" if source == b"" else CONTENT
        assert stored.digest == hashlib.sha256(expected).hexdigest()
        assert app_with_place.read(stored) == expected
        assert run(app_with_place, app_with_place.aread(stored)) == expected
    with app_with_place.open(app_with_place.store(CONTENT)) as file:
        file.seek(PART_SIZE - 1)
        assert file.read(2) == CONTENT[PART_SIZE - 1 : PART_SIZE + 1]

    async def main() -> bytes:
        return await app_with_place.aread(await app_with_place.astore(path))

    assert run(app_with_place, main()) == CONTENT
    assert (count_rows(connection, "stored"), count_rows(connection, "stored_parts")) == (6, 0)
    ids = [row[0].hex for row in connection.execute("select id from stored").fetchall()]
    assert files(place) == sorted(ids)


def test_contents_are_found_by_an_application_that_uses_another_place(app_with_place: Treadle, app: Treadle) -> None:
    """The row contains the place, so the place can be changed while references to the old one exist."""
    assert app.read(app_with_place.store(CONTENT)) == CONTENT


def test_a_folder_is_recorded_with_its_absolute_path(
    url: str, connection: Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Treadle(url, store="file://blobs")
    stored = app.store(CONTENT)
    monkeypatch.chdir("/")
    assert app.read(stored) == CONTENT
    assert connection.execute("select place from stored").fetchone() == (f"file://{tmp_path}/blobs",)
    app.close()


def test_50_megabytes_are_stored_in_a_folder_with_little_memory(url: str, folder: Path, tmp_path: Path) -> None:
    app = Treadle(url, store=f"file://{folder}")
    path = large_file(tmp_path, 50)
    app.store(b"warm")
    tracemalloc.start()
    try:
        with app.open(app.store(path)) as file:
            assert sum(len(piece) for piece in iter(lambda: file.read(100_000), b"")) == 50 * 2**20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20
    app.close()


def test_files_are_removed_with_their_last_use(
    app_with_place: Treadle, url: str, place: str, connection: Connection[Any]
) -> None:
    @app_with_place.job
    def resize(picture: Stored) -> None: ...

    stored, unused = app_with_place.store(CONTENT), app_with_place.store(b"1")
    resize.enqueue(stored)
    assert sweep(url, grace=3600) == 0
    assert sweep(url) == 1
    assert files(place) == [stored.id.hex]
    with pytest.raises(StoredNotFound):
        app_with_place.read(unused)
    connection.execute("delete from jobs")
    assert sweep(url) == 1
    assert (files(place), count_rows(connection, "stored")) == ([], 0)


def test_removing_a_file_is_retried(
    app_with_place: Treadle,
    url: str,
    place: str,
    connection: Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
) -> None:
    first, second = app_with_place.store(CONTENT), app_with_place.store(CONTENT)
    filesystem = type(fsspec.core.url_to_fs(place)[0])
    remove = filesystem.rm_file

    def refuse(self: Any, path: str) -> None:
        if first.id.hex in path:
            raise PermissionError("not today")
        remove(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "rm_file", refuse)
        assert sweep(url) == 1
    assert sweep(url) == 0  # it is retried later, not at once
    assert f"stored content {first.id} could not be removed from {place}: not today" in caplog.text
    assert files(place) == [first.id.hex]
    assert second.id != first.id
    connection.execute("update stored set removing_at = removing_at - interval '1 minute'")
    assert sweep(url) == 1
    assert (files(place), count_rows(connection, "stored")) == ([], 0)


def test_a_missing_file_is_an_error_when_read_and_can_be_swept(app_with_place: Treadle, url: str, place: str) -> None:
    stored = app_with_place.store(CONTENT)
    filesystem, root = fsspec.core.url_to_fs(place)
    filesystem.rm(root, recursive=True)
    for read in (app_with_place.read, lambda each: run(app_with_place, app_with_place.aread(each))):
        with pytest.raises(StoredNotFound, match=f"its file is not in {re.escape(place)}"):
            read(stored)
    assert sweep(url) == 1


@pytest.mark.parametrize("changed", [CONTENT[:-1], CONTENT + b"!", CONTENT[:-1] + b"?", CONTENT[:10], b""])
def test_a_changed_file_is_reported_as_damaged(app_with_place: Treadle, place: str, changed: bytes) -> None:
    stored = app_with_place.store(CONTENT)
    filesystem, root = fsspec.core.url_to_fs(place)
    (path,) = filesystem.find(root)
    filesystem.pipe_file(path, changed)
    for read in (app_with_place.read, lambda each: run(app_with_place, app_with_place.aread(each))):
        with pytest.raises(StoredDamaged):
            read(stored)


class FailingSource:
    """A source that fails in its third part, after it has listed the files that exist by then."""

    def __init__(self, place: str) -> None:
        self.place, self.seen, self.parts = place, [""], 0

    def read(self, size: int) -> bytes:
        self.parts += 1
        if self.parts == 3:
            self.seen = files(self.place)
            raise OSError("the cable was pulled")
        return bytes(size)


def test_a_failing_source_leaves_no_file(
    app_with_place: Treadle, url: str, place: str, connection: Connection[Any]
) -> None:
    source = FailingSource(place)
    with pytest.raises(OSError, match="the cable was pulled"):
        app_with_place.store(source)  # type: ignore[arg-type]
    if place.startswith("file"):  # a file gets its final name when it is complete
        assert [each.endswith(".part") for each in source.seen] == [True]
    assert files(place) == []
    assert sweep(url, grace=3600) == 1
    assert count_rows(connection, "stored") == 0


def test_a_failing_database_leaves_no_file(
    app_with_place: Treadle, place: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.store.storage.TOUCH_SECONDS", -1)
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as $$ begin raise 'full'; end $$"
    )
    connection.execute("create trigger refuse before update on stored execute function public.refuse()")
    try:
        for store in (app_with_place.store, lambda source: run(app_with_place, app_with_place.astore(source))):
            with pytest.raises(Exception, match="full"):
                store(CONTENT)
    finally:
        connection.execute("drop trigger refuse on stored; drop function public.refuse")
    assert files(place) == []


def test_files_left_by_a_crash_are_swept(
    app_with_place: Treadle, url: str, place: str, connection: Connection[Any]
) -> None:
    """Before the last statement, with a partial file or with a file that has its final name."""
    for store in (Storage(app_with_place.database, Store(place, grace=0, limit="1GB")) for _ in range(2)):
        steps = store._write(CONTENT, None, None)
        stored_id = app_with_place.database.run(next(steps))
        filesystem, path = locations._located(place, stored_id)
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        filesystem.pipe_file(f"{path}.part" if place.startswith("file") and not files(place) else path, b"half")
    assert len(files(place)) == 2
    assert sweep(url, grace=3600) == 0
    assert sweep(url) == 2
    assert (files(place), count_rows(connection, "stored")) == ([], 0)


def test_content_is_not_swept_during_a_long_upload(
    app_with_place: Treadle, url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.store.storage.TOUCH_SECONDS", 0)

    class SlowSource:
        parts = 0

        def read(self, size: int) -> bytes:
            self.parts += 1
            if self.parts in (2, 3):
                assert sweep(url, grace=60) == 0
            connection.execute("update stored set written_at = now() - interval '1 day'")
            return bytes(size if self.parts < 4 else 0)

    stored = app_with_place.store(SlowSource())  # type: ignore[arg-type]
    assert app_with_place.read(stored) == bytes(3 * PART_SIZE)


def test_a_file_is_synced_to_disk_before_its_row_is_complete(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name if sys.platform == "linux" else "")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    app = Treadle(url, store=f"file://{folder}")
    name = app.store(CONTENT).id.hex
    app.close()
    if sys.platform == "linux":
        assert synced == [f"{name}.part", name[-2:]]


def test_only_filesystems_with_atomic_rename_use_it() -> None:
    assert locations._renames(LocalFileSystem())
    assert not locations._renames(MemoryFileSystem())


def test_an_unknown_protocol_is_refused(url: str, connection: Connection[Any]) -> None:
    app = Treadle(url, store="gopher://hole/prefix")
    with pytest.raises(
        InvalidArgument, match="store 'gopher://hole/prefix' cannot be opened by fsspec: Protocol not known"
    ):
        app.store(CONTENT)
    assert count_rows(connection, "stored") == 0
    app.close()


def test_without_fsspec_the_error_names_the_extra(url: str, monkeypatch: pytest.MonkeyPatch, app: Treadle) -> None:
    app_with_place = Treadle(url, store="memory://bucket")
    stored = app_with_place.store(CONTENT)
    for name in [name for name in sys.modules if name.partition(".")[0] == "fsspec"]:
        monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: app_with_place.store(CONTENT), lambda: app_with_place.read(stored), lambda: app.read(stored)):
        with pytest.raises(StoreMissing, match=r'needs a library .*; run: pip install "treadle\[store\]"'):
            call()
    assert app.read(app.store(CONTENT)) == CONTENT  # contents in PostgreSQL need no library
    assert sweep(url) == 1  # the other content is left to a worker that has fsspec
    app_with_place.close()


def test_fsspec_is_not_imported_with_the_package() -> None:
    code = "import sys, treadle; treadle.Treadle('postgresql://', store='memory://'); print('fsspec' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert shown.stdout == "False\n"
