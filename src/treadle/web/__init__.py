"""ASGI applications: the dashboard, and the events of jobs. Requires pip install "treadle[web]"."""

try:
    import itsdangerous  # noqa: F401
    import jinja2  # noqa: F401
    import starlette  # noqa: F401
except ImportError as error:
    raise ImportError('treadle.web requires Starlette and Jinja; run: pip install "treadle[web]"') from error

from treadle.web.dashboard import Role, Visitor, dashboard_app
from treadle.web.events import events_app

__all__ = ["Role", "Visitor", "dashboard_app", "events_app"]
