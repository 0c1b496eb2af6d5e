"""Every option as a variable of the environment and as a key of a file; treadle config."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from tests.support.commands import json_output_of, output_of, run_treadle
from treadle import InvalidArgument, JobQueue, Treadle
from treadle.cli.command_settings import Option, options_of
from treadle.cli.commands import COMMANDS, main
from treadle.cli.filters import Condition, Moment
from treadle.settings import SHARED, files, without_settings
from treadle.words.payload_condition import PayloadCondition

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no settings in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("TREADLE_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    return tmp_path


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield (name,), command
        if isinstance(command, click.Group):
            for inner, each in command.commands.items():
                yield (name, inner), each


def every_option() -> list[tuple[tuple[str, ...], click.Command, Option]]:
    return [(path, command, option) for path, command in every_command() for option in options_of(path, command)]


def sample(parameter: click.Parameter) -> tuple[str, Any]:
    """A value as it is typed, and as the command gets it."""
    kind = parameter.type
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return "true", True
    if isinstance(kind, click.Choice):
        chosen = str(next(iter(kind.choices)))
        text, value = getattr(chosen, "value", chosen), kind.convert(chosen, parameter, None)
    elif isinstance(kind, click.types.IntParamType):
        value = max(7, int(getattr(kind, "min", None) or 0))
        text = str(value)
    elif isinstance(kind, click.types.FloatParamType):
        text, value = "7", 7.0
    elif isinstance(kind, Moment):
        text, value = "2026-11-12T14:00Z", datetime(2026, 11, 12, 14, tzinfo=UTC)
    elif isinstance(kind, Condition):
        text, value = "data.order = 7", PayloadCondition(("order",), "7")
    elif isinstance(kind, click.Path):
        text = value = "."
    else:
        text = value = "seven"
    return text, (value,) if getattr(parameter, "multiple", False) else value


def value_in(path: tuple[str, ...], command: click.Command, option: Option) -> Any:
    """What the command would get, with no option on its command line."""
    context = click.Context(main, info_name="treadle")
    _, found, _ = main.resolve_command(context, [path[0]])
    assert found is not None
    for part in path:
        inner = found if part == path[0] else command
        context = click.Context(inner, parent=context, info_name=part)
    value, _ = option.parameter.consume_value(context, {})
    return option.parameter.process_value(context, value)


OPTIONS = every_option()


def test_every_option_is_a_variable_and_a_key_of_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "treadle.toml"
    for path, command, option in OPTIONS:
        text, value = sample(option.parameter)
        table = "" if option.shared else f"[{'.'.join(path)}]\n"
        file.write_text(f'{table}{option.name} = "{text}"\n')
        assert value_in(path, command, option) == value, (path, option.name)
        file.unlink()
        variable = "TREADLE_" + "_".join([*([] if option.shared else path), option.name]).upper().replace("-", "_")
        with monkeypatch.context() as environment:
            environment.setenv(variable, text)
            assert value_in(path, command, option) == value, variable


def test_no_two_settings_have_the_same_variable() -> None:
    own = [variable for _, _, option in OPTIONS if not option.shared for variable in option.variables]
    shared = [variable for setting in SHARED.values() for variable in setting.variables]
    assert len({*own, *shared}) == len(own) + len(shared)
    assert not SHARED.keys() & {name.replace("-", "_") for name in COMMANDS}


def test_the_command_line_comes_first_then_the_environment_then_treadle_toml_then_pyproject(folder: Path) -> None:
    def where(*arguments: str, **environment: str) -> str:
        said = run_treadle("schedules", "preview", "@hourly", *arguments, **environment)
        return str(len(said.output.splitlines()) - 1)

    assert where() == "5"
    (folder / "pyproject.toml").write_text("[tool.treadle.schedules.preview]\ncount = 4\n")
    assert where() == "4"
    (folder / "treadle.toml").write_text("[schedules.preview]\ncount = 3\n")
    assert where() == "3"
    assert where(TREADLE_SCHEDULES_PREVIEW_COUNT="2") == "2"
    assert where("--count", "1", TREADLE_SCHEDULES_PREVIEW_COUNT="2") == "1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scheme = 'x'", "treadle.toml: there is no setting 'scheme'; did you mean schema?"),
        ("[workers]\nprocesses = 1", "treadle.toml: there is no setting 'workers'; did you mean worker?"),
        ("[jobs]\nlimits = 1", "treadle.toml, jobs: there is no setting 'limits'; did you mean limit?"),
        ("[jobs]\nschema = 'x'", "jobs: schema is a setting of all commands; move it out of the table"),
        ("jobs = 3", "there is no setting 'jobs'"),
        ("[jobs]\nlimit = 'x'", "Invalid value for '--limit': 'x' is not a valid integer range. (from treadle.toml)"),
        ("[jobs]\nlimit = {}", "jobs: limit must be a string, a number or a list of them"),
        ("[jobs", "treadle.toml is not valid TOML"),
        ("dashboard_operator = 'x'", "dashboard_operator is a secret; set TREADLE_DASHBOARD_OPERATOR instead"),
    ],
)
def test_a_mistake_in_a_file_is_explained(folder: Path, text: str, said: str) -> None:
    (folder / "treadle.toml").write_text(text)
    result = run_treadle("jobs", TREADLE_DATABASE_URL="postgresql://nowhere")
    assert result.exit_code
    assert said in result.output


def test_a_wrong_value_in_the_environment_is_explained() -> None:
    result = run_treadle("jobs", TREADLE_JOBS_LIMIT="many")
    assert result.exit_code == 2
    assert "'many' is not a valid integer range. (from TREADLE_JOBS_LIMIT)" in result.output


def test_another_file_can_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "treadle.toml").write_text("schema = 'here'")
    (folder / "other.toml").write_text("schema = 'there'")
    monkeypatch.setenv("TREADLE_CONFIG", "other.toml")
    assert Treadle("postgresql://nowhere").schema == "there"
    monkeypatch.setenv("TREADLE_CONFIG", "missing.toml")
    with pytest.raises(InvalidArgument, match=r"TREADLE_CONFIG names missing\.toml, which does not exist"):
        Treadle("postgresql://nowhere")


def test_the_library_uses_the_schema_of_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text("[tool.treadle]\nschema = 'of_the_project'")
    assert Treadle("postgresql://nowhere").schema == "of_the_project"
    monkeypatch.setenv("TREADLE_SCHEMA", "of_the_environment")
    assert Treadle("postgresql://nowhere").schema == "of_the_environment"
    assert JobQueue("postgresql://nowhere")._database.schema == "of_the_environment"
    assert Treadle("postgresql://nowhere", schema="of_the_code").schema == "of_the_code"


def test_pyproject_of_another_project_is_left_alone(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\ndependencies = ["treadle"]\n[tool.other]\nx = 1')
    assert list(files()) == []


def test_config_says_what_holds_and_where_it_comes_from(folder: Path) -> None:
    (folder / "treadle.toml").write_text("schema = 'jobs'\n[worker]\nprocesses = 4\ntypes = ['a', 'b']\n")
    environment = {
        "DATABASE_URL": "postgresql://ada:hunter2@db/shop",
        "TREADLE_DASHBOARD_OPERATOR": "a-secret-of-people",
        "TREADLE_WORKER_GRACE": "1m",
    }
    said = output_of("config", **environment)
    assert re.search(r"^schema +jobs +treadle\.toml$", said, re.MULTILINE)
    assert re.search(r"^database_url +postgresql://ada:\*+@db/shop +DATABASE_URL$", said, re.MULTILINE)
    assert re.search(r"^dashboard_operator +\*+ +TREADLE_DASHBOARD_OPERATOR$", said, re.MULTILINE)
    assert re.search(r"^log_level +info +default$", said, re.MULTILINE)
    assert re.search(r"^worker\.types +a,b +treadle\.toml$", said, re.MULTILINE)
    assert "hunter2" not in said
    assert "a-secret" not in said
    assert "worker.lease" not in said
    rows = {row["setting"]: (row["value"], row["source"]) for row in json_output_of("config", "worker", **environment)}
    assert rows["worker.grace"] == ("1m", "TREADLE_WORKER_GRACE")
    assert rows["worker.processes"] == ("4", "treadle.toml")
    assert rows["worker.lease"] == ("10s", "default")


def test_config_names_variables_that_are_no_setting() -> None:
    said = run_treadle("config", TREADLE_WORKER_PROCESES="4")
    assert said.stderr == "Warning: TREADLE_WORKER_PROCESES is set, but is no setting of Treadle.\n"


def test_a_command_with_all_options_given_is_not_changed_by_settings() -> None:
    given = {"TREADLE_WORKER_TYPES": "a", "TREADLE_DATABASE_URL": "x", "TREADLE_LOG_LEVEL": "error", "PATH": "/bin"}
    kept = without_settings("worker", given)
    assert kept == {"TREADLE_DATABASE_URL": "x", "PATH": "/bin", "TREADLE_CONFIG": os.devnull}


def test_the_demonstration_ignores_the_database_of_the_environment() -> None:
    path, command, option = next(each for each in OPTIONS if each[0] == ("demo",) and each[2].name == "database_url")
    assert option.variables == ("TREADLE_DEMO_DATABASE_URL",)
    assert "UNSET" in repr(value_in(path, command, option))
    environment = {"DATABASE_URL": "postgresql://x", "TREADLE_DATABASE_URL": "postgresql://x"}
    assert "demo.database_url" not in output_of("config", **environment)


@pytest.mark.parametrize("name", SHARED)
def test_shared_settings_are_documented(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
    assert all(f"`{variable}`" in row for variable in SHARED[name].variables)
