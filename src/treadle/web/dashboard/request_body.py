"""Reads the body of a request, a form or JSON, within limits of size and time."""

import asyncio
import re
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request

Form: TypeAlias = dict[str, list[str]]

# Enough for the ids of one chunk of jobs (500) and a filter.
BODY_LIMIT = 200_000
BODY_SECONDS = 10.0
MAX_FIELDS = 2000


async def read_body(request: Request) -> tuple[Form, Any]:
    """The form and the JSON value; a body of any other content type is not read."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/x-www-form-urlencoded":
        return _form(await _bytes(request)), None
    if content_type == "application/json":
        return {}, _json(await _bytes(request))
    return {}, None


async def _bytes(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    # A length of more than nine digits is refused without converting it.
    if re.fullmatch(r"[0-9]{1,9}", length, re.ASCII) is None or int(length) > BODY_LIMIT:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > BODY_LIMIT:
                    raise _too_large()
    except TimeoutError:
        raise HTTPException(408, f"the request body did not arrive within {BODY_SECONDS:g} seconds") from None
    return bytes(body)


def _too_large() -> HTTPException:
    return HTTPException(413, f"the request body must be at most {BODY_LIMIT:,} bytes")


def _form(body: bytes) -> Form:
    try:
        return parse_qs(body.decode(), max_num_fields=MAX_FIELDS)
    except ValueError:
        raise HTTPException(400, f"the form must be UTF-8 with at most {MAX_FIELDS} fields") from None


def _json(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False) if body else None
    except ValueError as error:
        raise HTTPException(400, f"the request body is not valid JSON: {error}") from None
