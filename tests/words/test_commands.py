"""Messages name commands as they are called."""

from collections.abc import Iterator

import pytest

from treadle.cli.commands import COMMANDS
from treadle.words import commands
from treadle.words.commands import NAMES, as_called, call_commands
from treadle.words.errors import SchemaError, UnknownSchedule


@pytest.fixture
def in_django() -> Iterator[None]:
    call_commands(
        "manage.py treadle",
        {"treadle migrate": "manage.py migrate", "treadle worker module:app": "manage.py treadle worker"},
    )
    yield
    commands._calls.clear()


def test_the_names_are_those_of_all_commands() -> None:
    assert set(NAMES) == set(COMMANDS)


def test_without_another_program_nothing_changes() -> None:
    assert as_called("run: treadle migrate") == "run: treadle migrate"


@pytest.mark.usefixtures("in_django")
def test_in_a_django_project_they_are_those_of_manage_py() -> None:
    assert str(SchemaError("there is no schema treadle in this database; run: treadle migrate")) == (
        "there is no schema treadle in this database; run: manage.py migrate"
    )
    assert "`manage.py treadle schedules` lists them" in str(UnknownSchedule("nightly"))
    assert as_called("Start one: treadle worker module:app") == "Start one: manage.py treadle worker"
    assert as_called("treadle why 7, treadle run-now 7") == "manage.py treadle why 7, manage.py treadle run-now 7"
