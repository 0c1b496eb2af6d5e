"""What Treadle offers to web applications. Needs Starlette: pip install "treadle[web]"."""

try:
    import starlette  # noqa: F401
except ImportError as error:
    raise ImportError('treadle.web needs Starlette; run: pip install "treadle[web]"') from error

from treadle.web.events import events_app

__all__ = ["events_app"]
