"""Who is signed in: a cookie that the application signs. A real shop has users and hashed passwords in a table."""

import secrets
from typing import Annotated, NamedTuple

from fastapi import Depends, HTTPException, Request
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from treadle.web import Role, Visitor


class User(NamedTuple):
    name: str
    password: str
    is_staff: bool


USERS = {user.name: user for user in (User("ada", "countess", is_staff=True), User("bob", "builder", is_staff=False))}


def sign_in(request: Request, name: str, password: str) -> None:
    user = USERS.get(name)
    if user is None or not secrets.compare_digest(user.password, password):
        raise HTTPException(401, "wrong name or password")
    request.session["user"] = user.name


def signed_in(connection: HTTPConnection) -> User | None:
    return USERS.get(connection.session.get("user", ""))


def require_user(request: Request) -> User:
    user = signed_in(request)
    if user is None:
        raise HTTPException(401, "sign in first")
    return user


CurrentUser = Annotated[User, Depends(require_user)]


def authorize(connection: HTTPConnection) -> Visitor | None:
    """For the dashboard: the staff may change jobs, nobody else may see it."""
    user = signed_in(connection)
    return Visitor(Role.OPERATOR, user.name) if user is not None and user.is_staff else None


class SignedInOnly:
    """Around an application that has no authentication. The dependencies of FastAPI do not apply to what is mounted."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if signed_in(HTTPConnection(scope)) is None:
            await JSONResponse({"detail": "sign in first"}, 401)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
