"""The roles that `treadle roles` creates, each with a user that is a member of this role only.

Roles belong to the server, which the test processes share: each test uses unique names and drops its roles.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from treadle.db.roles import GROUPS, apply_roles, role_names


class Roles:
    def __init__(self, url: str, prefix: str, stack: ExitStack) -> None:
        self.url = url
        self.prefix = prefix
        self._stack = stack

    def url_of(self, group: str) -> str:
        return make_conninfo(self.url, user=f"{self.prefix}_user_{group}", password=self.prefix)

    def connect(self, group: str | None = None, *, autocommit: bool = True) -> Connection[Any]:
        """As a member of the group, or by default as the owner of the schema."""
        url = self.url_of(group) if group else self.url
        return self._stack.enter_context(
            psycopg.connect(url, autocommit=autocommit, options="-c search_path=treadle,public")
        )


@contextmanager
def schema_owner(url: str) -> Iterator[str]:
    """The URL of an ordinary user, who may create roles and a schema in this database."""
    name = f"treadle_test_{uuid4().hex[:8]}_owner"
    with psycopg.connect(url, autocommit=True) as administrator:
        require_roles(administrator)
        administrator.execute(f"create role {name} login createrole password '{name}'")
        administrator.execute(f"grant create on database {administrator.info.dbname} to {name}")
    try:
        yield make_conninfo(url, user=name, password=name)
    finally:
        with psycopg.connect(url, autocommit=True) as administrator:
            administrator.execute(f"drop owned by {name} cascade")
            administrator.execute(f"drop role {name}")


@contextmanager
def granted_roles(url: str, owner_url: str | None = None) -> Iterator[Roles]:
    """Create the groups with their grants, and a user in each group."""
    prefix = f"treadle_test_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as administrator:
        require_roles(administrator)
        try:
            apply_roles(owner_url or url, prefix=prefix)
            for group in GROUPS:
                administrator.execute(f"create role {prefix}_user_{group} login password '{prefix}'")
                administrator.execute(f"grant {prefix}_{group} to {prefix}_user_{group}")
            with ExitStack() as stack:
                yield Roles(url, prefix, stack)
        finally:
            drop(administrator, *(f"{prefix}_user_{group}" for group in GROUPS), *role_names(prefix))


def drop(administrator: Connection[Any], *names: str) -> None:
    for name in names:
        if administrator.execute("select from pg_roles where rolname = %s", [name]).fetchone() is not None:
            administrator.execute(f"drop owned by {name}")
            administrator.execute(f"drop role {name}")


def require_roles(administrator: Connection[Any]) -> None:
    may = administrator.execute(
        "select rolsuper or rolcreaterole from pg_roles where rolname = current_user"
    ).fetchone()
    if may != (True,):
        pytest.skip("the role of TREADLE_TEST_URL may not create roles")
