"""The way in and out: a secret is exchanged for a signed cookie."""

import logging

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from treadle.web.dashboard.access import SESSION_SECONDS, Access, Role, cleaned
from treadle.web.dashboard.cookies import BROWSER, SESSION, forget, keep
from treadle.web.dashboard.render import page
from treadle.web.dashboard.roots import own_path
from treadle.web.dashboard.routes import Asked, Rule

log = logging.getLogger("treadle")


def rules(access: Access) -> list[Rule]:
    def form(asked: Asked, status: int = 200, wrong: str | None = None) -> Response:
        return page(asked, "login.html", status, wrong=wrong, possible=bool(access), back=_back(asked))

    async def sign_in_page(asked: Asked) -> Response:
        return form(asked)

    async def sign_in(asked: Asked) -> Response:
        try:
            role = await access.guess(asked.request, asked.field("secret") or "")
        except HTTPException as error:
            return form(asked, error.status_code, error.detail)
        if role is Role.NOBODY:
            log.warning("a wrong secret for the dashboard came from %s", _address(asked))
            return form(asked, 403, "That secret is not known here.")
        name = cleaned(asked.field("name") or "", role)
        log.info("%s signed in to the dashboard as %s from %s", name, role.name.lower(), _address(asked))
        answer = RedirectResponse(asked.url(_back(asked) or "/"), 303)
        keep(asked.request, answer, SESSION, access.sign(role, name), SESSION_SECONDS)
        return answer

    async def sign_out(asked: Asked) -> Response:
        answer = RedirectResponse(asked.url("/login"), 303)
        forget(asked.request, answer, SESSION)
        forget(asked.request, answer, BROWSER)
        return answer

    return [
        Rule("GET", "/login", sign_in_page, Role.NOBODY, "The way in"),
        Rule("POST", "/login", sign_in, Role.NOBODY, "Sign in with a secret"),
        Rule("POST", "/logout", sign_out, Role.NOBODY, "Sign out"),
    ]


def _back(asked: Asked) -> str | None:
    return own_path(asked.field("back"))


def _address(asked: Asked) -> str:
    return asked.request.client.host if asked.request.client else "an unknown address"
