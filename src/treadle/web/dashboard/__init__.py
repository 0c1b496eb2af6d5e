"""The dashboard: pages about the queue, and what operators do to it."""

from treadle.web.dashboard.access import Role, Visitor
from treadle.web.dashboard.dashboard import dashboard_app

__all__ = ["Role", "Visitor", "dashboard_app"]
