"""The dashboard: web pages and a JSON API to inspect and operate the queue."""

from treadle.web.dashboard.app import dashboard_app
from treadle.web.dashboard.security.access import Role, Visitor

__all__ = ["Role", "Visitor", "dashboard_app"]
