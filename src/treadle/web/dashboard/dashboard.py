"""The dashboard as an ASGI application: to be mounted anywhere, or served by `treadle dashboard`."""

from starlette.applications import Starlette
from starlette.middleware import Middleware

from treadle.app import Treadle
from treadle.web.dashboard import api, assets, changes, entry, pages
from treadle.web.dashboard.access import Access, Authorize
from treadle.web.dashboard.health import Health
from treadle.web.dashboard.refusals import HANDLERS, Shield
from treadle.web.dashboard.routes import Rule, route


def rules(app: Treadle, access: Access | None = None) -> list[Rule]:
    """All that there is, each with the role that it asks for. The way in is only for who has secrets of ours."""
    way_in = [] if access is None else entry.rules(access)
    doctor = Health(app)
    return [*assets.rules(), *way_in, *pages.rules(app, doctor), *changes.rules(app), *api.rules(app, doctor)]


def dashboard_app(app: Treadle, *, authorize: Authorize | None = None) -> Starlette:
    """For an ASGI application: `mount("/queue", dashboard_app(app, authorize=…))`.

    `authorize` says who a visitor is: a function of the request (async or not) that returns a Visitor, or None for
    nobody. Left out, visitors need a secret: TREADLE_DASHBOARD_VIEWER or TREADLE_DASHBOARD_OPERATOR of the environment;
    if there is none, nobody is let in.
    """
    access = Access.from_environment() if authorize is None else None
    ask = authorize or access
    assert ask is not None  # noqa: S101 - for the type checker
    served = Starlette(
        routes=[route(rule, ask, has_login=access is not None) for rule in rules(app, access)],
        middleware=[Middleware(Shield)],
        exception_handlers=HANDLERS,
    )
    # It would answer by itself, before the gate, with an address made of the header Host.
    served.router.redirect_slashes = False
    return served
