"""Runs Python programs in processes that are forked from one that has imported their libraries already.

Importing Django takes half a second of CPU time, and importing Treadle with its worker a third.
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Forks:
    """A process that has imported these modules. It has no threads, so its children may do anything."""

    def __init__(self, *modules: str, options: tuple[str, ...] = ()) -> None:
        command = [sys.executable, *options, __file__, *modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, program: str, *arguments: str, folder: Path, environment: dict[str, str]) -> Ended:
        """Run a file, as `python program …` in this folder, or code that follows `-c`."""
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.NamedTemporaryFile("r") as stdout, tempfile.NamedTemporaryFile("r") as stderr:
            request = {
                "arguments": [program, *arguments],
                "folder": str(folder),
                "environment": environment,
                "output": [os.devnull, stdout.name, stderr.name],
            }
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return Ended(int(self._process.stdout.readline()), stdout.read(), stderr.read())

    def close(self) -> None:
        with self._process:
            pass


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
            sys.exit()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(arguments: list[str], folder: str, environment: dict[str, str], output: list[str]) -> None:
    for descriptor, name in enumerate(output):
        os.dup2(os.open(name, os.O_RDWR), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    is_code = arguments[0] == "-c"
    sys.argv = arguments[:1] + arguments[2:] if is_code else arguments
    sys.path[0] = "" if is_code else str(Path(arguments[0]).resolve().parent)
    if is_code:
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - the code of a test
    else:
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        import_module(each)
    serve()
