"""Every example, with the extras that it names and nothing else, on the embedded server."""

import ast
import shlex
from collections import defaultdict
from pathlib import Path

from tests.integrations.environment import ROOT, Environment
from tests.project.test_docs import EXAMPLES, EXPECTED

INSTALL = "Install: pip install "


def requirements_of(example: Path) -> list[str]:
    """What the line `Install: pip install …` in the header of an example names."""
    header = ast.get_docstring(ast.parse(example.read_text())) or ""
    (line,) = (line for line in header.splitlines() if line.startswith(INSTALL))
    return shlex.split(line.removeprefix(INSTALL))


def run_examples(wheel: Path, folder: Path) -> None:
    by_requirements: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for example in EXAMPLES:
        by_requirements[tuple(requirements_of(example))].append(example)
    for number, (requirements, examples) in enumerate(by_requirements.items()):
        environment = Environment(folder / f"environment-{number}", wheel, list(requirements))
        for example in examples:
            run_example(environment, example, folder / example.stem)


def run_example(environment: Environment, example: Path, folder: Path) -> None:
    folder.mkdir()  # the embedded server is in the working folder, so each example has its own
    done = environment.run(["python", str(ROOT / "examples" / example.name)], folder)
    assert done.returncode == 0, f"{example.name}: {done.stderr}"
    expected = EXPECTED[example.name]
    agrees = done.stdout == expected if isinstance(expected, str) else expected.fullmatch(done.stdout)
    assert agrees, f"{example.name} printed {done.stdout!r}"
