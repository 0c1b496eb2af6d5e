"""Roles and visitors. Access is denied by default: a visitor without a role can only open the sign-in page."""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from starlette.requests import HTTPConnection

from treadle.words.formatting import printable


class Role(IntEnum):
    """Each role includes the rights of the ones before it."""

    NOBODY = 0
    VIEWER = 1
    """May see everything except payloads, results and checkpoints."""
    OPERATOR = 2
    """May see everything and make changes."""


class Visitor(NamedTuple):
    role: Role
    name: str
    by_token: bool = False
    """Identified by something that a browser does not send by itself, so that cross-site request forgery is
    impossible."""
    signed_in: bool = False
    """Signed in with the dashboard's own form, and can therefore sign out."""

    @property
    def actor(self) -> str:
        """Who made a change, for the audit."""
        return f"dashboard:{self.name}"


NOBODY = Visitor(Role.NOBODY, "nobody")

Authorize: TypeAlias = Callable[[HTTPConnection], Visitor | Awaitable[Visitor | None] | None]


def cleaned_name(name: str, role: Role) -> str:
    """A visitor's name as it is written to the audit: printable, on one line, never empty."""
    return printable(name)[:100].strip() or role.name.lower()
