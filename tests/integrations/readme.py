"""The module in the README, installed by the line above it: run as a program, and by a worker."""

import re
import shlex
from pathlib import Path

from tests.integrations.environment import ROOT, Environment
from tests.project.test_docs import readme_code


def run_readme(wheel: Path, folder: Path) -> None:
    (install,) = re.findall(
        r"^## Example\n+```\npip install (.*?)\n```", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    environment = Environment(folder / "environment", wheel, shlex.split(install, comments=True))
    (folder / "jobs.py").write_text(readme_code())
    program = environment.run(["python", "jobs.py"], folder)
    assert (program.returncode, program.stdout) == (0, "7.png\n"), program.stderr
    enqueued = environment.run(["treadle", "enqueue", "--app", "jobs:app", "thumbnail", "picture=3"], folder)
    assert enqueued.returncode == 0, enqueued.stderr
    worker = environment.run(["treadle", "worker", "jobs:app", "--processes", "2", "--drain"], folder)
    assert worker.returncode == 0, worker.stderr
    listed = environment.run(["treadle", "jobs", "--status", "completed", "--type", "thumbnail", "--json"], folder)
    assert len(listed.stdout.splitlines()) == 3, listed.stdout + listed.stderr
