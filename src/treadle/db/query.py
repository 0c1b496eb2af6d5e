"""A query as a value: SQL text, parameters, and how to read its rows. It does no I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from treadle.words.job import JobRow
from treadle.words.naming import schema_name

Result = TypeVar("Result")
Rows: TypeAlias = Sequence[tuple[Any, ...]]

# Text in the .sql files that stands for the schema's name.
SCHEMA_TOKEN = "treadle."  # noqa: S105 - a token of text, not a secret

JSON_COLUMNS = ("data", "result", "checkpoint", "pace")
_READ = {
    # As text: it is decoded row by row, so that a bad one fails alone.
    **{each: f"{each}::text" for each in JSON_COLUMNS},
    # Who inserts by hand may leave it out.
    "created": "date_part('epoch', coalesce(created_at, run_at))",
}


@dataclass(frozen=True, slots=True)
class Query(Generic[Result]):
    """Whoever has a connection runs it: see runner.py."""

    text: bytes
    params: Mapping[str, Any]
    read: Callable[[Rows], Result]
    often: bool = False
    """Run so often that it is prepared, on a connection that allows it: see runner.py."""


@cache
def statement(name: str, schema: str) -> bytes:
    """The statement of sql/queries/<name>.sql, for the schema."""
    return in_schema(sql_text("queries", f"{name}.sql"), schema).encode()


@cache
def row_statement(name: str, schema: str, shape: type[NamedTuple] = JobRow) -> bytes:
    """A statement whose columns are the fields of a JobRow or a Claim."""
    columns = ", ".join(_READ.get(each, each) for each in shape._fields)
    return statement(name, schema).replace(b"/* columns */", columns.encode())


def in_schema(text: str, schema: str) -> str:
    """The text with the schema's name, always quoted: `user` and `order` are plain identifiers too."""
    return text.replace(SCHEMA_TOKEN, f'"{schema_name(schema)}".')


def sql_text(*path: str) -> str:
    return files("treadle").joinpath("sql", *path).read_text(encoding="utf-8")
