"""What this version's migrations and functions make, read from their own files: there is no second list to keep.

A test compares it with what a fresh database has.
"""

import hashlib
import re
from functools import cache

from treadle.db.migrations import function_files, migration_files
from treadle.db.query import in_schema, sql_text
from treadle.words.health.facts import Blueprint

_COMMENT = re.compile(r"--.*")
_TABLE = re.compile(r"create table treadle\.(\w+) \((.*?)\n\)(?: with \((.*?)\))?;", re.DOTALL)
_OPTIONS = re.compile(r"alter table treadle\.(\w+) set \(([^)]*)\)")
_RESET = re.compile(r"alter table treadle\.(\w+) reset \(([^)]*)\)")
_OPTION = re.compile(r"(\w+) = ([^,\s]+)")
_PRIMARY = re.compile(r"\bprimary key\b")
_INDEX = re.compile(r"create (?:unique )?index (\w+) on treadle\.(\w+)")
_DROPPED = re.compile(r"drop (?:index(?: if exists)? treadle\.(\w+)|table(?: if exists)? treadle\.(\w+))")
_TRIGGER = re.compile(
    r"create (?:or replace )?(?:constraint )?trigger (\w+)\s+(?:before|after)\b.*?\bon treadle\.(\w+)", re.DOTALL
)
_BODY = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)


@cache
def blueprint(server_version: int, schema: str) -> Blueprint:
    indexes: dict[str, str] = {}
    triggers: dict[str, str] = {}
    options: dict[str, dict[str, str]] = {}
    for _, file_name in migration_files():
        text = _COMMENT.sub("", sql_text("migrations", file_name))
        for table, columns, chosen in _TABLE.findall(text):
            options[table] = dict(_OPTION.findall(chosen))
            if _PRIMARY.search(columns):
                indexes[f"{table}_pkey"] = table
        for table, chosen in _OPTIONS.findall(text):
            options[table] |= dict(_OPTION.findall(chosen))
        for table, chosen in _RESET.findall(text):
            options[table] = {name: value for name, value in options[table].items() if name not in chosen}
        indexes |= dict(_INDEX.findall(text))
        for index, table in _DROPPED.findall(text):
            options.pop(table, None)
            indexes = {name: on for name, on in indexes.items() if name != index and on != table}
    functions: dict[str, str] = {}
    bodies: dict[str, frozenset[str]] = {}
    for name, file_name in function_files(server_version):
        text = sql_text("functions", file_name)
        functions[name] = hashlib.sha256(text.encode()).hexdigest()
        bodies[name] = frozenset(_md5(body) for body in _BODY.findall(in_schema(text, schema)))
        triggers |= dict(_TRIGGER.findall(_COMMENT.sub("", text)))
    version = max(number for number, _ in migration_files())
    return Blueprint(version, functions, bodies, indexes, triggers, options)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
