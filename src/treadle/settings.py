"""The settings: what they are called, and where their values come from.

A setting of the library, or of every command, is in SHARED: the variable TREADLE_NAME, or the key `name` in a file. An
option of one command is the variable TREADLE_COMMAND_OPTION, or the key `option` in the table of the command. The
command line comes first, then the environment, then treadle.toml, then [tool.treadle] in pyproject.toml.
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from treadle.words.errors import InvalidArgument
from treadle.words.naming import SCHEMA, schema_name

T = TypeVar("T")

PREFIX = "TREADLE_"
FILES = ("treadle.toml", "pyproject.toml")
# Names a file to read instead of both.
FILE_VARIABLE = "TREADLE_CONFIG"


class Setting(NamedTuple):
    meaning: str
    default: str
    variables: tuple[str, ...]
    """The first one that is set counts."""
    secret: bool = False
    """Only from the environment: files are committed and copied."""


SHARED = {
    "app": Setting("Application, as module:attribute.", "", ("TREADLE_APP",)),
    "app_version": Setting("Version of the application, such as a commit.", "none", ("TREADLE_APP_VERSION",)),
    "database_url": Setting("Database to use.", "the embedded server", ("TREADLE_DATABASE_URL", "DATABASE_URL")),
    "listen_url": Setting("Database URL for receiving notifications.", "the database URL", ("TREADLE_LISTEN_URL",)),
    "schema": Setting("Schema of the queue.", SCHEMA, ("TREADLE_SCHEMA",)),
    "connect_timeout": Setting("Time to wait for a connection.", "5s", ("TREADLE_CONNECT_TIMEOUT",)),
    "statement_timeout": Setting(
        "Time to wait for the answer to a statement; 0s: for ever.", "30s", ("TREADLE_STATEMENT_TIMEOUT",)
    ),
    "log_level": Setting("Lowest level to log.", "info", ("TREADLE_LOG_LEVEL",)),
    "log_format": Setting("Format of the log.", "text", ("TREADLE_LOG_FORMAT",)),
    "actor": Setting("Name to record in the audit.", "the user name", ("TREADLE_ACTOR",)),
    "dashboard_operator": Setting(
        "Secret of people who can change jobs.", "none", ("TREADLE_DASHBOARD_OPERATOR",), secret=True
    ),
    "dashboard_viewer": Setting(
        "Secret of people who can view jobs.", "none", ("TREADLE_DASHBOARD_VIEWER",), secret=True
    ),
}


class Found(NamedTuple):
    value: Any
    source: str
    """The variable or the file that it comes from."""


class File(NamedTuple):
    name: str
    settings: dict[str, Any]
    """By name, with _ instead of -. A table has the options of a command."""


def find(name: str) -> Found | None:
    """The value of a shared setting outside of the code; None if it is set nowhere."""
    for variable in SHARED[name].variables:
        if value := os.environ.get(variable):
            return Found(value, variable)
    if not SHARED[name].secret:
        for file in files():
            if name in file.settings:
                return Found(_text(file, name), file.name)
    return None


def value_of(name: str) -> str | None:
    """The value of a shared setting, or None."""
    found = find(name)
    return None if found is None else str(found.value)


def chosen(given: T | None, name: str) -> T | str:
    """The given value, else that of the settings, else the default."""
    return given if given is not None else value_of(name) or SHARED[name].default


def chosen_schema(schema: str | None) -> str:
    """The given schema of the queue, else that of the settings, else treadle."""
    return schema_name(chosen(schema, "schema"))


def files() -> Iterator[File]:
    """The files in the working folder that have settings, in the order in which they count."""
    named = os.environ.get(FILE_VARIABLE)
    for name in (named,) if named else FILES:
        path = Path(name)
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            if named:
                raise InvalidArgument(f"{FILE_VARIABLE} names {named}, which does not exist") from None
            continue
        except OSError as error:
            raise InvalidArgument(f"{name} cannot be read: {error.strerror}") from None
        is_project = path.name == "pyproject.toml"
        if is_project and b"treadle" not in content:  # parsing takes milliseconds, and importing the parser more
            continue
        found = _parsed(name, content)
        if not is_project:
            yield File(name, _checked(name, found))
        elif isinstance(tools := found.get("tool"), dict) and (own := tools.get("treadle")) is not None:
            place = f"{name} [tool.treadle]"
            if not isinstance(own, dict):
                raise InvalidArgument(f"{place} must be a table")
            yield File(place, _checked(place, own))


def unknown_key(place: str, key: str, known: Iterable[str]) -> InvalidArgument:
    known = sorted(known)
    close = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"expected one of: {', '.join(known)}"
    return InvalidArgument(f"{place}: there is no setting {key!r}; {hint}")


def without_settings(command: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a command whose options are all given: of the settings, only URLs and secrets are kept."""
    shared = {variable for setting in SHARED.values() for variable in setting.variables}
    secrets = {variable for setting in SHARED.values() for variable in setting.variables if setting.secret}
    kept = secrets | {each for each in shared if each.endswith("_URL")}
    changed = {name for name in environment if name.startswith(f"{PREFIX}{command.upper()}_")} | shared
    return {name: value for name, value in environment.items() if name not in changed - kept} | {
        FILE_VARIABLE: os.devnull
    }


@lru_cache(maxsize=2)  # an application asks for several settings
def _parsed(name: str, content: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"{name} is not valid TOML: {error}") from None


def _checked(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """The settings by name. The tables of commands are checked by the command line, which knows their options."""
    found = {key.replace("-", "_"): value for key, value in table.items()}
    for key, value in found.items():
        if isinstance(value, dict):
            continue
        known = {each for each, setting in SHARED.items() if not setting.secret}
        if key in SHARED.keys() - known:
            raise InvalidArgument(f"{name}: {key} is a secret; set {SHARED[key].variables[0]} instead")
        if key not in known:
            raise unknown_key(name, key, known)
    return found


def _text(file: File, name: str) -> str:
    value = file.settings[name]
    if not isinstance(value, str):
        raise InvalidArgument(f"{file.name}: {name} must be a string, got {value!r}")
    return value
