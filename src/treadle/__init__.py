"""Treadle: a job queue for Python on PostgreSQL alone.

The public names are the imports of __init__.pyi. A module is imported when one of its names is first used, so that
commands, supervisors and keepers do not load what they do not use.
"""

import importlib
import re

_STUB = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
_HOME = {
    name: home
    for home, names in re.findall(r"^from (\S+) import (\([^)]*\)|.*)", _STUB, re.MULTILINE)
    for name in re.findall(r"(\w+) as \1", names)
}
__all__ = sorted(_HOME.keys() - {"events"})  # a module


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("treadle")
    if name == "events":
        return importlib.import_module("treadle.words.events")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found  # so that this is called once for each
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
