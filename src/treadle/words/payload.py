"""Encodes values as JSON, and refuses those that the database would not return unchanged.

They are checked before any SQL, so that a bad value never aborts the caller's transaction. PostgreSQL's jsonb has no
NaN and no NUL character, UTF-8 has no lone surrogates, and Python does not parse integers of more than 4,300 digits.
Without the check, such a value would change or fail later, far from where it was made.
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from treadle.words.errors import InvalidPayload, UndecodableJob
from treadle.words.json import Json as Json

PAYLOAD_LIMIT = 256 * 1024
EVENT_LIMIT = 64 * 1024
DEPTH_LIMIT = 100
# Python's default limit for parsing an integer (sys.set_int_max_str_digits), and a bit length that is always below it.
DIGITS_LIMIT = 4300
_SAFE_BITS = 14_000

ERROR_LIMIT = 16 * 1024


def encode(value: Json, limit: int = PAYLOAD_LIMIT, name: str = "data") -> str:
    """The value as JSON text, or InvalidPayload with the path of what cannot be stored."""
    try:
        text = to_json(value).decode() if _check(value, 0) else _write(value)
    except _Refused as refused:
        raise InvalidPayload(refused.path(name), refused.problem, refused.remedy) from None
    # A character is at most four bytes: most payloads need not be encoded to be measured.
    if len(text) * 4 > limit and (size := len(text.encode())) > limit:
        raise InvalidPayload(
            name,
            f"{size:,} bytes of JSON, more than the limit of {limit:,}",
            "put the large part into app.store(…) and send the reference that it returns, or raise payload_limit",
        )
    return text


def encode_any(value: Any, limit: int, name: str) -> str:
    """As encode, for everything that pydantic can turn into JSON: datetimes, UUIDs, Decimals, dataclasses, models."""
    try:
        return encode(to_jsonable_python(value), limit, name)
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise InvalidPayload(
            name, f"a value that is not JSON: {error}", "convert it to strings or numbers first"
        ) from None


def encode_many(values: Iterable[Json], limit: int = PAYLOAD_LIMIT, name: str = "data") -> list[str]:
    """Each value as JSON text; if one cannot be stored, InvalidPayload says which."""
    texts: list[str] = []
    try:
        texts.extend(encode(value, limit, "") for value in values)
    except InvalidPayload as refused:
        path = refused.path if not refused.path or refused.path[0] in ".[" else f" {refused.path}"
        raise InvalidPayload(f"{name}[{len(texts)}]{path}", refused.problem, refused.remedy) from None
    return texts


def decode(text: str) -> Json:
    """JSON text from the database as a value."""
    try:
        return from_json(text)
    except ValueError as error:
        raise UndecodableJob(f"the payload cannot be decoded: {error}") from error


def clean_error(error: object, limit: int = ERROR_LIMIT) -> str:
    """A text that can always be stored: recording a failure must never itself fail."""
    try:
        text = str(error)
        if isinstance(error, BaseException):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    except Exception:  # an exception whose __str__ raises still has a class
        text = f"{type(error).__name__} (its message could not be read)"
    text = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
    return text


class _Refused(Exception):
    """Collects the path of the refused value while it propagates, so that a good value costs nothing extra."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.steps: list[str] = []

    def path(self, name: str) -> str:
        path = name + "".join(reversed(self.steps))
        return path if len(path) <= 120 else f"{path[:60]}…{path[-50:]}"


def _check(value: Json, depth: int) -> bool:
    """Raise if the value cannot be stored; else return whether plain JSON of it is read back unchanged."""
    if isinstance(value, str):
        _check_text(value)
        return True
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int):
        if value.bit_length() > _SAFE_BITS and abs(value) >= 10**DIGITS_LIMIT:
            raise _Refused(
                f"an integer of more than {DIGITS_LIMIT:,} digits, which Python refuses to parse", "send it as a string"
            )
        return True
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Refused(f"{value} is not a JSON number", "send null or a string instead")
        # From 1e16 on, repr writes an exponent, and jsonb would give it back as an integer.
        return abs(value) < 1e16
    if depth >= DEPTH_LIMIT:
        raise _Refused(f"nested more than {DEPTH_LIMIT} levels deep", "flatten it, or send it as a string")
    if isinstance(value, dict):
        return _check_dict(value, depth)
    if isinstance(value, list):
        exact = True
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - used where it stopped
                exact = _check(item, depth + 1) and exact
        except _Refused as refused:
            refused.steps.append(f"[{index}]")
            raise
        return exact
    remedy = "use a list" if isinstance(value, tuple | set | frozenset) else "convert it to strings or numbers first"
    raise _Refused(f"a value of type {type(value).__name__} is not JSON and would not round-trip unchanged", remedy)


def _check_dict(value: dict[Any, Json], depth: int) -> bool:
    exact = True
    key: Any
    for key in value:
        if not isinstance(key, str):
            raise _Refused(f"the key {key!r} is not a string", "JSON keys are strings: use str(…)")
        _check_text(key)
    try:
        for key, item in value.items():  # noqa: B007 - used where it stopped
            exact = _check(item, depth + 1) and exact
    except _Refused as refused:
        refused.steps.append(f".{key}")
        raise
    return exact


def _check_text(text: str) -> None:
    if text.isascii():
        if "\x00" not in text:
            return
    else:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _Refused(
                f"{text[error.start]!r} at position {error.start} is an unpaired surrogate, not a character",
                "decode the text properly, or send the bytes as base64",
            ) from None
        if "\x00" not in text:
            return
    raise _Refused(
        f"a NUL character at position {text.index(chr(0))}, which PostgreSQL cannot store",
        "remove it, or send the bytes as base64",
    )


def _write(value: Json) -> str:
    """JSON in which large floats have a fraction, so that they are read back as floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write(key)}:{_write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, float) and abs(value) >= 1e16:
        return f"{Decimal(repr(float(value))):f}.0"
    return to_json(value).decode()
