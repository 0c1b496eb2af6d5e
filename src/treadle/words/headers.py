"""The headers of a job: named strings that are stored with it, for middleware."""

import json
from collections.abc import Mapping

from treadle.words.errors import InvalidArgument

# In bytes of JSON. They are read with every claim.
HEADERS_LIMIT = 8192


def encode_headers(headers: Mapping[str, str] | None) -> str | None:
    """As JSON; None if there are none."""
    if not headers:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidArgument(f'headers must map names to strings, such as {{"tenant": "acme"}}, got {headers!r}')
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            # Not the value, which may be a secret.
            kind = type(value).__name__
            raise InvalidArgument(
                f'headers must map names to strings, such as {{"tenant": "acme"}}, got {name!r}: {kind}'
            )
    text = json.dumps(dict(headers), ensure_ascii=False)
    if any("\0" in each for item in headers.items() for each in item) or not _is_utf8(text):
        raise InvalidArgument("headers must be valid text without the character \\0, which PostgreSQL cannot store")
    if (size := len(text.encode())) > HEADERS_LIMIT:
        raise InvalidArgument(f"headers must be at most {HEADERS_LIMIT:,} bytes as JSON, got {size:,}: use an argument")
    return text


def read_headers(text: str) -> dict[str, str]:
    """What is not text was written by other means, and is left out."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str)}


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
