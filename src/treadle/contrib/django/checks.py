"""What `manage.py check` says about Treadle."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error

from treadle.contrib.django.conf import KNOWN, configuration, given
from treadle.contrib.django.schema import is_recorded, problem_of
from treadle.words.errors import TreadleError


def find_mistakes() -> list[CheckMessage]:
    """In the settings alone."""
    found = given()
    if not isinstance(found, dict):
        return [Error(f"TREADLE must be a dict, got {found!r}.", id="treadle.E001")]
    if unknown := sorted(map(str, found.keys() - set(KNOWN))):
        return [Error(f"TREADLE has no setting {unknown[0]!r}.", hint=f"Known: {', '.join(KNOWN)}.", id="treadle.E001")]
    chosen = configuration()
    if chosen.alias not in settings.DATABASES:
        message = f"TREADLE['DATABASE'] is {chosen.alias!r}, which is not in DATABASES."
        return [Error(message, hint=f"Expected one of {', '.join(settings.DATABASES)}.", id="treadle.E002")]
    from django.db import connections

    vendor = connections[chosen.alias].vendor
    if vendor != "postgresql":
        hint = "Treadle needs PostgreSQL: set TREADLE['DATABASE'] to a database with it."
        return [Error(f"DATABASES[{chosen.alias!r}] is {vendor}.", hint=hint, id="treadle.E003")]
    try:
        from treadle.contrib.django import application as application
    except (TreadleError, TypeError) as error:
        return [Error(f"TREADLE is invalid: {error}", id="treadle.E004")]
    return []


def check_settings(app_configs: Any, **options: Any) -> list[CheckMessage]:
    return find_mistakes()


def check_schema(app_configs: Any, databases: Sequence[str] | None = None, **options: Any) -> list[CheckMessage]:
    """With `manage.py check --database default`."""
    if find_mistakes() or configuration().alias not in (databases or ()):
        return []
    problem = problem_of()
    if problem is None or not is_recorded():
        return []  # or Django says itself that there are unapplied migrations
    return [checks.Warning(problem.partition("; run:")[0], hint="Run: manage.py migrate", id="treadle.W001")]
