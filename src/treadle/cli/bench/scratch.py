"""A temporary schema to measure in. It is dropped however the command ends, and other schemas are not touched."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn
from uuid import uuid4

from treadle.db.database import DatabaseError
from treadle.db.migrations import migrate
from treadle.db.setup_connection import connect
from treadle.db.url import described
from treadle.words.errors import NotAllowed, SchemaError

PREFIX = "treadle_bench_"
# SQLSTATEs: insufficient_privilege and read_only_sql_transaction.
DENIED, READ_ONLY = "42501", "25006"


@contextmanager
def scratch_schema(url: str) -> Iterator[str]:
    schema = f"{PREFIX}{uuid4().hex[:8]}"
    with _sigterm_as_exit():
        try:
            _create(url, schema)
            yield schema
        finally:
            with connect(url) as connection:
                # Only if it exists: a role that may not create schemas may not be allowed to drop them either.
                if connection.execute("select from pg_namespace where nspname = %s", [schema]).fetchall():
                    connection.execute(f'drop schema "{schema}" cascade'.encode())


def left_behind(url: str, mine: str) -> list[str]:
    """The schemas of other benchmarks, which were killed or are still running."""
    with connect(url) as connection:
        rows = connection.execute(
            "select nspname::text from pg_namespace where starts_with(nspname, %s) and nspname <> %s order by 1",
            [PREFIX, mine],
        ).fetchall()
    return [name for (name,) in rows]


def _create(url: str, schema: str) -> None:
    try:
        migrate(url, schema)
    except DatabaseError as error:
        if error.sqlstate == DENIED:
            raise NotAllowed(
                f"treadle bench needs a temporary schema, which this role may not create in {described(url)}; "
                "run: grant create on database … to …, or connect as another role with --database-url"
            ) from error
        if error.sqlstate == READ_ONLY:
            raise SchemaError(
                f"{described(url)} is read-only, so it may be a standby; treadle bench has to write: "
                "give the URL of the primary with --database-url"
            ) from error
        raise


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """By default, SIGTERM ends Python without running `finally` blocks, so the schema would not be dropped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
