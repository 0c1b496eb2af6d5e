"""Pins the search path of everything that Treadle installs.

A role that may create objects in a schema on the search path can define `=(varchar, varchar)` there, or a function with
the name of a built-in one, and PostgreSQL prefers it wherever its argument types fit better. Whoever then calls a
function with an unpinned path, a worker or a superuser, runs the code of that role. See decision 26.
"""

import re

from treadle.db.query import sql_text

# Objects of pg_temp are found last instead of first. Functions and operators are never looked up there.
PINNED = "set search_path = pg_catalog, pg_temp"
# For a migration: conditions of triggers and indexes, defaults and `return` bodies are bound to the operators that are
# found when they are created.
PINNED_LOCALLY = "set local search_path = pg_catalog, pg_temp"

_FUNCTION = re.compile(r"^create or replace function .*?^(as \$\$)$", re.DOTALL | re.MULTILINE)


def function_sql(file_name: str) -> str:
    """The text of sql/functions/<file_name>, with the setting in the definition of each function.

    A function with a setting is never inlined by the planner, so the functions in SQL that are parts of others have
    none: those without a table have a body that is parsed when it is created (`return …`), and the rest is called only
    by functions that have the setting, and by our own reads.
    """
    folder, name = file_name.split("/")

    def with_setting(match: re.Match[str]) -> str:
        definition = match[0]
        if folder == "parts" and re.search(r"^language sql\b", definition, re.MULTILINE):
            return definition
        return f"{definition.removesuffix(match[1])}{PINNED}\n{match[1]}"

    return _FUNCTION.sub(with_setting, sql_text("functions", folder, name))
