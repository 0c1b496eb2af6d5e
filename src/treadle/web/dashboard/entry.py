"""The way in and out: a secret is exchanged for a signed cookie."""

import asyncio

from starlette.responses import RedirectResponse, Response

from treadle.web.dashboard.access import COOKIE, SESSION_SECONDS, Access, Role
from treadle.web.dashboard.gate import Asked, Rule
from treadle.web.dashboard.render import page
from treadle.words.phrases import printable

# Whoever guesses has to wait, and only so many may guess at once.
WRONG_SECONDS = 1.0
GUESSING = 10


def rules(access: Access) -> list[Rule]:
    guessing = asyncio.Semaphore(GUESSING)

    async def sign_in_page(asked: Asked) -> Response:
        return page(asked, "login.html", wrong=False, possible=bool(access))

    async def sign_in(asked: Asked) -> Response:
        if guessing.locked():
            return page(asked, "login.html", 429, wrong=True, possible=bool(access))
        async with guessing:
            role = access.role_of(asked.field("secret") or "")
            if role is Role.NOBODY:
                await asyncio.sleep(WRONG_SECONDS)
                return page(asked, "login.html", 403, wrong=True, possible=bool(access))
        name = printable(asked.field("name") or role.name.lower())[:100]
        answer = RedirectResponse(asked.url("/"), 303)
        answer.set_cookie(
            COOKIE,
            access.sign(role, name),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=asked.request.url.scheme == "https",
            path=asked.url("") or "/",
        )
        return answer

    async def sign_out(asked: Asked) -> Response:
        answer = RedirectResponse(asked.url("/login"), 303)
        answer.delete_cookie(COOKIE, path=asked.url("") or "/")
        return answer

    return [
        Rule("GET", "/login", sign_in_page, Role.NOBODY, "The way in"),
        Rule("POST", "/login", sign_in, Role.NOBODY, "Sign in with a secret"),
        Rule("POST", "/logout", sign_out, Role.NOBODY, "Sign out"),
    ]
