"""Runs what uses the installed wheel, each in an environment of its own. Packages come from the package index.

python -m tests.integrations [NAME …]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.integrations.environment import build_wheel
from tests.integrations.examples import run_examples
from tests.integrations.image import build_image
from tests.integrations.readme import run_readme

# Each gets the wheel and a folder of its own, and raises an exception if something is wrong.
INTEGRATIONS: dict[str, Callable[[Path, Path], None]] = {
    "examples": run_examples,
    "readme": run_readme,
    "image": build_image,
}


def main(names: list[str]) -> int:
    if unknown := set(names) - INTEGRATIONS.keys():
        print(f"unknown: {', '.join(sorted(unknown))}; expected some of: {', '.join(INTEGRATIONS)}", file=sys.stderr)
        return 2
    failed = []
    with tempfile.TemporaryDirectory(prefix="treadle-integrations-") as folder:
        wheel = build_wheel(Path(folder))
        for name in names or INTEGRATIONS:
            print(f"{name} …", end=" ", flush=True)
            own, began = Path(folder) / name, time.monotonic()
            own.mkdir()
            try:
                INTEGRATIONS[name](wheel, own)
            except Exception as error:
                failed.append(name)
                print(f"failed: {error}", flush=True)
            else:
                print(f"ok, {time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
