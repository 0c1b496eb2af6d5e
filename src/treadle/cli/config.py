"""treadle config."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from treadle import settings
from treadle.cli.command_settings import Option, in_files, options_of
from treadle.cli.options import as_json
from treadle.cli.output import Column, print_json, say, screen, show_table
from treadle.text.masking import masked
from treadle.text.secrets import MASK
from treadle.words.formatting import printable

COLUMNS = [Column("SETTING"), Column("VALUE", 20), Column("FROM")]
DEFAULT = "default"
# Variables that are no settings: between our own processes, and of the demonstration and the tests.
INTERNAL = ("TREADLE_SUPERVISOR", "TREADLE_DEMO_SPEED", "TREADLE_BENCH_SCHEMA", "TREADLE_BENCH_JOB_TYPES")
INTERNAL_PREFIXES = ("TREADLE_TEST_",)


class Shown(NamedTuple):
    setting: str
    value: str
    source: str


@click.command()
@click.argument("command", required=False)
@as_json
@click.pass_context
def config(context: click.Context, command: str | None, as_json: bool) -> None:
    """Print the settings that hold, and where they come from.

    Lists the settings of all commands, and the options of commands that are set in the environment or in a file. With
    COMMAND, lists all options of that command. Secrets are masked.

    \b
    treadle config
    treadle config worker
    """
    commands = dict(_commands(context))
    if command is not None and (command,) not in commands:
        raise click.UsageError(f"there is no command {command!r}")
    rows = list(_shared())
    for path, each in commands.items():
        named = path[0] == command
        rows += [found for found in _options(path, each) if named or (command is None and found.source != DEFAULT)]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        show_table(screen(), COLUMNS, [[row.setting, printable(row.value), row.source] for row in rows])
    for name in _unknown(commands):
        say(f"Warning: {printable(name)} is set, but is no setting of Treadle.", stderr=True)


def _commands(context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    group = context.find_root().command
    assert isinstance(group, click.Group)  # noqa: S101 - for type checkers
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        yield (name,), command
        if isinstance(command, click.Group):
            for inner, each in command.commands.items():
                yield (name, inner), each


def _shared() -> Iterator[Shown]:
    for name, setting in settings.SHARED.items():
        found = settings.find(name) or settings.Found(setting.default, DEFAULT)
        secret = setting.secret and found.source != DEFAULT
        yield Shown(name, MASK if secret else masked(str(found.value)), found.source)


def _options(path: tuple[str, ...], command: click.Command) -> Iterator[Shown]:
    in_file: dict[str, tuple[Any, str]] = {}
    for option, value, file in in_files(command, *path):
        in_file.setdefault(option.name, (value, file.name))
    for option in options_of(path, command):
        if option.shared:
            continue
        value, source = _value(command, option), DEFAULT
        if option.name in in_file:
            value, source = in_file[option.name]
        for variable in option.variables:
            if given := os.environ.get(variable):
                value, source = given, variable
        yield Shown(".".join([*path, option.name]), masked(_text(value)), source)


def _value(command: click.Command, option: Option) -> Any:
    return option.parameter.get_default(click.Context(command), call=True)


def _text(value: Any) -> str:
    if value is None or repr(value) == "Sentinel.UNSET":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _unknown(commands: dict[tuple[str, ...], click.Command]) -> list[str]:
    """Variables that look like settings, and are not."""
    known = {variable for setting in settings.SHARED.values() for variable in setting.variables}
    known |= {each for path, command in commands.items() for option in options_of(path, command) for each in option[2]}
    known |= {settings.FILE_VARIABLE, *INTERNAL}
    found = (name for name in os.environ if name.startswith(settings.PREFIX) and name not in known)
    return sorted(name for name in found if not name.startswith(INTERNAL_PREFIXES))
