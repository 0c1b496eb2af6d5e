"""Processes that must start quickly and stay small import few modules: the supervisor, the keeper and the commands.

Modules are counted, not timed: the count is the same on every machine.
"""

import json
import subprocess
import sys

import pytest

APPLICATION = ("treadle.app", "treadle.attempt", "treadle.queue", "treadle.web", "treadle.worker.worker")
HEAVY = ("pydantic", "pydantic_core", "psycopg_pool", "psutil", "rich", "textual", "starlette", "multiprocessing")
KEEPER = "from treadle.worker.keeper import main"
SUPERVISOR = "from treadle.worker.supervisor import Supervisor"
COMMAND = "import treadle.cli.commands; from treadle.cli.worker import worker"
HELP = """
from click.testing import CliRunner
from treadle.cli import main
assert "Commands:" in CliRunner().invoke(main, ["--help"]).output
"""


def imported(code: str) -> set[str]:
    show = f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, cwd="/")
    return set(json.loads(shown.stdout))


@pytest.mark.parametrize(
    ("code", "never", "at_most"),
    [
        pytest.param("import treadle", (*HEAVY, *APPLICATION, "psycopg", "asyncio", "click"), 1, id="the package"),
        pytest.param("from treadle import JobFailed", (*HEAVY, *APPLICATION, "psycopg", "asyncio"), 5, id="an error"),
        pytest.param(KEEPER, (*HEAVY, *APPLICATION, "click", "treadle.cli"), 36, id="the keeper"),
        pytest.param(SUPERVISOR, (*HEAVY, *APPLICATION, "click", "treadle.cli"), 41, id="the supervisor"),
        pytest.param(COMMAND, (*HEAVY, *APPLICATION), 51, id="treadle worker"),
        pytest.param(HELP, (*HEAVY, *APPLICATION, "psycopg", "asyncio"), 15, id="treadle --help"),
        pytest.param("import treadle.cli.migrate", (*HEAVY, *APPLICATION), 28, id="treadle migrate"),
    ],
)
def test_it_imports_few_modules(code: str, never: tuple[str, ...], at_most: int) -> None:
    modules = imported(code)
    assert not modules.intersection(never)
    assert len([each for each in modules if each.split(".")[0] == "treadle"]) <= at_most
