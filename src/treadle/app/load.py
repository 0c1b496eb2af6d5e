"""Imports the application that `module:attribute` names."""

import importlib
import sys
import traceback
from pathlib import Path

from treadle.app.treadle import Treadle
from treadle.words.errors import TreadleError


class AppNotFound(TreadleError):
    """The name is not that of an application, or it cannot be imported."""


def load_app(spec: str) -> Treadle:
    """Return the application `shop.jobs:app`; `:app` is the default. The working folder is searched first."""
    name, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise AppNotFound(f"there is no module {name!r} here; expected module:app, such as shop.jobs:app") from None
        raise AppNotFound(f"{name} cannot be imported: {_where(error)}") from error
    except (Exception, SystemExit) as error:
        raise AppNotFound(f"{name} cannot be imported: {_where(error)}") from error
    found = getattr(module, attribute or "app", None)
    if not isinstance(found, Treadle):
        apps = [f"{name}:{key}" for key, value in vars(module).items() if isinstance(value, Treadle)]
        hint = f"found {' and '.join(apps)}" if apps else "it has no Treadle()"
        raise AppNotFound(f"{name} has no application {attribute or 'app'!r}: {hint}")
    found.spec = f"{name}:{attribute or 'app'}"
    return found


def spec_of(app: Treadle) -> str | None:
    """How another process imports this application: as this one did, or by a module that has it. None if only the
    program itself has it, which multiprocessing imports in each child process."""
    if app.spec is not None:
        return app.spec
    for name, module in list(sys.modules.items()):
        if name not in ("__main__", "__mp_main__"):
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if value is app:
                    return f"{name}:{attribute}"
    return None


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{last}"
