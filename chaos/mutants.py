"""Guards that matter (guards.py), each removed in turn in a copy of the tree: a named test or storm has to turn red.

python -m chaos.mutants [--only WORD …] [--list] [--untouched]

Before that, what has to turn red is run once without any change, and has to be green: else its red says nothing. Most
of a test's time is its start, so these are run together, and all have one server.
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
AT_ONCE = 2  # tests wait for most of their time; storms want the machine for themselves
SERVER = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.mutants", description="Guards removed, one by one.")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="guards or files with one of these words")
    parser.add_argument("--list", action="store_true", help="which guards there are, and what must turn red")
    parser.add_argument("--untouched", action="store_true", help="only see that all is green with every guard in place")
    asked = parser.parse_args()
    chosen = [
        each for each in MUTANTS if not asked.only or any(word in f"{each.guard} {each.file}" for word in asked.only)
    ]
    if asked.list:
        for mutant in chosen:
            print(f"{mutant.guard:75} {mutant.red}")
        return 0
    with tempfile.TemporaryDirectory(prefix="treadle-mutants-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        os.environ["TREADLE_TEST_URL"] = embedded_url(folder / "server", settings=SERVER, quiet=True)
        try:
            return judge(chosen, asked.untouched)
        finally:
            leave(folder / "server")


def judge(chosen: list[Mutant], untouched: bool) -> int:
    began = time.monotonic()
    sound = green({mutant.red: None for mutant in chosen})
    print(
        f"green     {time.monotonic() - began:4.0f} s  {len(sound)} tests and storms, with every guard in place",
        flush=True,
    )

    def judged(mutant: Mutant) -> bool:
        began = time.monotonic()
        answer = "NOT GREEN"
        if mutant.red in sound:
            answer = "green" if untouched else verdict(mutant)
        print(f"{answer:9} {time.monotonic() - began:4.0f} s  {mutant.guard}  ({mutant.red})", flush=True)
        return answer in ("green", "red")

    storms = [mutant for mutant in chosen if mutant.red.startswith("storm ")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        good = sum(pool.map(judged, [mutant for mutant in chosen if mutant not in storms]))
    good += sum(map(judged, storms))
    print(f"{good} of {len(chosen)} are {'green' if untouched else 'red'}, as they should be")
    return 0 if good == len(chosen) else 1


def green(reds: Iterable[str]) -> set[str]:
    """Those that are, with every guard in place; tests that are not, among the others, are tried again alone."""
    tests = {red for red in reds if not red.startswith("storm ")}
    sound = tests - _red_together(tests)
    return sound | {red for red in reds if red not in sound and _unchanged(red)}


def _red_together(tests: set[str]) -> set[str]:
    paths = sorted({red.partition(" -k ")[0] for red in tests})
    # One without names is all of its module, by the module's name.
    names = {red: red.partition(" -k ")[2] or Path(red).stem for red in tests}
    with copied() as folder:
        command = ["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *paths, "-k", " or ".join(names.values())]
        done = _python(command, folder, 3 * SECONDS)
    if done is None or done.returncode not in (0, 1):
        return tests
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout.decode(), re.MULTILINE)
    return {red for red in tests if any(name in each for name in names[red].split(" or ") for each in failed)}


def _unchanged(red: str) -> bool:
    with copied() as folder:
        return _run(red, folder) == "SURVIVED"


def verdict(mutant: Mutant) -> str:
    """`red` is what it should be."""
    with copied() as folder:
        path = folder / mutant.file
        whole = path.read_text()
        if mutant.text not in whole:
            return "NOT THERE"
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
        return (
            "NO END"  # a test that hangs is ended by its own timeout, and a storm by its calm: this machine is too slow
        )
    if done.returncode == 0:
        return "SURVIVED"
    # pytest says 1 also where tests passed and left a process behind, on a slow machine; more where none could be run.
    failed = done.returncode == 1 and (red.startswith("storm ") or b" failed" in done.stdout)
    return "red" if failed else f"exit {done.returncode}"


def _python(command: list[str], folder: Path, seconds: int) -> "subprocess.CompletedProcess[bytes] | None":
    """None: it did not end in time."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    try:
        return subprocess.run(
            [sys.executable, *command], check=False, cwd=folder, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(main())
