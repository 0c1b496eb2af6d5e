"""Creates an environment for each queue under .environments/, and again when its requirements change."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ADAPTERS = HERE / "adapters"
ENVIRONMENTS = HERE / ".environments"
# All Python queues run on the newest version that is installed, because some need 3.12.
PYTHONS = ["python3.13", "python3.12", "python3.11"]
MINUTES = 10


class CannotInstall(Exception):
    pass


def names() -> list[str]:
    """Return the name of every folder with an adapter, Treadle and the bare loop first."""
    found = sorted(path.parent.name for path in ADAPTERS.glob("*/adapter.*"))
    return sorted(found, key=lambda name: ["treadle", "bare"].index(name) if name in {"treadle", "bare"} else 2)


def environment(name: str) -> list[str]:
    """Install the adapter's requirements if necessary, and return the command that runs it."""
    adapter = next(iter((ADAPTERS / name).glob("adapter.*")))
    return _node(name, adapter) if adapter.suffix == ".mjs" else _python(name, adapter)


def python() -> str:
    for candidate in PYTHONS:
        found = [shutil.which(candidate), *sorted(_pyenv(candidate), reverse=True)]
        for path in found:
            if path and _works(path):
                return path
    return sys.executable


def node() -> str:
    """Return the node that the JavaScript queues run on."""
    return next((str(path) for path in sorted(ENVIRONMENTS.glob("*/node_modules/.bin/node"))), "node")


def _pyenv(candidate: str) -> list[str]:
    # The pyenv command does not find a version that is installed but not selected.
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [str(path) for path in root.glob(f"versions/*/bin/{candidate}")]


def _works(path: str) -> bool:
    return subprocess.run([path, "-c", "import ensurepip, ssl"], check=False, capture_output=True).returncode == 0


def _python(name: str, adapter: Path) -> list[str]:
    place, wanted = ENVIRONMENTS / name, adapter.parent / "requirements.txt"
    interpreter = place / "bin" / "python"
    base = python()
    if not _is_ready(place, wanted, base):
        _run([base, "-m", "venv", "--clear", str(place)], adapter.parent)
        # Run in the adapter's folder, because the requirements of Treadle's adapter use a relative path.
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--requirement", str(wanted)], adapter.parent)
        _note(place, wanted, base)
    return [str(interpreter), str(adapter)]


def _node(name: str, adapter: Path) -> list[str]:
    place, wanted = ENVIRONMENTS / name, adapter.parent / "package.json"
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        raise CannotInstall("node and npm are required")
    if not _is_ready(place, wanted, node):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, place)
        _run(["npm", "install", "--no-audit", "--no-fund", "--silent"], place)
        _note(place, wanted, node)
    # Node finds modules next to the program and ignores NODE_PATH, so the adapter runs from a copy.
    shutil.copy(adapter, place)
    shutil.copy(ADAPTERS / "peer.mjs", place.parent)
    # Some queues need a newer node than Debian has; their package.json installs one from npm.
    own = place / "node_modules" / ".bin" / "node"
    return [str(own) if own.exists() else node, str(place / adapter.name)]


def _mark(wanted: Path, base: str) -> str:
    return hashlib.sha256(wanted.read_bytes() + base.encode()).hexdigest()


def _is_ready(place: Path, wanted: Path, base: str) -> bool:
    ready = place / ".ready"
    return ready.exists() and ready.read_text() == _mark(wanted, base)


def _note(place: Path, wanted: Path, base: str) -> None:
    (place / ".ready").write_text(_mark(wanted, base))


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MINUTES * 60, check=False)
    except subprocess.TimeoutExpired as error:
        raise CannotInstall(f"{Path(command[0]).name} took more than {MINUTES} minutes") from error
    if done.returncode:
        output = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
        errors = [line for line in output if "ERROR" in line] or output or ["no output"]
        raise CannotInstall(errors[0].replace(str(Path.home()), "~")[:300])
