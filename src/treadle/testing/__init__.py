"""Tests of applications: see docs/testing.md. The pytest fixtures are in plugin.py.

The names are imported on first use: pytest imports this package in every project in whose environment Treadle is
installed, also if no test uses it.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from treadle.testing.cases import TreadleMixin
    from treadle.testing.databases import own_database, prepare
    from treadle.testing.drained import Drained, DrainLimit
    from treadle.testing.harness import Harness
    from treadle.testing.jobs import RecordedJob, make_job
    from treadle.testing.sessions import harness_for

__all__ = [
    "DrainLimit",
    "Drained",
    "Harness",
    "RecordedJob",
    "TreadleMixin",
    "harness_for",
    "make_job",
    "own_database",
    "prepare",
]

_HOMES = {
    "cases": ["TreadleMixin"],
    "databases": ["own_database", "prepare"],
    "drained": ["DrainLimit", "Drained"],
    "harness": ["Harness"],
    "jobs": ["RecordedJob", "make_job"],
    "sessions": ["harness_for"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

if not typing.TYPE_CHECKING:  # type checkers would take it that every name exists

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = found
        return found
