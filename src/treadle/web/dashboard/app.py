"""The dashboard as an ASGI application: mount it in your own, or serve it with `treadle dashboard`."""

from starlette.applications import Starlette
from starlette.middleware import Middleware

from treadle.app.treadle import Treadle
from treadle.db.queries.overview import find_unhealthy_workers
from treadle.web.dashboard import assets, metrics
from treadle.web.dashboard.api import changes, reads
from treadle.web.dashboard.api.endpoints import with_description
from treadle.web.dashboard.errors import HANDLERS, ErrorShield
from treadle.web.dashboard.health import HealthCheck
from treadle.web.dashboard.pages import (
    audit,
    error_groups,
    forms,
    health,
    job,
    jobs,
    limits,
    login,
    overview,
    places,
    schedules,
    workers,
    workflows,
)
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.shared import SharedReads
from treadle.web.dashboard.routes import RouteSpec, build_route
from treadle.web.dashboard.searches import Searches
from treadle.web.dashboard.security.access import Authorize
from treadle.web.dashboard.security.role_secrets import RoleSecrets


def routes(app: Treadle, secrets: RoleSecrets | None = None) -> list[RouteSpec]:
    """All routes, each with the role that it requires. Sign-in exists only if the dashboard has its own secrets."""
    check, searches = HealthCheck(app), Searches()
    readings = Readings(lambda: app.database.aread(find_unhealthy_workers()))
    shared = SharedReads(app, readings)
    return [
        *assets.routes(),
        *([] if secrets is None else login.routes(secrets)),
        *overview.routes(app, readings, shared, check),
        *jobs.routes(app, searches, readings),
        *job.routes(app, readings),
        *error_groups.routes(app, readings),
        *schedules.routes(app, readings),
        *limits.routes(app, readings),
        *places.routes(app, readings, shared),
        *workflows.routes(app, readings),
        *workers.routes(app, readings),
        *audit.routes(app, readings),
        *health.routes(check, readings),
        *metrics.routes(app),
        *forms.routes(app),
        *with_description([*reads.routes(app, check, searches), *changes.routes(app)]),
    ]


def dashboard_app(app: Treadle, *, authorize: Authorize | None = None) -> Starlette:
    """An ASGI application to mount in your own: `mount("/queue", dashboard_app(app, authorize=…))`.

    `authorize` identifies the visitor: a function of the request (async or not) that returns a Visitor, or None to deny
    access. Without it, visitors need one of the secrets in the environment, TREADLE_DASHBOARD_VIEWER or
    TREADLE_DASHBOARD_OPERATOR; if neither is set, access is denied.
    """
    secrets = RoleSecrets.from_environment() if authorize is None else None
    identify = authorize or secrets
    assert identify is not None  # noqa: S101 - for the type checker
    built = Starlette(
        routes=[build_route(route, identify, has_login=secrets is not None) for route in routes(app, secrets)],
        middleware=[Middleware(ErrorShield)],
        exception_handlers=HANDLERS,
    )
    # Starlette would redirect before access is checked, to an address that it builds from the Host header.
    built.router.redirect_slashes = False
    return built
