"""The schema of version 0.1.0, to upgrade."""

import os
import subprocess
import sys
from pathlib import Path

from chaos.processes import ROOT
from chaos.storms.upgrade import unpack_previous


def create_old_schema(url: str, folder: Path) -> None:
    unpack_previous(folder)
    environment = os.environ | {"TREADLE_DATABASE_URL": url, "PYTHONPATH": str(folder / "src")}
    subprocess.run([sys.executable, "-m", "treadle", "migrate"], check=True, cwd=ROOT, env=environment)
