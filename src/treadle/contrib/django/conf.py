"""The settings: `TREADLE = {"DATABASE": "default", "SCHEMA": "treadle", …}`. All of them are optional."""

import inspect
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from treadle.app.treadle import Treadle
from treadle.db.url import url_of
from treadle.words.naming import SCHEMA

# Those of Treadle() have the same names in capitals. The database and the connection are Django's.
_TREADLE = [name for name in inspect.signature(Treadle).parameters if name not in ("database", "connection")]
KNOWN = ("DATABASE", "JOBS_MODULE", *(name.upper() for name in _TREADLE))


class Configuration(NamedTuple):
    alias: str
    """Which of DATABASES has the schema."""
    schema: str
    jobs_module: str
    """The modules of this name, in all installed apps, are imported at the start."""
    options: dict[str, Any]
    """Those of Treadle()."""


def given() -> Any:
    return getattr(settings, "TREADLE", {})


def configuration() -> Configuration:
    found = given() if isinstance(given(), dict) else {}
    options = {name: found[name.upper()] for name in _TREADLE if name.upper() in found}
    return Configuration(
        found.get("DATABASE", DEFAULT_DB_ALIAS),
        found.get("SCHEMA", SCHEMA),
        found.get("JOBS_MODULE", "jobs"),
        options,
    )


def database_url() -> str:
    """The database as Django connects to it now: in tests it is another one."""
    connection = connections[configuration().alias]
    parameters = dict(connection.get_connection_params())
    if role := connection.settings_dict["OPTIONS"].get("assume_role"):
        quoted = str(role).replace("\\", "\\\\").replace(" ", "\\ ")
        parameters["options"] = f"{parameters.get('options', '')} -c role={quoted}".strip()
    return url_of(parameters)
