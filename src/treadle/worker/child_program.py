"""The start of a child process. multiprocessing imports only this module; `main` imports the rest, without the garbage
collector: see cli/commands.py."""

import gc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def main(pipe: "Connection[Any, Any]") -> None:
    gc.disable()
    from treadle.worker.child import work

    gc.freeze()
    gc.enable()
    work(pipe)
