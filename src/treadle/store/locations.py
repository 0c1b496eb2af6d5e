"""Locations outside of PostgreSQL: a folder or an object store, through fsspec. Each stored content is a file, named by
its id.

A file is valid once its row in the database has a size. What a crash leaves behind has a row without a size, and is
swept. Credentials and endpoints come from fsspec's configuration or the environment, never from the row.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from treadle.text.log import log
from treadle.words.errors import InvalidArgument, StoredNotFound, StoreMissing, shown


def check_location(url: str) -> str:
    """Return the URL of a location, or raise InvalidArgument."""
    if not isinstance(url, str) or "://" not in url:
        raise InvalidArgument(
            f'store must be a URL such as "file:///var/lib/blobs" or "s3://bucket/prefix", got {shown(url)}'
        )
    return url


def settled_location(url: str) -> str:
    """The URL by which other processes find the location: a folder by its absolute path."""
    filesystem, root = _filesystem(url)
    return str(filesystem.unstrip_protocol(root)) if _is_local(filesystem) else url


@contextmanager
def writing(location: str, stored_id: UUID) -> Iterator[BinaryIO]:
    """A file to write to. Where the filesystem can rename files, it gets its name only once it is complete."""
    filesystem, path = _located(location, stored_id)
    draft = f"{path}.part" if _renames(filesystem) else path
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    file = filesystem.open(draft, "wb")
    try:
        yield file
        if _is_local(filesystem):
            file.flush()
            os.fsync(file.fileno())
        file.close()
        if draft != path:
            filesystem.mv(draft, path)
        if _is_local(filesystem):
            _sync_folder(Path(path).parent)
    except BaseException:
        # Closed first, even if that completes the upload: only then does the removal remove everything.
        with suppress(Exception):
            file.close()
        for each in {draft, path}:
            with suppress(Exception):
                filesystem.rm_file(each)
        raise


def reading(location: str, stored_id: UUID) -> BinaryIO:
    filesystem, path = _located(location, stored_id)
    try:
        file: BinaryIO = filesystem.open(path, "rb")
    except FileNotFoundError:
        raise StoredNotFound(stored_id, f"its file is not in {location} (or this machine cannot access it)") from None
    return file


def remove_files(files: Sequence[tuple[UUID, str]]) -> list[UUID]:
    """Remove files, and return the ids of those that no longer exist. Failures are logged; they are retried later."""
    gone = []
    for stored_id, location in files:
        try:
            filesystem, path = _located(location, stored_id)
            for each in (f"{path}.part", path) if _renames(filesystem) else (path,):
                with suppress(FileNotFoundError):
                    filesystem.rm_file(each)
            gone.append(stored_id)
        except Exception as error:
            log.warning("stored content %s could not be removed from %s: %s", stored_id, location, error)
    return gone


def _located(location: str, stored_id: UUID) -> tuple[Any, str]:
    filesystem, root = _filesystem(location)
    name = stored_id.hex
    # 256 folders, by the random end of the id.
    return filesystem, f"{root.rstrip('/')}/{name[-2:]}/{name}"


def _filesystem(location: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        filesystem, root = url_to_fs(location)
    except ImportError as error:
        raise StoreMissing(location, error) from None
    except ValueError as error:  # a protocol that fsspec does not know
        raise InvalidArgument(f"store {location!r} cannot be opened by fsspec: {error}") from None
    return filesystem, str(root)


def _renames(filesystem: Any) -> bool:
    """Whether it can rename a file without copying it. Object stores cannot, and need not: a file appears once it is
    closed."""
    from fsspec import AbstractFileSystem

    return type(filesystem).mv is not AbstractFileSystem.mv


def _is_local(filesystem: Any) -> bool:
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(filesystem, LocalFileSystem)


def _sync_folder(folder: Path) -> None:
    """Make the name of a file as durable as its content."""
    with suppress(OSError):  # some systems do not open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
