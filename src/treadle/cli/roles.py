"""treadle roles."""

import click

from treadle.cli.options import database_url, schema
from treadle.db.roles import apply_roles, role_names, roles_sql
from treadle.db.url import resolve
from treadle.words.errors import InvalidArgument
from treadle.words.naming import SCHEMA


@click.command()
@click.option("--apply", "carry_out", is_flag=True, help="Create the roles and grants, in one transaction.")
@click.option("--prefix", default=SCHEMA, show_default=True, help="Prefix of the role names.")
@database_url
@schema
def roles(carry_out: bool, prefix: str, database_url: str | None, schema: str) -> None:
    """Print or apply SQL for database roles with limited privileges.

    There are four group roles without login, which may enqueue, run, view or operate jobs. Grant your database users
    membership in the role they need. Run this command again after each treadle migrate.

    \b
    treadle roles | psql app
    treadle roles --apply --database-url postgresql://owner@localhost/app
    """
    try:
        names = role_names(prefix)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="--prefix") from None
    if not carry_out:
        click.echo(roles_sql(schema, prefix), nl=False)
        return
    created = apply_roles(resolve(database_url).url, schema, prefix)
    existing = [name for name in names if name not in created]
    parts = [f"created {', '.join(created)}"] * bool(created) + [f"found {', '.join(existing)}"] * bool(existing)
    click.echo(f"Schema {schema}: {'; '.join(parts)}; granted each role its privileges.")
    click.echo(f"To let a database user run workers, run in psql: grant {prefix}_worker to app_user;")
