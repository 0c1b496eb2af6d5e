"""Options of commands as settings: each has a variable of the environment, and a key in a file."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from treadle.settings import FILE_VARIABLE, PREFIX, SHARED, File, files, unknown_key
from treadle.words.errors import InvalidArgument

Path = tuple[str, ...]

# The demonstration drops a schema: it uses a database only if that is meant for it.
NOT_SHARED = {(("demo",), "database_url")}


class Option(NamedTuple):
    """An option of a command, as a setting."""

    name: str
    """Without the dashes in front, and with _ for -: max_memory."""
    parameter: click.Parameter
    variables: tuple[str, ...]

    shared: bool


def options_of(path: Path, command: click.Command) -> Iterator[Option]:
    """The options of a command. An argument is among them if it is a shared setting, such as the application."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            name = max(parameter.opts, key=len).lstrip("-").replace("-", "_")
        elif parameter.name in SHARED:
            name = str(parameter.name)
        else:
            continue
        shared = name in SHARED and (path, name) not in NOT_SHARED
        own = (PREFIX + "_".join([*path, name]).replace("-", "_").upper(),)
        yield Option(name, parameter, SHARED[name].variables if shared else own, shared)


def bind(command: click.Command, *path: str) -> click.Command:
    """Let the environment set every option of the command, and of the commands in it."""
    for option in options_of(path, command):
        option.parameter.envvar = list(option.variables)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            bind(inner, *path, name)
    return command


def file_settings(command: click.Command, *path: str) -> dict[str, Any]:
    """What the files say about the options of a command, by the names of its parameters, for click."""
    found: dict[str, Any] = {}
    for option, value, _ in in_files(command, *path):
        found.setdefault(str(option.parameter.name), value)
    if isinstance(command, click.Group):
        found |= {name: file_settings(inner, *path, name) for name, inner in command.commands.items()}
    return found


def in_files(command: click.Command, *path: str) -> Iterator[tuple[Option, Any, File]]:
    """The settings of a command in files, those that count first. Raises InvalidArgument for a name that it lacks."""
    options = {option.name: option for option in options_of(path, command)}
    inner = {name.replace("-", "_") for name in command.commands} if isinstance(command, click.Group) else set()
    for file in files():
        table = table_of(file, path)
        known = {name for name, option in options.items() if not option.shared}
        where = f"{file.name}, {'.'.join(path)}"
        for key, value in table.items():
            name = key.replace("-", "_")
            if isinstance(value, dict) and name in inner:
                continue
            if name in options.keys() - known:
                raise InvalidArgument(f"{where}: {name} is a setting of all commands; move it out of the table")
            if name not in known:
                raise unknown_key(where, name, known | inner)
            yield options[name], _value(options[name], value, where), file
        for name, option in options.items():
            if option.shared and name in file.settings:
                yield option, _value(option, file.settings[name], file.name), file


def table_of(file: File, path: Path) -> dict[str, Any]:
    table = file.settings
    for number, part in enumerate(path, 1):
        table = {key.replace("-", "_"): value for key, value in table.items()}.get(part.replace("-", "_"), {})
        if not isinstance(table, dict):
            raise InvalidArgument(f"{file.name}: {'.'.join(path[:number])} must be a table of options")
    return table


def check_tables(commands: Iterator[str] | list[str]) -> None:
    """Raise InvalidArgument if a file has a table that is not named after a command."""
    known = {name.replace("-", "_") for name in commands}
    for file in files():
        for name, value in file.settings.items():
            if isinstance(value, dict) and name not in known:
                raise unknown_key(file.name, name, known)


def source_of(context: click.Context, parameter: click.Parameter | None) -> str | None:
    """Which variable or file the value of a parameter came from; None if from the command line, or from nowhere."""
    source = None if parameter is None else context.get_parameter_source(str(parameter.name))
    if parameter is None or source is None:
        return None
    if source is click.core.ParameterSource.ENVIRONMENT:
        return next((each for each in parameter.envvar or () if os.environ.get(each)), None)
    if source is click.core.ParameterSource.DEFAULT_MAP:
        path = _path_of(context)
        named = (file.name for option, _, file in in_files(context.command, *path) if option.parameter is parameter)
        return next(named, os.environ.get(FILE_VARIABLE))
    return None


def _path_of(context: click.Context) -> list[str]:
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return names


def _value(option: Option, value: Any, where: str) -> Any:
    """As it would be typed, so that it is checked in the same way."""
    parameter = option.parameter
    if isinstance(parameter, click.Option) and parameter.multiple:
        value = value if isinstance(value, list) else [value]
        return [_text(option, each, where) for each in value]
    if isinstance(value, list):  # --types a,b
        return ",".join(_text(option, each, where) for each in value)
    return _text(option, value, where)


def _text(option: Option, value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise InvalidArgument(f"{where}: {option.name} must be a string, a number or a list of them, got {value!r}")
    return str(value)
