"""Conditions on values in payloads: data.order = "ORD-1999", data.customer.id = 7, data.note exists.

Several of them are joined with `and`: all must hold."""

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from treadle.text.masking import masked
from treadle.words.errors import InvalidArgument, shown
from treadle.words.payload_condition import PayloadCondition

LONGEST = 500
MOST = 5
_STEP = r'\.(?:[^\s."=\[\]]+|"(?:[^"\\]|\\.)*")'
# How a condition begins: its value follows, or the next one, or nothing.
_CONDITION = re.compile(rf"data(?P<path>(?:{_STEP})+)\s*(?:(?P<exists>exists)(?=\s|$)|=\s*(?=\S))")
_AND = re.compile(r"\s+and\s+(?=data\.)")
_EXAMPLES = 'data.order = "ORD-1999", data.customer.id = 7, data.paid = true or data.note exists'
# Larger numbers are refused by PostgreSQL.
_MOST_DIGITS = 300
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


def read_payload_condition(text: str) -> PayloadCondition:
    if len(text) > LONGEST:
        raise InvalidArgument(f"a payload condition has at most {LONGEST} characters, got {len(text)}")
    found: list[PayloadCondition] = []
    rest = text.strip()
    while not found or rest:
        condition, rest = _first(rest)
        found.append(condition)
    if len(found) > MOST:
        raise InvalidArgument(f"a job can be selected by at most {MOST} payload conditions, got {len(found)}")
    return found[0]._replace(also=tuple(found[1:]))


def index_statement(condition: PayloadCondition, schema: str) -> str:
    """The statement that creates the index that find_jobs() uses: see has_payload_index.sql."""
    steps = ",".join(_quoted(each, '"', "\\") for each in condition.path)
    path = "data #> '{" + steps.replace("'", "''") + "}'"
    owner = schema if _PLAIN.fullmatch(schema) else _quoted(schema, '"', '"')
    return f"create index concurrently on {owner}.jobs (jsonb_hash_extended({path}, 0), id) where {path} is not null;"


def _first(text: str) -> tuple[PayloadCondition, str]:
    """The first condition, and the text of those that follow."""
    parts = _CONDITION.match(text)
    if parts is None:
        raise InvalidArgument(f"expected a payload condition such as {_EXAMPLES}, got {shown(text)}")
    path = tuple(_step(each) for each in re.findall(_STEP, parts["path"]))
    if parts["exists"]:
        end, condition = parts.end(), PayloadCondition(path, None)
    else:
        value, end = _json(text, parts.end())
        _check_secrets(path, value)
        _check_numbers(value)
        condition = PayloadCondition(path, _storable(text[parts.end() : end].strip()))
    following = _AND.match(text, end)
    if following is None and text[end:].strip():
        if parts["exists"]:
            raise InvalidArgument(f"expected a payload condition such as {_EXAMPLES}, got {shown(text)}")
        raise _not_json(text[parts.end() :])
    return condition, text[following.end() :] if following else ""


def _quoted(text: str, quote: str, escape: str) -> str:
    """In quotes; plain words of a path need none."""
    if quote != escape and _PLAIN.fullmatch(text) and text != "null":
        return text
    escaped = text.replace(escape, escape * 2)
    return f"{quote}{escaped if quote == escape else escaped.replace(quote, escape + quote)}{quote}"


def _check_secrets(path: Sequence[str], value: Any) -> None:
    """Whoever could ask for equal values could find a secret by guessing."""
    for name in path:
        if masked({name: 0}) != {name: 0}:
            raise InvalidArgument(
                f"values of {shown(name)} are masked as secrets, so jobs can be selected only by whether there "
                f"is one: data.{name} exists"
            )
    if masked(value) != value:
        raise InvalidArgument("parts of this value are masked as secrets, so jobs cannot be selected by it")


def _step(text: str) -> str:
    if not text.startswith('."'):
        return _storable(text[1:])
    return _storable(str(_json(text, 1)[0]))


def _json(text: str, start: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    try:
        return json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse).raw_decode(text, start)
    except (ValueError, RecursionError, ArithmeticError):
        raise _not_json(text[start:]) from None


def _not_json(text: str) -> InvalidArgument:
    return InvalidArgument(
        f"the value of a payload condition must be JSON, with texts in double quotes, such as {_EXAMPLES}, "
        f"got {shown(text)}"
    )


def _refuse(name: str) -> None:
    raise ValueError(name)


def _check_numbers(value: Any) -> None:
    if (
        isinstance(value, Decimal | int)
        and not isinstance(value, bool)
        and abs(Decimal(value).adjusted()) > _MOST_DIGITS
    ):
        raise InvalidArgument(f"a number in a payload condition has at most {_MOST_DIGITS} digits")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_numbers(each)


def _storable(text: str) -> str:
    """PostgreSQL stores neither the character NUL nor halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("a payload condition must be valid Unicode") from None
    if "\0" in text or re.search(r"(?<!\\)(?:\\\\)*\\u(0000|[dD][89a-fA-F])", text):
        raise InvalidArgument("a payload condition must not contain NUL characters or surrogates")
    return text
