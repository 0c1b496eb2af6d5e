"""What came with a request: a form or JSON, not too much of it, and not too slowly."""

import asyncio
import re
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request

Form: TypeAlias = dict[str, list[str]]

# Ids of a chunk, and filters.
BODY_LIMIT = 200_000
BODY_SECONDS = 10.0
FIELDS = 2000


async def read_body(request: Request) -> tuple[Form, Any]:
    """The form, and the JSON; of another kind nothing is read."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _form(await _bytes(request)), None
    if kind == "application/json":
        return {}, _json(await _bytes(request))
    return {}, None


async def _bytes(request: Request) -> bytes:
    said = request.headers.get("content-length", "0")
    # What is longer than nine digits is too long, whatever it says.
    if re.fullmatch(r"[0-9]{1,9}", said, re.ASCII) is None or int(said) > BODY_LIMIT:
        raise _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > BODY_LIMIT:
                    raise _too_long()
    except TimeoutError:
        raise HTTPException(408, f"what was sent did not come within {BODY_SECONDS:g} seconds") from None
    return bytes(body)


def _too_long() -> HTTPException:
    return HTTPException(413, f"at most {BODY_LIMIT:,} bytes can be sent")


def _form(body: bytes) -> Form:
    try:
        return parse_qs(body.decode(), max_num_fields=FIELDS)
    except ValueError:
        raise HTTPException(400, f"this form cannot be read: it must be UTF-8, with at most {FIELDS} fields") from None


def _json(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False) if body else None
    except ValueError as error:
        raise HTTPException(400, f"this is no JSON: {error}") from None
