"""Other versions of Python on this machine."""

import shutil
import subprocess
from pathlib import Path


def find_interpreter(version: str) -> Path | None:
    """The python3.x of the path or of pyenv, whose shim on the path may refuse to start it."""
    name = f"python{version}"
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/{name}"), reverse=True)
    found = shutil.which(name)
    for each in [*([Path(found)] if found else []), *pyenv]:
        if subprocess.run([each, "--version"], capture_output=True, check=False).returncode == 0:
            return each
    return None
