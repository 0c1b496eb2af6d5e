"""Sources that cannot be stored, and contents that cannot be read back unchanged, give readable errors."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support.apps import run
from tests.support.stores import CONTENT, REFERENCE, count_rows
from treadle import InvalidArgument, InvalidPayload, Store, Stored, StoredDamaged, StoredNotFound, Treadle
from treadle.db.queries.stored import PART_SIZE

# Storing


def test_an_unsupported_source_is_refused(app: Treadle, connection: Connection[Any], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("text")
    refused: list[tuple[Any, str]] = [
        ("a text", "got the string 'a text'; use Path(…) for a path, .encode() for text"),
        (tmp_path / "nowhere", "nowhere', which does not exist"),
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
    assert count_rows(connection, "stored") == 0


def test_content_that_is_too_large_is_refused(url: str, connection: Connection[Any], tmp_path: Path) -> None:
    app = Treadle(url, store=Store(limit=PART_SIZE))
    path = tmp_path / "large"
    path.write_bytes(CONTENT)
    message = r"at most 262,144 bytes can be stored, got 524,\d+ or more; raise the limit of the store"
    sources: list[Any] = [CONTENT, path, io.BytesIO(CONTENT)]
    for source, begun in zip(sources, (0, 0, 1), strict=True):
        with pytest.raises(InvalidArgument, match=message):
            app.store(source)
        assert count_rows(connection, "stored") == begun  # if the size is known, nothing is written
    app.close()


def test_invalid_store_options_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match='limit must be a number of bytes or a string such as "512MB"'):
        Treadle(url, store=Store(limit="much"))
    with pytest.raises(InvalidArgument, match="grace must be a duration such as"):
        Treadle(url, store=Store(grace="long"))
    with pytest.raises(InvalidArgument, match=r'store must be a URL such as "file:///var/lib/blobs".*got \'blobs\''):
        Treadle(url, store="blobs")


def test_the_error_for_a_large_payload_recommends_the_store(app: Treadle) -> None:
    @app.job
    def resize(picture: str) -> None: ...

    with pytest.raises(InvalidPayload, match=r"put the large part into app\.store\(…\) and send the reference"):
        resize.enqueue("x" * 300_000)


# Reading


def test_reading_an_unknown_reference_is_an_error(app: Treadle) -> None:
    with pytest.raises(
        StoredNotFound, match=f"stored value {REFERENCE.id} does not exist: it was removed because no job used it"
    ):
        app.open(REFERENCE)
    for read in (app.read, lambda each: run(app, app.aread(each))):
        with pytest.raises(StoredNotFound):
            read(REFERENCE)
    with pytest.raises(InvalidArgument, match=r"a Stored reference, got \{'stored': .* annotate the parameter"):
        app.open({"stored": str(REFERENCE.id)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("update stored_parts set bytes = set_byte(bytes, 0, 255 - get_byte(bytes, 0)) where part = 1", "SHA-256"),
        ("update stored_parts set bytes = 'short' where part = 1", "expected 262,144 bytes at 262,144, got 5"),
        ("update stored_parts set bytes = 'longer than it was' where part = 2", "expected 8 bytes at 524,288, got 18"),
        ("delete from stored_parts where part = 2", "expected a part 2, got none"),
    ],
)
def test_damaged_content_is_an_error(app: Treadle, connection: Connection[Any], damage: str, message: str) -> None:
    stored = app.store(CONTENT)
    connection.execute(damage)
    for read in (app.read, lambda each: run(app, app.aread(each))):
        with pytest.raises(StoredDamaged, match=message):
            read(stored)
    with app.open(stored) as file, pytest.raises(StoredDamaged, match=message):
        list(iter(lambda: file.read(1000), b""))


def test_empty_content_with_a_wrong_digest_is_damaged(app: Treadle) -> None:
    stored = replace(app.store(b""), digest="0" * 64)
    for read in (app.read, lambda each: run(app, app.aread(each))):
        with pytest.raises(StoredDamaged, match="SHA-256"):
            read(stored)


def test_incomplete_content_can_be_neither_read_nor_used(app: Treadle, connection: Connection[Any]) -> None:
    """A crash leaves it in this state."""

    @app.job
    def resize(picture: Stored) -> None: ...

    stored = app.store(CONTENT)
    connection.execute("update stored set size = null")
    with pytest.raises(StoredNotFound):
        app.read(stored)
    with pytest.raises(StoredNotFound):
        resize.enqueue(stored)
