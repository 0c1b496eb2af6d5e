"""Every command and option is documented, and every help has an example."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.commands import output_of, run_in_process
from treadle.cli.commands import COMMANDS, main

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
SECTIONS = dict(re.findall(r"^## treadle ([a-z, -]+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_has_an_example(name: str) -> None:
    text = command(name).help or ""
    assert re.search(rf"^ *(.* )?treadle {name}( |$)", text.partition("\b\n")[2], re.MULTILINE)


@pytest.mark.parametrize(("name", "summary"), COMMANDS.items())
def test_the_list_of_commands_shows_the_first_line_of_the_help(name: str, summary: str) -> None:
    assert (command(name).help or "").split("\n")[0].strip() == summary


@pytest.mark.parametrize("name", COMMANDS)
def test_command_and_options_are_documented(name: str) -> None:
    table = PAGE.partition("\n## ")[0]
    assert re.search(rf"^\| `treadle .*\b{name}`", table, re.MULTILINE)
    section = next(text for heading, text in SECTIONS.items() if name in re.split(", ", heading))
    for option in command(name).params:
        if isinstance(option, click.Option):
            assert any(each in section for each in option.opts), option.opts


def test_only_existing_commands_are_documented() -> None:
    assert {name for heading in SECTIONS for name in heading.split(", ")} == set(COMMANDS)


def test_help_lists_the_commands() -> None:
    said = output_of("-h")
    assert all(re.search(rf"^  {name} +[A-Z]", said, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script(shell: str) -> None:
    assert f"_TREADLE_COMPLETE={shell}_source treadle" in output_of("completion", shell)
    assert f"_TREADLE_COMPLETE={shell}_complete" in completed(_TREADLE_COMPLETE=f"{shell}_source").stdout


def test_the_installed_program_prints_the_completion_script() -> None:
    script = run_in_process(_TREADLE_COMPLETE="bash_source")
    assert script.returncode == 0
    assert "_TREADLE_COMPLETE=" in script.stdout


@pytest.mark.parametrize(
    ("line", "position", "offered"),
    [
        ("treadle pau", 1, "pause"),
        ("treadle enqueue wel", 2, "welcome"),
        ("treadle pause --type wel", 3, "welcome"),
        ("treadle jobs --status fai", 3, "failed"),
    ],
)
def test_completions(line: str, position: int, offered: str) -> None:
    asked = {"_TREADLE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(position)}
    assert f"plain,{offered}\n" in completed(TREADLE_APP="tests.support.cli_app:app", **asked).stdout
    assert completed(TREADLE_APP="tests.support.broken_app", **asked).stderr == ""


def completed(**environment: str) -> Result:
    """Invoked as a shell does, in this process."""
    result = CliRunner().invoke(main, env=environment, prog_name="treadle")
    assert isinstance(result.exception, SystemExit | None)
    return result
