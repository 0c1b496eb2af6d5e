"""A query as a value: the text of its statement, its parameters, and how to read its rows. It does no I/O.

In the text, `treadle.` stands for the schema and `'treadle'` for its name. bind() replaces them when the query runs.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from treadle.words.naming import schema_name

Result = TypeVar("Result")
Rows: TypeAlias = Sequence[tuple[Any, ...]]

SCHEMA_TOKEN = "treadle."  # noqa: S105 - a token of text, not a secret
SCHEMA_LITERAL = "'treadle'"

# What a statement calls instead in a TestSchema.
_MOVABLE = (
    (re.compile(r"(?:pg_catalog\.)?\bclock_timestamp\(\)"), "treadle.test_clock()"),
    (re.compile(r"(?:pg_catalog\.)?\b(?:statement_timestamp|now)\(\)"), "treadle.test_now()"),
)


@dataclass(frozen=True, slots=True)
class Query(Generic[Result]):
    """It can run on any connection: see runner.py."""

    text: str
    params: Mapping[str, Any]
    read: Callable[[Rows], Result]
    makes_due: bool = False
    """After it, a job may be due that was not before."""
    often: bool = False
    """It runs so often that it is worth preparing, on a connection that allows it: see runner.py."""
    alone: bool = False
    """It has a parameter `alone`: whether it will be a transaction by itself. runner.py sets it."""
    pinned: bool = False
    """Its text relies on the search path: on our own connections it runs in a transaction with a pinned one, as reads
    do. The text of every other query names the schema of each function and operator, and needs no transaction."""

    def bound(self, schema: str) -> bytes:
        return bind(self.text, schema)


class QueryFailed(NamedTuple):
    """Returned instead of a result where one query that fails must not stop the others: see examination.py."""

    message: str
    permission_denied: bool
    timed_out: bool
    """It took too long, or waited too long for a lock."""


def call(
    function: str,
    params: Mapping[str, Any],
    read: Callable[[Rows], Result],
    columns: str = "",
    makes_due: bool = False,
    often: bool = False,
    alone: bool = False,
) -> Query[Result]:
    """Call a function of the schema, with named arguments. `columns` are selected from the rows that it returns."""
    return Query(_call_text(function, columns, tuple(params)), params, read, makes_due, often, alone)


@cache
def _call_text(function: str, columns: str, names: tuple[str, ...]) -> str:
    called = f"{SCHEMA_TOKEN}{function}({', '.join(f'p_{name} => %({name})s' for name in names)})"
    return f"select {columns} from {called}" if columns else f"select {called}"


@cache
def statement(name: str) -> str:
    """The statement of sql/queries/<name>.sql."""
    return sql_text("queries", f"{name}.sql")


class TestSchema(str):
    """The name of a schema whose clock tests can move: see sql/testing/movable_clock.sql. Statements for it use that
    clock."""

    __slots__ = ()


@lru_cache(1024, typed=True)
def bind(text: str, schema: str) -> bytes:
    """The statement for this schema."""
    if isinstance(schema, TestSchema):
        for clock, movable in _MOVABLE:
            text = clock.sub(movable, text)
    # The name is checked to be a plain identifier, so it needs no escaping.
    return in_schema(text, schema).replace(SCHEMA_LITERAL, f"'{schema}'").encode()


def in_schema(text: str, schema: str) -> str:
    """The text with the schema's name, always quoted: `user` and `order` are plain identifiers too."""
    return text.replace(SCHEMA_TOKEN, f'"{schema_name(schema)}".')


def sql_text(*path: str) -> str:
    return files("treadle").joinpath("sql", *path).read_text(encoding="utf-8")


def sql_names(*folder: str) -> list[str]:
    """The names of the files in a folder of sql/, sorted."""
    return sorted(path.name for path in files("treadle").joinpath("sql", *folder).iterdir())
