"""Sign in and sign out: a secret is exchanged for a signed session cookie."""

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from treadle.text.log import log
from treadle.web.dashboard.pages.formatting import sentence
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role, cleaned_name
from treadle.web.dashboard.security.cookies import BROWSER, SESSION, delete_cookie, set_cookie
from treadle.web.dashboard.security.role_secrets import SESSION_SECONDS, RoleSecrets
from treadle.web.dashboard.urls import local_path


def routes(secrets: RoleSecrets) -> list[RouteSpec]:
    def login_page(context: Context, status: int = 200, error: str | None = None) -> Response:
        return page(context, "login.html", status, error=error, has_secrets=bool(secrets), back=_back(context))

    async def show_login(context: Context) -> Response:
        return login_page(context)

    async def sign_in(context: Context) -> Response:
        try:
            role = await secrets.authenticate(context.request, context.field("secret") or "")
        except HTTPException as error:
            return login_page(context, error.status_code, sentence(error.detail))
        if role is Role.NOBODY:
            log.warning("dashboard: sign-in with a wrong secret from %s", _address(context))
            return login_page(context, 403, "Wrong secret.")
        name = cleaned_name(context.field("name") or "", role)
        log.info("dashboard: %s signed in as %s from %s", name, role.name.lower(), _address(context))
        response = RedirectResponse(context.url(_back(context) or "/"), 303)
        set_cookie(context.request, response, SESSION, secrets.sign_session(role, name), SESSION_SECONDS)
        return response

    async def sign_out(context: Context) -> Response:
        response = RedirectResponse(context.url("/login"), 303)
        delete_cookie(context.request, response, SESSION)
        delete_cookie(context.request, response, BROWSER)
        return response

    return [
        RouteSpec("GET", "/login", show_login, Role.NOBODY),
        RouteSpec("POST", "/login", sign_in, Role.NOBODY),
        RouteSpec("POST", "/logout", sign_out, Role.NOBODY),
    ]


def _back(context: Context) -> str | None:
    return local_path(context.field("back"))


def _address(context: Context) -> str:
    return context.request.client.host if context.request.client else "an unknown address"
