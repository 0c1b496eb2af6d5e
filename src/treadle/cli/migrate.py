"""treadle migrate."""

import click

from treadle.cli.options import database_url, schema
from treadle.db.migrations import migrate as apply_migrations
from treadle.db.migrations import migration_sql
from treadle.db.url import resolve
from treadle.words.naming import schema_name


@click.command()
@click.option("--sql", "only_print", is_flag=True, help="Print the SQL that would run, for psql, and change nothing.")
@database_url
@schema
def migrate(only_print: bool, database_url: str | None, schema: str) -> None:
    """Create or upgrade the schema.

    It is safe to run this command again, and on several machines at once.

    \b
    treadle migrate --database-url postgresql://localhost/app
    treadle migrate --sql > treadle.sql
    """
    schema_name(schema)
    url = resolve(database_url).url
    if only_print:
        click.echo(migration_sql(url, schema), nl=False)
        return
    applied = apply_migrations(url, schema)
    migrations = [name for name in applied if not name.endswith("()")]
    functions = len(applied) - len(migrations)
    if not applied:
        click.echo(f"Schema {schema} is up to date.")
        return
    parts = migrations + ([f"{functions} function{'s' * (functions > 1)}"] if functions else [])
    click.echo(f"Schema {schema}: applied {', '.join(parts)}.")
