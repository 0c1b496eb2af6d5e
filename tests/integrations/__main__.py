"""Runs what uses the installed wheel, each in an environment of its own. Packages come from the package index.

python -m tests.integrations [NAME …]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.integrations.django import run_django
from tests.integrations.environment import Skipped, build_wheel
from tests.integrations.examples import run_examples
from tests.integrations.fastapi import run_fastapi
from tests.integrations.image import build_image
from tests.integrations.plain_pytest import run_pytest
from tests.integrations.readme import run_readme

# Each gets the wheel and a folder of its own, and raises an exception if something is wrong, or Skipped. It may return
# what it ran on.
INTEGRATIONS: dict[str, Callable[[Path, Path], str | None]] = {
    "examples": run_examples,
    "readme": run_readme,
    "image": build_image,
    "django": run_django,
    "fastapi": run_fastapi,
    "pytest": run_pytest,
}


def main(names: list[str]) -> int:
    if unknown := set(names) - INTEGRATIONS.keys():
        print(f"unknown: {', '.join(sorted(unknown))}; expected some of: {', '.join(INTEGRATIONS)}", file=sys.stderr)
        return 2
    failed = []
    with tempfile.TemporaryDirectory(prefix="treadle-integrations-") as folder:
        Path(folder).chmod(0o711)  # as root, the embedded servers run under another account
        wheel = build_wheel(Path(folder))
        for name in names or INTEGRATIONS:
            print(f"{name} …", end=" ", flush=True)
            own, began = Path(folder) / name, time.monotonic()
            own.mkdir()
            try:
                ran_on = INTEGRATIONS[name](wheel, own)
            except Skipped as reason:
                print(f"skipped: {reason}", flush=True)
            except Exception as error:
                failed.append(name)
                print("failed:", error, *getattr(error, "__notes__", []), sep="\n", flush=True)
            else:
                print(f"ok, {time.monotonic() - began:.0f} s" + (f" ({ran_on})" if ran_on else ""), flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
