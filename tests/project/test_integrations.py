"""The short form of `make integrations`: what examples name in their header is all that they need."""

import ast
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.integrations.environment import ThisEnvironment, from_wheel
from tests.integrations.examples import requirements_of, run_example
from tests.project.test_docs import EXAMPLES


def installed_by(requirements: list[str]) -> set[str]:
    """The distributions that `pip install …` would install, by what those that are installed here require."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        found.add(name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                needed = [Requirement(each) for each in requires(name) or []]
            except PackageNotFoundError:  # for another platform or version of Python
                needed = []
            waiting += [each for each in needed if each.marker is None or each.marker.evaluate({"extra": extra})]
    return found


def imported_by(program: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_every_example_names_the_packages_that_it_imports() -> None:
    distributions = packages_distributions()
    for example in EXAMPLES:
        installed = installed_by(requirements_of(example))
        if "treadle.web" in example.read_text():
            assert "starlette" in installed, example.name
        for module in imported_by(example) - sys.stdlib_module_names - {"treadle"}:
            assert {canonicalize_name(each) for each in distributions[module]} & installed, (example.name, module)


def test_an_example_runs_without_any_setting(project_folder: Path) -> None:
    """On the embedded server, like all in `make integrations`. It is the one that opens a connection itself."""
    run_example(ThisEnvironment(), EXAMPLES[1], project_folder / "example")


def test_treadle_is_installed_from_the_wheel() -> None:
    wheel = Path("/dist/treadle-1-py3-none-any.whl")
    assert from_wheel(wheel, ["treadle[web]", "treadle", "httpx"]) == [f"{wheel}[web]", str(wheel), "httpx"]
