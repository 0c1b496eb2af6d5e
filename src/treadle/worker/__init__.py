"""The running process: claims jobs, runs their handlers, and writes their outcomes."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from treadle.worker.options import WorkerOptions
    from treadle.worker.run import run_worker
    from treadle.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions", "run_worker"]

# Imported when they are first used: supervisors and keepers are in this package as well, and need none of it.
_HOMES = {"Worker": "worker", "WorkerOptions": "options", "run_worker": "run"}

if not typing.TYPE_CHECKING:  # type checkers would take it that every name exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
