"""The database roles: what sql/roles.sql grants, as a script or carried out."""

from typing import Any

import psycopg
from psycopg import Connection

from treadle.db.function_settings import PINNED_LOCALLY
from treadle.db.migrations import check_schema
from treadle.db.query import in_schema, sql_text
from treadle.db.setup_connection import connect
from treadle.words.errors import NotAllowed
from treadle.words.naming import SCHEMA, role_prefix, schema_name

GROUPS = ("enqueue", "worker", "viewer", "operator")

# Owners whose rights the current user cannot grant. GRANT itself does not always fail then: it may only warn.
FOREIGN_OWNERS = """
select pg_get_userbyid(owner)
from (
    select nspowner as owner from pg_namespace where nspname = %(schema)s
    union
    select relowner from pg_class where relnamespace = to_regnamespace(%(quoted)s) and relkind in ('r', 'v', 'S')
    union
    select proowner from pg_proc where pronamespace = to_regnamespace(%(quoted)s)
) as owners
where not pg_has_role(owner, 'usage')
limit 1
"""


def role_names(prefix: str) -> list[str]:
    return [f"{role_prefix(prefix)}_{group}" for group in GROUPS]


def roles_sql(schema: str = SCHEMA, prefix: str = SCHEMA) -> str:
    """The grants as a script for psql."""
    return f"begin;\n\n{PINNED_LOCALLY};\n\n{_grants(schema, prefix)}\ncommit;\n"


def apply_roles(url: str, schema: str = SCHEMA, prefix: str = SCHEMA) -> list[str]:
    """Create the roles and their grants; return the names of the roles that were created."""
    text = _grants(schema, prefix)
    with connect(url) as connection:
        check_schema(connection, schema)
        with connection.transaction():
            connection.execute(PINNED_LOCALLY)
            _refuse_foreign_owner(connection, schema)
            # One at a time, and never during a migration: two sessions that update one catalog row fail.
            connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"treadle migrate {schema}"])
            missing = _missing(connection, prefix)
            try:
                connection.execute(text.encode())
            except psycopg.errors.InsufficientPrivilege as error:
                raise NotAllowed(
                    f"role {connection.info.user} may not do this: {error.diag.message_primary}"
                    + (f" ({', '.join(missing)} are missing)" if missing else "")
                    + "; run it as a role with CREATEROLE that owns the schema, or have an administrator run what "
                    "`treadle roles` prints"
                ) from error
    return missing


def _grants(schema: str, prefix: str) -> str:
    # The prefix first: a schema's name may contain the text that stands for the prefix.
    text = sql_text("roles.sql").replace(f"{SCHEMA}_", f"{role_prefix(prefix)}_")
    return in_schema(text, schema).replace(f"schema {SCHEMA}\n", f'schema "{schema_name(schema)}"\n')


def _missing(connection: Connection[Any], prefix: str) -> list[str]:
    names = role_names(prefix)
    found = connection.execute("select rolname from pg_roles where rolname = any (%s)", [names]).fetchall()
    return [name for name in names if (name,) not in found]


def _refuse_foreign_owner(connection: Connection[Any], schema: str) -> None:
    params = {"schema": schema, "quoted": f'"{schema_name(schema)}"'}
    for (owner,) in connection.execute(FOREIGN_OWNERS, params):
        raise NotAllowed(
            f"schema {schema} belongs to role {owner}, and role {connection.info.user} is not a member of it; "
            f"run this as {owner}"
        )
