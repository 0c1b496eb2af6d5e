"""Finds and imports the modules of a package that declare job functions."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType

from treadle.words.errors import InvalidArgument


def discover(packages: Sequence[str], name: str) -> list[ModuleType]:
    """Import the modules of this name in the packages and in the packages inside them. Nothing else is imported but
    the packages that contain one."""
    return [importlib.import_module(each) for package in packages for each in _modules(package, name)]


def _modules(package: str, name: str) -> Iterator[str]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{package}.".startswith(f"{error.name}."):
            raise  # it exists, and imports something that does not
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        raise InvalidArgument(f"expected the name of a package, such as shop, got {package!r}")
    yield from _inside(package, spec.submodule_search_locations, name)


def _inside(package: str, paths: Iterable[str], name: str) -> Iterator[str]:
    paths = list(paths)
    for found in pkgutil.iter_modules(paths):
        if found.name == name:
            yield f"{package}.{name}"
        if found.ispkg:
            yield from _inside(f"{package}.{found.name}", [f"{path}/{found.name}" for path in paths], name)
