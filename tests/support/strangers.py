"""A role that may create objects in the schema public, and has created there what it hopes that others will call."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import psycopg
from psycopg import Connection, sql

CALLS = "public.strangers_calls"
# Records the call even if the transaction is rolled back, then fails. It uses no operator itself.
BODY = f"begin perform pg_catalog.nextval('{CALLS}'); raise exception 'the code of a stranger ran'; end"

OPERATORS = """
select oprname, oprleft::regtype::text, oprright::regtype::text, oprresult::regtype::text
from pg_operator
where oprnamespace = 'pg_catalog'::regnamespace and oprcode <> 0
"""
FUNCTIONS = """
select proname, array(select argument::regtype::text from unnest(proargtypes) as argument), prorettype::regtype::text,
    proretset
from pg_proc
where pronamespace = 'pg_catalog'::regnamespace
  and proname = any (%s)
  and prorettype not in ('internal'::regtype, 'trigger'::regtype, 'cstring'::regtype)
  and not 'internal'::regtype = any (proargtypes)
"""


def create_lookalikes(owner: Connection[Any]) -> int:
    """Create a lookalike, as a role that may only create in public, of every built-in operator, and of every built-in
    function that our SQL names; with text and with varchar. Returns how many."""
    names = sorted(_words(files("treadle").joinpath("sql")))
    wanted: set[tuple[Any, ...]] = {("operator", *row) for row in owner.execute(OPERATORS)}
    for name, types, result, many in owner.execute(FUNCTIONS, [names]):
        wanted.add(("function", name, *types, result, many))
    for kind, *rest in list(wanted):
        # `varchar = varchar` is resolved to `text = text`, unless there is one with just these types.
        wanted.add((kind, rest[0], *("character varying" if each == "text" else each for each in rest[1:])))
    role = _role(owner)
    owner.execute(sql.SQL("create role {}").format(role))
    owner.execute(sql.SQL("grant usage, create on schema public to {}").format(role))
    owner.execute(f"create sequence {CALLS}")
    owner.execute(f"grant usage on sequence {CALLS} to public")
    owner.execute(sql.SQL("set role {}").format(role))
    created = sum(_create(owner, number, *each) for number, each in enumerate(sorted(wanted, key=str)))
    owner.execute("reset role")
    return created


def drop_stranger(owner: Connection[Any]) -> None:
    owner.execute(sql.SQL("drop owned by {} cascade").format(_role(owner)))
    owner.execute(sql.SQL("drop role {}").format(_role(owner)))


def was_called(url: str) -> bool:
    with psycopg.connect(url, options="-c search_path=pg_catalog") as connection:
        ((called,),) = connection.execute(f"select is_called from {CALLS}").fetchall()
    return bool(called)


def _role(owner: Connection[Any]) -> sql.Identifier:
    """Roles belong to the server: one per database."""
    return sql.Identifier(f"stranger_{owner.info.dbname}")


def _create(owner: Connection[Any], number: int, kind: str, name: str, *types: Any) -> bool:
    try:
        if kind == "function":
            *arguments, result, many = types
            _create_function(owner, name, arguments, f"{'setof ' if many else ''}{result}")
            return True
        left, right, result = types
        _create_function(owner, f"code_{number}", [each for each in (left, right) if each != "-"], result)
        sides = ", ".join(f"{side} = {each}" for side, each in (("leftarg", left), ("rightarg", right)) if each != "-")
        owner.execute(f"create operator public.{name} (function = public.code_{number}, {sides})".encode())
    except psycopg.Error:  # such as a function of "any"
        return False
    return True


def _create_function(owner: Connection[Any], name: str, arguments: list[str], result: str) -> None:
    owner.execute(
        sql.SQL("create function public.{}({}) returns {} language plpgsql as {}").format(
            sql.Identifier(name), sql.SQL(", ".join(arguments)), sql.SQL(result), sql.Literal(BODY)
        )
    )


def _words(folder: Traversable) -> set[str]:
    words: set[str] = set()
    for path in folder.iterdir():
        words |= _words(path) if path.is_dir() else set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return words
