"""Sources of stored content: bytes, the file at a path, or an open binary file, read in parts."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from treadle.db.queries.stored import PART_SIZE
from treadle.words.errors import InvalidArgument, shown

Source: TypeAlias = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO

_EXPECTED = "bytes, a Path or an open binary file"


def check_source(source: Source, limit: int) -> None:
    """Raise InvalidArgument for a source that cannot be stored, as far as is known before it is read."""
    if isinstance(source, str):
        raise InvalidArgument(
            f"expected {_EXPECTED} to store, got the string {shown(source)}; use Path(…) for a path, .encode() for text"
        )
    if isinstance(source, bytes | bytearray | memoryview):
        _check_size(memoryview(source).nbytes, limit)
    elif isinstance(source, os.PathLike):
        path = Path(source)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise InvalidArgument(f"expected {_EXPECTED} to store, got {str(path)!r}, which {what}")
        _check_size(path.stat().st_size, limit)
    elif isinstance(source, io.TextIOBase):
        raise _as_text(source)
    elif not callable(getattr(source, "read", None)):
        raise InvalidArgument(f"expected {_EXPECTED} to store, got {shown(source)} ({type(source).__name__})")


def parts(source: Source, limit: int) -> Iterator[bytes]:
    """The content in parts of PART_SIZE; the last one may be shorter."""
    if isinstance(source, bytes | bytearray | memoryview):
        whole = memoryview(source).cast("B")
        for begin in range(0, len(whole), PART_SIZE):
            yield bytes(whole[begin : begin + PART_SIZE])
    elif isinstance(source, os.PathLike):
        with Path(source).open("rb") as file:
            yield from _read(file, limit)
    else:
        yield from _read(source, limit)


def name_of(source: Source) -> str | None:
    """The name of a file at a path."""
    return Path(source).name[-200:] if isinstance(source, os.PathLike) else None


def _read(file: BinaryIO, limit: int) -> Iterator[bytes]:
    total = 0
    while part := _part(file):
        total += len(part)
        _check_size(total, limit)
        yield part
        if len(part) < PART_SIZE:
            return


def _part(file: BinaryIO) -> bytes:
    """Read PART_SIZE bytes, or up to the end: sockets and pipes return less at a time."""
    pieces: list[bytes] = []
    wanted = PART_SIZE
    while wanted:
        piece: Any = file.read(wanted)
        if isinstance(piece, str):
            raise _as_text(file)
        if not piece:
            break
        pieces.append(piece)
        wanted -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise InvalidArgument(
            f"at most {limit:,} bytes can be stored, got {size:,} or more; raise the limit of the store, "
            "or store it elsewhere and send its URL"
        )


def _as_text(source: object) -> InvalidArgument:
    return InvalidArgument(
        f'expected {_EXPECTED} to store, got a file opened as text ({shown(source)}); open it with "rb"'
    )
