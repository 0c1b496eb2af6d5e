"""Imports the application that `module:attribute` names."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeGuard

from treadle.jobs.group import JobGroup
from treadle.jobs.workload import Workload
from treadle.words.errors import TreadleError


class HasWorkload(Protocol):
    """An application, as far as workers are concerned."""

    @property
    def workload(self) -> Workload: ...


class AppNotFound(TreadleError):
    """The name is not that of an application, or it cannot be imported."""


def load(spec: str) -> HasWorkload:
    """Return the application `shop.jobs:app`; `:app` is the default. The working folder is searched first."""
    name, _, attribute = spec.partition(":")
    attribute = attribute or "app"
    module = _imported(name)
    found = getattr(module, attribute, None)
    if not _is_application(found):
        apps = [f"{name}:{key}" for key, value in vars(module).items() if _is_application(value)]
        hint = f"found {' and '.join(apps)}" if apps else "it has no Treadle()"
        raise AppNotFound(f"{name} has no application {attribute!r}: {hint}")
    found.workload.spec = f"{name}:{attribute}"
    return found


def spec_of(workload: Workload) -> str | None:
    """How another process imports the application: as this one did, or by a module that has it. None if only the
    program itself has it, which multiprocessing imports in each child process."""
    if workload.spec is not None:
        return workload.spec
    for name, module in list(sys.modules.items()):
        if name not in ("__main__", "__mp_main__"):
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if value is workload.functions:
                    return f"{name}:{attribute}"
    return None


def _is_application(value: object) -> TypeGuard[HasWorkload]:
    return isinstance(value, JobGroup) and isinstance(getattr(value, "workload", None), Workload)


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise AppNotFound(f"there is no module {name!r} here; expected module:app, such as shop.jobs:app") from None
        raise AppNotFound(f"{name} cannot be imported: {_where(error)}") from error
    except (Exception, SystemExit) as error:
        raise AppNotFound(f"{name} cannot be imported: {_where(error)}") from error


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{last}"
