"""The schema that the migrations and functions of this version create, parsed from their files.

So there is no second list to maintain. A test compares it with a fresh database.
"""

import hashlib
import re
from functools import cache

from treadle.db.function_settings import function_sql
from treadle.db.migrations import function_files, migration_files
from treadle.db.query import in_schema, sql_text
from treadle.doctor.facts import ExpectedFunction, ExpectedIndex, ExpectedSchema

_COMMENT = re.compile(r"--.*")
_TABLE = re.compile(r"create (?:unlogged )?table treadle\.(\w+) \((.*?)\n\)(?: with \((.*?)\))?;", re.DOTALL)
_OPTION = re.compile(r"(\w+) = ([^,\s]+)")
_PRIMARY = re.compile(r"\bprimary key \(([^)]*)\)|^ +(\w+) .*\bprimary key\b", re.MULTILINE)
_INDEX = re.compile(r"(create (?:unique )?index) (?:if not exists )?(\w+)\s+(on treadle\.(\w+).*?;)", re.DOTALL)
_DROP = re.compile(r"drop index treadle\.(\w+);")
_RENAME = re.compile(r"alter index treadle\.(\w+) rename to (\w+);")
_TRIGGER = re.compile(
    r"create (?:or replace )?(?:constraint )?trigger (\w+)\s+(?:before|after)\b.*?\bon treadle\.(\w+)", re.DOTALL
)
_BODY = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)
_DEFINER = re.compile(r"^security definer$", re.MULTILINE)
_SETTING = re.compile(r"^set (\w+) = '?(.+?)'? *$", re.MULTILINE)


@cache
def expected_schema(server_version: int, schema: str) -> ExpectedSchema:
    indexes: dict[str, ExpectedIndex] = {}
    triggers: dict[str, str] = {}
    options: dict[str, dict[str, str]] = {}
    for _, file_name in migration_files():
        text = _COMMENT.sub("", sql_text("migrations", file_name))
        for table, columns, chosen in _TABLE.findall(text):
            options[table] = dict(_OPTION.findall(chosen))
            if primary := _PRIMARY.search(columns):
                statement = f"alter table treadle.{table} add primary key ({primary[1] or primary[2]});"
                indexes[f"{table}_pkey"] = ExpectedIndex(table, in_schema(statement, schema))
        for each in text.split(";"):
            _change_indexes(indexes, f"{each};", schema)
    functions: dict[str, str] = {}
    definitions: dict[str, ExpectedFunction] = {}
    for name, file_name in function_files(server_version):
        text = function_sql(file_name)
        functions[name] = hashlib.sha256(text.encode()).hexdigest()
        plain = _COMMENT.sub("", text)
        # PostgreSQL keeps no text of a body that it parsed when the function was created.
        found = _BODY.findall(in_schema(text, schema)) or [""]
        definitions[name] = ExpectedFunction(
            frozenset(_md5(body) for body in found),
            _DEFINER.search(plain) is not None,
            # Statements in a body are indented.
            frozenset("=".join(setting) for setting in _SETTING.findall(plain)),
        )
        triggers |= dict(_TRIGGER.findall(plain))
    version = max(number for number, _ in migration_files())
    return ExpectedSchema(version, functions, definitions, indexes, triggers, options)


def _change_indexes(indexes: dict[str, ExpectedIndex], text: str, schema: str) -> None:
    """Apply a statement that creates, drops or renames an index."""
    if found := _INDEX.search(text):
        create, name, rest, table = found.groups()
        statement = " ".join(f"{create} concurrently {name} {rest}".split())
        indexes[name] = ExpectedIndex(table, in_schema(statement, schema))
    elif found := _DROP.search(text):
        del indexes[found[1]]
    elif found := _RENAME.search(text):
        old, new = found.groups()
        index = indexes.pop(old)
        indexes[new] = ExpectedIndex(index.table, index.statement.replace(old, new))


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
