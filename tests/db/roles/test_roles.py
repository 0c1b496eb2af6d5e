"""`treadle roles` applies what it prints, can be repeated, and covers every object of the schema."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from tests.support.commands import run_treadle
from tests.support.roles import Roles, drop, granted_roles, require_roles, schema_owner
from tests.support.waiting import until_waiting_for_lock
from treadle import JobQueue, NotAllowed, SchemaError, migrate
from treadle.db.roles import GROUPS, apply_roles, role_names, roles_sql

# Objects that no group may use.
WITHOUT_GRANTS = {"seal"}

# Columns that a viewer must not see: payloads, and what may contain a part of them.
SECRET = {"seal.only_row", "seal.secret"}
HIDDEN = {
    "jobs.data",
    "jobs.result",
    "jobs.checkpoint",
    "jobs.headers",
    "steps.result",
    "schedules.data",
    "schedules.options",
    "workflows.plan",
} | {
    *("stored.digest", "stored.place"),
    *(f"stored_parts.{column}" for column in ("stored_id", "part", "bytes")),
}


@pytest.fixture
def roles(empty_url: str) -> Iterator[Roles]:
    migrate(empty_url)
    with granted_roles(empty_url) as roles:
        yield roles


@pytest.fixture
def owner(roles: Roles) -> Connection[Any]:
    return roles.connect()


@pytest.fixture
def prefix(empty_url: str) -> Iterator[str]:
    """A prefix of roles that do not exist yet."""
    prefix = f"treadle_test_{uuid4().hex[:8]}"
    with psycopg.connect(empty_url, autocommit=True) as connection:
        require_roles(connection)
        yield prefix
        drop(connection, *role_names(prefix))


def granted_rights(owner: Connection[Any], prefix: str) -> set[tuple[str, ...]]:
    """All privileges of the groups and of PUBLIC in the catalog."""
    rows = owner.execute(
        """
        select coalesce(role.rolname, 'public'), thing.kind, thing.name, acl.privilege_type
        from (
            select 'schema' as kind, nspname::text as name, nspacl as acl from pg_namespace where nspname = 'treadle'
            union all
            select 'table', relname, relacl from pg_class where relnamespace = 'treadle'::regnamespace
            union all
            select 'column', attrelid::regclass || '.' || attname, attacl from pg_attribute
            join pg_class on pg_class.oid = attrelid where relnamespace = 'treadle'::regnamespace
            union all
            select 'function', oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) from pg_proc
            where pronamespace = 'treadle'::regnamespace
        ) as thing
        cross join aclexplode(thing.acl) as acl
        left join pg_roles as role on role.oid = acl.grantee
        where acl.grantee = 0 or role.rolname = any (%s)
        """,
        [role_names(prefix)],
    ).fetchall()
    # The prefix differs between tests.
    return {(role.removeprefix(prefix), *rest) for role, *rest in rows}


# Every object is covered


def test_every_table_and_sequence_is_granted_to_a_group(roles: Roles, owner: Connection[Any]) -> None:
    """For a new table, add a grant to sql/roles.sql or add it to WITHOUT_GRANTS."""
    rows = owner.execute(
        """
        select relname, bool_or(has_any_column_privilege(role, class.oid, 'select, insert, update'))
        from pg_class as class
        cross join unnest(%s::text[]) as role
        where relnamespace = 'treadle'::regnamespace and relkind in ('r', 'p', 'v', 'm')
        group by relname
        union all
        select relname, bool_or(has_sequence_privilege(role, class.oid, 'select, update'))
        from pg_class as class
        cross join unnest(%s::text[]) as role
        where relnamespace = 'treadle'::regnamespace and relkind = 'S'
          -- those of identity columns need no right of their own
          and not exists (select from pg_depend where objid = class.oid and deptype = 'i')
        group by relname
        """,
        [role_names(roles.prefix)] * 2,
    ).fetchall()
    assert len(rows) > 15
    assert {name for name, somebodys in rows if not somebodys} == WITHOUT_GRANTS


def test_every_function_is_granted_to_a_group(roles: Roles, owner: Connection[Any]) -> None:
    """Those that run with the rights of their owner are granted by name. Trigger functions need no grant."""
    rows = owner.execute(
        """
        select proname, bool_or(has_function_privilege(role, proc.oid, 'execute'))
        from pg_proc as proc
        cross join unnest(%s::text[]) as role
        where pronamespace = 'treadle'::regnamespace and prorettype <> 'trigger'::regtype
        group by proname
        """,
        [role_names(roles.prefix)],
    ).fetchall()
    assert len(rows) > 40
    assert {name for name, somebodys in rows if not somebodys} == set()


def test_every_column_is_either_visible_to_viewers_or_hidden(roles: Roles, owner: Connection[Any]) -> None:
    rows = owner.execute(
        """
        select relname || '.' || attname, has_column_privilege(%s, class.oid, attnum, 'select'),
            has_column_privilege(%s, class.oid, attnum, 'select')
        from pg_class as class
        join pg_attribute on attrelid = class.oid and attnum > 0 and not attisdropped
        where relnamespace = 'treadle'::regnamespace and relkind = 'r'
        """,
        [f"{roles.prefix}_viewer", f"{roles.prefix}_operator"],
    ).fetchall()
    assert {name for name, viewer, _ in rows if not viewer} == HIDDEN | SECRET
    assert {name for name, _, operator in rows if not operator} == SECRET


def test_security_definer_functions_are_not_public_and_pin_the_search_path(empty_url: str) -> None:
    """Also before `treadle roles` was run."""
    migrate(empty_url)
    connection = psycopg.connect(empty_url)
    rows = connection.execute(
        """
        select proname, proconfig, has_function_privilege('public', oid, 'execute')
        from pg_proc where pronamespace = 'treadle'::regnamespace and prosecdef
        """
    ).fetchall()
    assert {name for name, *_ in rows} >= {"enqueue_unique", "register_lanes", "prepare_job", "confirm_blocked"}
    for name, settings, public in rows:
        assert "search_path=pg_catalog, pg_temp" in (settings or []), name
        assert not public, name
    connection.close()


# Printed and applied


def test_the_printed_script_grants_the_same_as_apply(roles: Roles, owner: Connection[Any], prefix: str) -> None:
    printed = run_treadle("roles", "--prefix", prefix)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert printed.stdout == roles_sql(prefix=prefix)
    owner.execute(printed.stdout.encode())
    assert granted_rights(owner, prefix) == granted_rights(owner, roles.prefix)


def test_the_script_can_be_piped_into_psql(roles: Roles, owner: Connection[Any], prefix: str) -> None:
    try:
        subprocess.run(["psql", "--version"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("psql is not installed")
    script = roles_sql(prefix=prefix)
    for _ in range(2):
        done = subprocess.run(
            ["psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", roles.url],
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert granted_rights(owner, prefix) == granted_rights(owner, roles.prefix)


def test_the_script_contains_only_the_chosen_schema_and_prefix() -> None:
    script = roles_sql("other", "shop")
    without_comments = re.sub("--.*", "", script)
    assert "treadle" not in without_comments
    assert 'grant usage on schema "other"\n    to shop_enqueue' in script
    # A schema whose name begins like the names of the groups.
    assert 'on "treadle_demo".jobs\n    to shop_enqueue' in roles_sql("treadle_demo", "shop")


def test_apply_reports_which_roles_were_created_or_found(empty_url: str, prefix: str) -> None:
    migrate(empty_url, "Jobs")
    arguments = ["roles", "--apply", "--prefix", prefix, "--schema", "Jobs", "--database-url", empty_url]
    first = run_treadle(*arguments)
    assert (first.exit_code, first.stderr) == (0, "")
    enqueue, worker, viewer, operator = role_names(prefix)
    assert first.stdout.startswith(f"Schema Jobs: created {enqueue}, {worker}, {viewer}, {operator}; granted each ")
    assert first.stdout.endswith(f"grant {prefix}_worker to app_user;\n")
    assert run_treadle(*arguments).stdout.startswith(f"Schema Jobs: found {enqueue}, {worker}, ")
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(f"drop owned by {', '.join(role_names(prefix))}")
        connection.execute(f"drop role {viewer}")
    third = run_treadle(*arguments).stdout
    assert third.startswith(f"Schema Jobs: created {viewer}; found {enqueue}, {worker}, {operator}; ")
    with psycopg.connect(empty_url, autocommit=True) as connection:
        logins = connection.execute("select rolcanlogin from pg_roles where rolname = any (%s)", [role_names(prefix)])
        assert logins.fetchall() == [(False,)] * 4


def test_applying_again_revokes_other_grants(roles: Roles, owner: Connection[Any]) -> None:
    before = granted_rights(owner, roles.prefix)
    enqueue, _, viewer, _ = role_names(roles.prefix)
    for statement in (
        f"grant create on schema treadle to {enqueue}, public",
        f"grant select (data) on jobs to {viewer}, public",
        f"grant select, truncate on errors to {enqueue}, public",
        f"grant update on sequence wake_clock to {viewer}, public",
        f"grant execute on function operate to {viewer}, public",
    ):
        owner.execute(statement)
    assert granted_rights(owner, roles.prefix) > before
    apply_roles(roles.url, prefix=roles.prefix)
    assert granted_rights(owner, roles.prefix) == before
    assert not {right for right in before if right[0] == "public"}


def test_members_keep_their_privileges_while_roles_are_applied(roles: Roles) -> None:
    """Running sessions have the privileges from before or after the change, never none."""
    with JobQueue(roles.url_of("enqueue")) as queue:
        queue.enqueue("a", {})
        with roles.connect(autocommit=False) as owner:
            owner.execute(roles_sql(prefix=roles.prefix).replace("\ncommit;", "").replace("begin;\n\n", "").encode())
            queue.enqueue("a", {})


def test_concurrent_applications_wait_for_each_other(roles: Roles, owner: Connection[Any]) -> None:
    """Concurrent writes to the same catalog row fail, so the second run waits, also for a migration."""
    with ThreadPoolExecutor() as pool, roles.connect(autocommit=False) as first:
        first.execute("select pg_advisory_xact_lock(hashtextextended('treadle migrate treadle', 0))")
        second = pool.submit(apply_roles, roles.url, prefix=roles.prefix)
        until_waiting_for_lock(owner)
        first.execute(f"grant select on jobs to {roles.prefix}_enqueue")
        first.commit()
        assert second.result(30) == []
    assert ("_enqueue", "table", "jobs", "SELECT") not in granted_rights(owner, roles.prefix)


def test_a_group_that_is_created_concurrently_is_used(roles: Roles, owner: Connection[Any], prefix: str) -> None:
    """Another database of the server creates the group. Our advisory lock does not reach it."""
    with ThreadPoolExecutor() as pool, roles.connect(autocommit=False) as elsewhere:
        elsewhere.execute(f"create role {prefix}_enqueue")
        applying = pool.submit(apply_roles, roles.url, prefix=prefix)
        until_waiting_for_lock(owner)
        elsewhere.commit()
        applying.result(30)
    assert granted_rights(owner, prefix) == granted_rights(owner, roles.prefix)


# Users without the necessary rights


def test_a_user_who_may_not_create_roles_gets_a_clear_error(empty_url: str, prefix: str) -> None:
    with schema_owner(empty_url) as url, psycopg.connect(empty_url, autocommit=True) as administrator:
        name = conninfo_to_dict(url)["user"]
        administrator.execute(f"alter role {name} nocreaterole")
        migrate(url)
        result = run_treadle("roles", "--apply", "--prefix", prefix, "--database-url", url)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"role {name} may not do this: permission denied to create role" in result.stderr
        assert f"{prefix}_operator are missing" in result.stderr
        assert "`treadle roles` prints" in result.stderr
        assert "Traceback" not in result.stderr
        # Once the groups exist, the owner of the schema can apply the grants.
        for group in role_names(prefix):
            administrator.execute(f"create role {group}")
        assert apply_roles(url, prefix=prefix) == []


@pytest.mark.parametrize("group", GROUPS)
def test_a_user_who_does_not_own_the_schema_gets_a_clear_error(roles: Roles, group: str) -> None:
    """PostgreSQL itself would only warn about most of the grants."""
    with pytest.raises(
        NotAllowed, match=r"schema treadle belongs to role \w+, and role \w+ is not a member of it; run"
    ):
        apply_roles(roles.url_of(group), prefix=roles.prefix)


def test_the_error_for_a_role_without_privileges_names_the_remedy(roles: Roles, owner: Connection[Any]) -> None:
    owner.execute(f"revoke {roles.prefix}_viewer from {roles.prefix}_user_viewer")
    with (
        JobQueue(roles.url_of("viewer")) as queue,
        pytest.raises(NotAllowed, match=r"\(permission denied for schema treadle\); grant it one of .* treadle roles "),
    ):
        queue.counts()
    with pytest.raises(NotAllowed, match="permission denied for schema treadle"):
        apply_roles(roles.url_of("viewer"), prefix=roles.prefix)
    result = run_treadle("watch", "--database-url", roles.url_of("viewer"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: the database role may not do this in schema treadle (permission denied")


def test_a_missing_schema_is_refused(empty_url: str, prefix: str) -> None:
    with pytest.raises(SchemaError, match="run: treadle migrate"):
        apply_roles(empty_url, prefix=prefix)


@pytest.mark.parametrize("prefix", ["", "Shop", "a-b", "1a", "pg_x", "a" * 55, 'a"b', "a'b", "a b", "é"])
def test_a_prefix_that_would_need_quotes_is_refused(prefix: str) -> None:
    result = run_treadle("roles", "--prefix", prefix)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "prefix must be lower-case letters, digits and _" in result.stderr


def test_role_names_with_the_longest_prefix_fit_into_an_identifier() -> None:
    assert max(map(len, role_names("a" * 54))) == 63
