"""A schema to measure in. Nobody's jobs are touched, and nothing is left behind, whatever ends the measuring."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn
from uuid import uuid4

from treadle.db.database import DatabaseError
from treadle.db.migrations import connect, migrate
from treadle.db.url import described
from treadle.words.errors import NotAllowed, SchemaError

PREFIX = "treadle_bench_"
# Of PostgreSQL's errors: no right, and a server that can only be read.
DENIED, READ_ONLY = "42501", "25006"


@contextmanager
def scratch_schema(url: str) -> Iterator[str]:
    schema = f"{PREFIX}{uuid4().hex[:8]}"
    with _ended_in_order():
        try:
            _make(url, schema)
            yield schema
        finally:
            with connect(url) as connection:
                # Where it could not be made there is perhaps no right to drop anything either.
                if connection.execute("select from pg_namespace where nspname = %s", [schema]).fetchall():
                    connection.execute(f'drop schema "{schema}" cascade'.encode())


def left_behind(url: str, mine: str) -> list[str]:
    """Schemas of others: of a bench that was killed, or one that runs now."""
    with connect(url) as connection:
        rows = connection.execute(
            "select nspname::text from pg_namespace where starts_with(nspname, %s) and nspname <> %s order by 1",
            [PREFIX, mine],
        ).fetchall()
    return [name for (name,) in rows]


def _make(url: str, schema: str) -> None:
    try:
        migrate(url, schema)
    except DatabaseError as error:
        if error.sqlstate == DENIED:
            raise NotAllowed(
                f"treadle bench works in a schema of its own, which this role may not make in {described(url)}; "
                "grant it: grant create on database … to …, or name another with --database-url"
            ) from error
        if error.sqlstate == READ_ONLY:
            raise SchemaError(
                f"{described(url)} can only be read, perhaps it is a standby: treadle bench has to write; "
                "name the primary with --database-url"
            ) from error
        raise


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM ends Python at once, as if there were nothing to tidy up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
