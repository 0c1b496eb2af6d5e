"""The first stage of deploy/Dockerfile without a builder: its steps, with the folders of the image below another one.

The second stage copies the result; tests/project/test_deploy.py checks it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.integrations.environment import ROOT, inherited

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
FOLDERS = ("/source", "/wheels", "/opt/treadle")


def build_image(wheel: Path, folder: Path) -> None:
    """Does not use the wheel: the image builds its own."""
    run_first_stage(folder)
    program = folder / "opt" / "treadle" / "bin" / "treadle"
    command = [str(program), "enqueue", "--help"]
    app = ROOT / "deploy" / "app"
    subprocess.run(command, check=True, capture_output=True, cwd=app, env=inherited())
    # The dashboard's extra, and the application.
    code = (
        "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '.'); import jobs, treadle.web.dashboard.server"
    )
    subprocess.run([str(program.parent / "python"), "-c", code], check=True, cwd=app, env=inherited())


def run_first_stage(folder: Path) -> None:
    source = folder / "source"
    source.mkdir()
    arguments: dict[str, str] = {}
    for instruction, written in instructions():
        text = written
        for name, value in arguments.items():
            text = text.replace(f"${{{name}}}", value)
        if instruction == "ARG":
            name, _, value = text.partition("=")
            arguments[name] = value
        elif instruction == "COPY":
            *names, target = shlex.split(text)
            for name in names:
                into = source / name if target == "./src" else source / Path(name).name
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, into)
        elif instruction == "RUN":
            run(text, folder)
        else:
            assert (instruction, text) == ("WORKDIR", "/source"), f"{instruction} is not carried out here"


def run(text: str, folder: Path) -> None:
    for name in FOLDERS:
        text = text.replace(name, f"{folder}{name}")
    # The python and pip of the image are first on its path.
    environment = inherited() | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", text], check=False, capture_output=True, text=True, cwd=folder / "source", env=environment
    )
    assert done.returncode == 0, f"{text}: {done.stderr}"


def instructions() -> Iterator[tuple[str, str]]:
    """Those of the first stage."""
    lines = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    (stage,) = re.findall(r"^FROM \S+ AS build\n(.*?)^FROM ", lines, re.MULTILINE | re.DOTALL)
    for line in stage.splitlines():
        if line.strip():
            instruction, _, text = line.partition(" ")
            yield instruction, text
