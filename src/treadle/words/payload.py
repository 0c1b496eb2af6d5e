"""Encodes values as JSON, and refuses those that the database would not return unchanged.

They are checked before any SQL, so that a bad value never aborts the caller's transaction. PostgreSQL's jsonb has no
NaN and no NUL character, UTF-8 has no lone surrogates, and Python does not parse integers of more than 4,300 digits.
JSON has no tuples, sets or keys that are not strings, and does not know subclasses: an IntEnum would come back as an
int. Without the check, such a value would change or fail later, far from where it was made. Values that have an
annotation are encoded by it: see attempt/round_trip.py.
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from treadle.words.errors import InvalidPayload, UndecodableJob
from treadle.words.json import Json as Json

PAYLOAD_LIMIT = 256 * 1024
EVENT_LIMIT = 64 * 1024
DEPTH_LIMIT = 100
# Python's default limit for parsing an integer (sys.set_int_max_str_digits), and a bit length that is always below it.
DIGITS_LIMIT = 4300
_SAFE_BITS = 14_000

_STORE_IT = "put the large part into app.store(…) and send the reference that it returns, or raise payload_limit"


class Encoded(NamedTuple):
    """A value that was already checked and encoded: encode() takes its text as it is."""

    text: str


def encode(value: Json, limit: int = PAYLOAD_LIMIT, name: str = "data") -> str:
    """The value as JSON text, or InvalidPayload with the path and the type of what cannot be stored."""
    if type(value) is Encoded:
        return value.text
    try:
        return write(value, check(value, limit), limit, name)
    except Refused as refused:
        raise refused.at(name) from None


def write(value: Json, exact: bool, limit: int, name: str) -> str:
    """The JSON text of a value for which check() returned `exact`."""
    data = to_json(value) if exact else _write(value).encode()
    check_size(len(data), limit, name)
    return data.decode()


def check_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise InvalidPayload(name, f"{size:,} bytes of JSON, more than the limit of {limit:,}", _STORE_IT)


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


class Refused(Exception):
    """Collects the path of the refused value while it propagates, so that a good value costs nothing extra.

    The message has the type of the value, never the value itself: errors are logged, and logs have no payloads.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self._problem = problem
        self._remedy = remedy
        self._steps: list[str] = []

    def inside(self, step: object) -> None:
        """The refused value was found at this index or key."""
        if isinstance(step, int):
            self._steps.append(f"[{step}]")
        else:
            text = str(step)
            self._steps.append(f".{text}" if text.isprintable() else f"[{text!r}]")

    def at(self, name: str) -> InvalidPayload:
        path = name + "".join(reversed(self._steps))
        path = path if len(path) <= 120 else f"{path[:60]}…{path[-50:]}"
        return InvalidPayload(path, *self.explain())

    def explain(self) -> tuple[str, str]:
        """The problem and the remedy."""
        return self._problem, self._remedy


class NotJson(Refused):
    """A type that JSON does not have. An annotation may still be able to encode it, so the sentence is made last."""

    def __init__(self, value: object) -> None:
        super().__init__("", "")
        self.value = value

    def explain(self) -> tuple[str, str]:
        value, kind = self.value, type(self.value).__name__
        plain = next((base for base in (int, float, str, list, dict) if isinstance(value, base)), None)
        if plain is not None:
            problem = f"a value of type {kind} would come back as {plain.__name__}"
            return problem, f"use {plain.__name__}(…)"
        problem = f"a value of type {kind} is not JSON and would not round-trip unchanged"
        if isinstance(value, tuple | set | frozenset):
            return problem, "use a list"
        return problem, "convert it to strings or numbers first"


def check(value: Json, limit: int, depth: int = 0) -> bool:
    """Raise Refused if the value would not be read back unchanged, with the same types; else return whether its usual
    JSON is exact. Large floats need another one: see _write."""
    kind = type(value)
    if kind is str:
        if len(value) > limit:  # found before its JSON is made, which takes twice its memory
            raise Refused(f"a text of {len(value):,} characters, more than the limit of {limit:,}", _STORE_IT)
        if not value.isascii() or "\x00" in value:
            _check_text(value)
        return True
    if kind is int:
        if value.bit_length() > _SAFE_BITS and abs(value) >= 10**DIGITS_LIMIT:
            raise Refused(
                f"an integer of more than {DIGITS_LIMIT:,} digits, which Python refuses to parse", "send it as a string"
            )
        return True
    if value is None or kind is bool:
        return True
    if kind is float:
        if not math.isfinite(value):
            raise Refused(f"{value} is not a JSON number", "send null or a string instead")
        # From 1e16 on, repr writes an exponent, and jsonb would give it back as an integer.
        return bool(-1e16 < value < 1e16)
    if kind is not dict and kind is not list:
        raise NotJson(value)
    if depth >= DEPTH_LIMIT:
        raise Refused(
            f"nested more than {DEPTH_LIMIT} levels deep",
            "flatten it, or send it as a string; it must not contain itself",
        )
    exact = True
    step: Any = None
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise Refused(
                    f"a key of type {type(key).__name__} is not a string and would not round-trip unchanged",
                    "JSON keys are strings: use str(…)",
                )
            if not key.isascii() or "\x00" in key:
                _check_text(key)
    try:
        # Most values are plain strings: they are not worth a call.
        for step, item in value.items() if kind is dict else enumerate(value):  # noqa: B007 - used where it stopped
            if type(item) is not str or len(item) > limit or not item.isascii() or "\x00" in item:
                exact = check(item, limit, depth + 1) and exact
    except Refused as refused:
        refused.inside(step)
        raise
    return exact


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            f"the character at position {error.start} is an unpaired surrogate",
            "decode the text properly, or send the bytes as base64",
        ) from None
    if "\x00" in text:
        raise Refused(
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
