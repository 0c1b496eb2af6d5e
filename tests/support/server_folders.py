"""Folders of embedded servers that every user may enter. The temporary folders of pytest are closed to other users."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder() -> Iterator[Path]:
    """The folder of a server that was never started."""
    with tempfile.TemporaryDirectory(prefix="treadle-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name, ".treadle")


@contextmanager
def copied_folder(initialized: Path) -> Iterator[Path]:
    """A copy of the folder of a server that is not running: copying is quicker than creating one."""
    with new_folder() as folder:
        subprocess.run(["cp", "-a", initialized, folder], check=True)
        yield folder
