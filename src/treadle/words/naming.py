"""Checks names and numbers before they go into columns or SQL, and makes names for workers."""

import os
import re
import socket
from uuid import uuid4

from treadle.words.errors import InvalidArgument, shown

SCHEMA = "treadle"
# How many jobs a worker can run at once.
MOST_CONCURRENCY = 10_000
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
# With the longest suffix, "_operator", the name is within PostgreSQL's limit of 63 characters.
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,53}", re.ASCII)
# NUL, line breaks, and halves of surrogate pairs.
_UNFIT = re.compile("[\x00\n\r\ud800-\udfff]")


def schema_name(name: str) -> str:
    """The name of the schema. Raises InvalidArgument if it is not a plain identifier."""
    if not _IDENTIFIER.fullmatch(name) or name.lower().startswith("pg_") or name.lower() == "information_schema":
        raise InvalidArgument(
            f"schema must be a plain identifier (letters, digits and _, not starting with a digit or pg_, "
            f"at most 63 characters), got {name!r}"
        )
    return name


def role_prefix(prefix: str) -> str:
    """The prefix of the names of the database roles. Raises InvalidArgument if they would need quotes."""
    if not _PREFIX.fullmatch(prefix) or prefix.startswith("pg_"):
        raise InvalidArgument(
            f"prefix must be lower-case letters, digits and _ (not starting with a digit or pg_, "
            f"at most 54 characters), got {shown(prefix)}"
        )
    return prefix


def text_within(value: str, limit: int, name: str) -> str:
    """The text. Raises InvalidArgument if it does not fit its column."""
    if not isinstance(value, str) or not 1 <= len(value) <= limit:
        raise InvalidArgument(f"{name} must be a string of 1 to {limit} characters, got {shown(value)}")
    if _UNFIT.search(value):
        raise InvalidArgument(
            f"{name} must not contain NUL characters, line breaks or unpaired surrogates, got {shown(value)}"
        )
    return value


def int_within(value: int, low: int, high: int, name: str) -> int:
    """The number. Raises InvalidArgument if it is not an integer of this range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgument(f"{name} must be an integer from {low:,} to {high:,}, got {value!r}")
    return int(value)


def worker_name() -> str:
    """A unique name for a worker."""
    # With a random part: containers share process ids, and two workers must never have the same name.
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid4().hex[:8]}"
