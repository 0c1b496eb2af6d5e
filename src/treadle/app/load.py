"""Imports the application that a command line or a setting names."""

from typing import cast

from treadle.app.treadle import Treadle
from treadle.jobs.load import load


def load_app(spec: str) -> Treadle:
    """Return the application `shop.jobs:app`; `:app` is the default. The working folder is searched first."""
    return cast(Treadle, load(spec))
