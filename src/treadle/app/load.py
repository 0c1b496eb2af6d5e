"""Finds the application that is meant by `module:attribute`."""

import importlib
import sys
import traceback
from pathlib import Path

from treadle.app.treadle import Treadle
from treadle.words.errors import TreadleError


class AppNotFound(TreadleError):
    """What was named is not an application, or cannot be imported."""


def load_app(spec: str) -> Treadle:
    """The application `shop.jobs:app`; `:app` may be left out. Modules are looked for in the working folder first."""
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
        hint = f"there is {' and '.join(apps)}" if apps else "it makes no Treadle()"
        raise AppNotFound(f"{name} has no application {attribute or 'app'!r}: {hint}")
    return found


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{last}"
