"""What the files of functions leave out: their comments in the database, who may call them, their settings, and that a
constraint trigger replaces one of the same name.

The first paragraph of a file is the comment of its function. A function that runs with the rights of its owner may be
called by nobody until `treadle roles` says so.

A role that may create objects in a schema on the search path can define `=(varchar, varchar)` there, or a function with
the name of a built-in one, and PostgreSQL prefers it wherever its argument types fit better. Whoever then calls a
function with an unpinned path, a worker or a superuser, runs the code of that role. See decision 26.

A function that reads jobs never reads all of the table: a session keeps a plan that was made while it was small. One
that must not depend on statistics, which are stale while a queue fills and drains, names a plan: `set treadle.plan =
index_ranges`. Its settings are written out when the function is installed.
"""

import re

from treadle.db.query import sql_text

# Objects of pg_temp are found last instead of first. Functions and operators are never looked up there.
PINNED = "set search_path = pg_catalog, pg_temp"
# For a migration: conditions of triggers and indexes, defaults and `return` bodies are bound to the operators that are
# found when they are created.
PINNED_LOCALLY = "set local search_path = pg_catalog, pg_temp"

_NESTED_LOOPS = ("enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off")
# Some of these are the defaults of PostgreSQL: they are for servers, databases and roles that have others.
_INDEX_RANGES = (
    *_NESTED_LOOPS,
    "enable_bitmapscan = off",
    "enable_indexscan = on",
    "enable_nestloop = on",
    "enable_tidscan = on",
    "jit = off",
)
PLANS = {
    # Those of its callers: a part of functions that name one, and that are called all the time.
    "callers": (),
    # Few rows, found by their keys.
    "nested_loops": _NESTED_LOOPS,
    # Ranges of an index, read in its order and only as far as needed.
    "index_ranges": _INDEX_RANGES,
    # The same for statements that are executed all the time: planned once per connection.
    "cached_index_ranges": (*_INDEX_RANGES, "plan_cache_mode = force_generic_plan"),
}

_PLAN = re.compile(r"^set treadle\.plan = (\w+)$", re.MULTILINE)
_HAS_PLAN = re.compile(r"^set (?:treadle\.plan|enable_seqscan) = ", re.MULTILINE)
READS_JOBS = re.compile(r"\b(?:from|join|update|lateral) treadle\.(?:jobs|lane_jobs|lane_head|key_head)\b")
_FUNCTION = re.compile(r"^create or replace function .*?^(as \$\$)$", re.DOTALL | re.MULTILINE)
# PostgreSQL has no "create or replace constraint trigger".
_CONSTRAINT_TRIGGER = re.compile(r"^create constraint trigger (\w+)\n\s+after [^\n]*? on (treadle\.\w+)", re.MULTILINE)
# The first paragraph of a file, and the definition: it ends with its body, or with the expression that it returns.
_DEFINITION = re.compile(
    r"\A(?P<comment>(?:-- [^\n]*\n)+)(?:--[^\n]*\n)*"
    r"(?P<text>create or replace function treadle\.(?P<name>\w+).*?^(?:\$\$|end|return\b[^;]*);\n)",
    re.DOTALL | re.MULTILINE,
)


def function_sql(file_name: str) -> str:
    """The text of sql/functions/<file_name>, with what the file leaves out.

    A function with a setting is never inlined by the planner, so the functions in SQL that are parts of others have
    none: those without a table have a body that is parsed when it is created (`return …`), and the rest is called only
    by functions that have the setting, and by our own reads.
    """
    folder, name = file_name.split("/")
    source = sql_text("functions", folder, name)
    by_index = "language plpgsql" in source and READS_JOBS.search(source) and not _HAS_PLAN.search(source)

    def with_setting(match: re.Match[str]) -> str:
        definition = match[0]
        if folder == "parts" and re.search(r"^language sql\b", definition, re.MULTILINE):
            return definition
        plan = "set enable_seqscan = off\n" if by_index else ""
        return f"{definition.removesuffix(match[1])}{plan}{PINNED}\n{match[1]}"

    text = _FUNCTION.sub(with_setting, _DEFINITION.sub(_with_comment, source))
    text = _CONSTRAINT_TRIGGER.sub(r"drop trigger if exists \1 on \2;\n\n\g<0>", text)
    return _PLAN.sub(lambda match: "\n".join(f"set {setting}" for setting in PLANS[match[1]]), text)


def _with_comment(match: re.Match[str]) -> str:
    function = f"treadle.{match['name']}"
    comment = " ".join(line.removeprefix("-- ") for line in match["comment"].splitlines()).replace("'", "''")
    text = f"{match[0]}\ncomment on function {function} is '{comment}';\n"
    if re.search(r"^security definer$", match["text"], re.MULTILINE):
        text += f"\nrevoke all on function {function} from public;\n"
    return text
