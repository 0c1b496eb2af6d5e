"""treadle roles."""

import click

from treadle.cli.options import database_url, schema
from treadle.db.roles import apply_roles, role_names, roles_sql
from treadle.db.url import resolve
from treadle.words.errors import InvalidArgument
from treadle.words.naming import SCHEMA


@click.command()
@click.option("--apply", "carry_out", is_flag=True, help="Make the roles and grants, in one transaction.")
@click.option("--prefix", default=SCHEMA, show_default=True, help="What the names of the roles begin with.")
@database_url
@schema
def roles(carry_out: bool, prefix: str, database_url: str | None, schema: str) -> None:
    """Print or apply the grants for roles that may only enqueue, work, look, or operate.

    Four groups without login; a database user becomes a member of the one it needs. Safe to run again, and to be run
    again after each treadle migrate.

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
    made = apply_roles(resolve(database_url).url, schema, prefix)
    there = [name for name in names if name not in made]
    parts = [f"made {' '.join(made)}"] * bool(made) + [f"found {' '.join(there)}"] * bool(there)
    click.echo(f"schema {schema}: {', '.join(parts)}, and granted each what it needs and nothing else")
    click.echo(f"For a user that runs workers, in psql: grant {prefix}_worker to app_user;")
