"""Removes each guard of guards/ in turn, in a copy of the source tree, and checks that a named test or storm fails.

python -m chaos.mutants [--only WORD …] [--list] [--untouched]

First it runs the same tests and storms with every guard in place. They must pass ("green"); otherwise a failure without
the guard ("red") would prove nothing. Most of a test's time is startup, so these tests run together, on one server.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from chaos.guards import MUTANTS, Mutant
from chaos.processes import ROOT
from treadle.db.embedded import embedded_url, leave

COPIED = ("src", "chaos", "tests", "pyproject.toml")
SECONDS = 600
AT_ONCE = 2  # tests mostly wait, so two run at a time; storms need the whole machine and run one by one
SERVER = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.mutants", description="Remove one guard at a time and check that a test or storm fails."
    )
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", help="only guards whose description or file contains one of these words"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the guards, and the test or storm that must fail without each"
    )
    parser.add_argument(
        "--untouched", action="store_true", help="only check that everything passes with every guard in place"
    )
    options = parser.parse_args()
    chosen = [
        each
        for each in MUTANTS
        if not options.only or any(word in f"{each.guard} {each.file}" for word in options.only)
    ]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.guard:85} {mutant.red}")
        return 0
    with tempfile.TemporaryDirectory(prefix="treadle-mutants-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        os.environ["TREADLE_TEST_URL"] = embedded_url(folder / "server", settings=SERVER, quiet=True)
        try:
            return check_all(chosen, options.untouched)
        finally:
            leave(folder / "server")


def check_all(chosen: list[Mutant], untouched: bool) -> int:
    began = time.monotonic()
    passing = green({mutant.red: None for mutant in chosen})
    print(
        f"green     {time.monotonic() - began:4.0f} s  {len(passing)} tests and storms pass with every guard in place",
        flush=True,
    )

    def check(mutant: Mutant) -> bool:
        began = time.monotonic()
        answer = "NOT GREEN"
        if mutant.red in passing:
            answer = "green" if untouched else verdict(mutant)
        print(f"{answer:9} {time.monotonic() - began:4.0f} s  {mutant.guard}  ({mutant.red})", flush=True)
        return answer in ("green", "red")

    storms = [mutant for mutant in chosen if mutant.red.startswith("storm ")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        good = sum(pool.map(check, [mutant for mutant in chosen if mutant not in storms]))
    good += sum(map(check, storms))
    print(f"{good} of {len(chosen)} are {'green' if untouched else 'red'}, as expected")
    return 0 if good == len(chosen) else 1


def green(reds: Iterable[str]) -> set[str]:
    """Return the tests and storms that pass with every guard in place. Tests that fail together are retried alone."""
    tests = {red for red in reds if not red.startswith("storm ")}
    passing = tests - _red_together(tests)
    return passing | {red for red in reds if red not in passing and _passes_unchanged(red)}


def _red_together(tests: set[str]) -> set[str]:
    if not tests:
        return set()
    paths = sorted({red.partition(" -k ")[0] for red in tests})
    # Without test names, the whole module is selected by its name.
    names = {red: red.partition(" -k ")[2] or Path(red).stem for red in tests}
    with copied() as folder:
        command = ["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *paths, "-k", " or ".join(names.values())]
        done = _python(command, folder, 3 * SECONDS)
    if done is None or done.returncode not in (0, 1):
        return tests
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout.decode(), re.MULTILINE)
    return {red for red in tests if any(name in each for name in names[red].split(" or ") for each in failed)}


def _passes_unchanged(red: str) -> bool:
    with copied() as folder:
        return _run(red, folder) == "SURVIVED"


def verdict(mutant: Mutant) -> str:
    """Remove the guard and run its test or storm. The expected result is `red`."""
    with copied() as folder:
        path = folder / mutant.file
        whole = path.read_text()
        if mutant.text not in whole:
            return "NOT FOUND"
        path.write_text(whole.replace(mutant.text, mutant.replacement))
        return _run(mutant.red, folder)


@contextmanager
def copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="treadle-mutant-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        for each in COPIED:
            if (ROOT / each).is_dir():
                shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / each, folder / each)
        yield folder


def _run(red: str, folder: Path) -> str:
    if red.startswith("storm "):
        command = ["-m", "chaos", "--seed", "7", "--minutes", "0.5", "--storm", *red.split()[1:]]
    else:
        path, _, names = red.partition(" -k ")
        command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", path, *(["-k", names] if names else [])]
    done = _python(command, folder, SECONDS)
    if done is None:
        # Tests and storms have their own timeouts, so this means that the machine is too slow.
        return "TIMEOUT"
    if done.returncode == 0:
        return "SURVIVED"
    # pytest also exits with 1 if the tests passed but left a process behind, which happens on a slow machine. Higher
    # codes mean that no test could run.
    failed = done.returncode == 1 and (red.startswith("storm ") or b" failed" in done.stdout)
    return "red" if failed else f"exit {done.returncode}"


def _python(command: list[str], folder: Path, seconds: int) -> "subprocess.CompletedProcess[bytes] | None":
    """Run Python in the folder. Return None if it exceeded the time limit."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    try:
        return subprocess.run(
            [sys.executable, *command], check=False, cwd=folder, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(main())
