"""Creates and upgrades the schema with `manage.py migrate`."""

from typing import Any

from django.db import connections, router
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from treadle.contrib.django.conf import configuration, database_url
from treadle.db.migrations import migrate, migration_sql, schema_problem

_upgraded: set[str] = set()


def problem_of() -> str | None:
    """Why the schema does not fit this version of Treadle; None if it does."""
    return schema_problem(database_url(), configuration().schema)


def is_recorded() -> bool:
    """Whether Django's records say that all migrations of Treadle were applied."""
    loader = MigrationLoader(connections[configuration().alias], ignore_no_migrations=True)
    return all(each in loader.applied_migrations for each in loader.disk_migrations if each[0] == "treadle")


def upgrade_after_migrate(using: str, plan: Any = (), **options: Any) -> None:
    """Functions may change without a new version of the schema; and tests may run without migrations."""
    # Tests flush tables, and then send this signal, after each TransactionTestCase.
    if using == configuration().alias and database_url() not in _upgraded and router.allow_migrate(using, "treadle"):
        _upgrade()


class UpgradeSchema(Operation):  # type: ignore[misc]
    """Bring the schema to the version of this migration, or to a later one that this version of Treadle has.

    It has a connection of its own: see docs/decisions/0036-django.md.
    """

    reduces_to_sql = True
    reversible = False

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        using = schema_editor.connection.alias
        if using != configuration().alias or not router.allow_migrate(using, app_label):
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql.append(migration_sql(database_url(), configuration().schema))
        else:
            _upgrade()

    def describe(self) -> str:
        return f"Bring the schema of Treadle to version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        return f"schema_{self.version}"


def _upgrade() -> None:
    migrate(database_url(), configuration().schema)
    _upgraded.add(database_url())
