"""Conditions on values in payloads: data.order = "ORD-1999", data.customer.id = 7, data.note exists."""

import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

from treadle.words.errors import InvalidArgument, shown
from treadle.words.masking import masked

LONGEST = 500
_STEP = r'\.(?:[^\s."=\[\]]+|"(?:[^"\\]|\\.)*")'
_CONDITION = re.compile(rf"data(?P<path>(?:{_STEP})+)\s*(?:(?P<exists>exists)|=\s*(?P<value>.+))", re.DOTALL)
_BARE = re.compile(r'[^\s."=\[\]]+')
_EXAMPLES = 'data.order = "ORD-1999", data.customer.id = 7, data.paid = true or data.note exists'
# Larger numbers are refused by PostgreSQL.
_MOST_DIGITS = 300
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


class PayloadCondition(NamedTuple):
    """A value in the payload, by its path, equals a JSON value; or there is one."""

    path: tuple[str, ...]
    value: str | None
    """JSON; None: any value."""

    @classmethod
    def read(cls, text: str) -> "PayloadCondition":
        if len(text) > LONGEST:
            raise InvalidArgument(f"a payload condition has at most {LONGEST} characters, got {len(text)}")
        parts = _CONDITION.fullmatch(text.strip())
        if parts is None:
            raise InvalidArgument(f"expected a payload condition such as {_EXAMPLES}, got {shown(text)}")
        path = tuple(_step(each) for each in re.findall(_STEP, parts["path"]))
        if parts["exists"]:
            return cls(path, None)
        for name in path:
            # Whoever could ask for equal values could find a secret by guessing.
            if masked({name: 0}) != {name: 0}:
                raise InvalidArgument(
                    f"values of {shown(name)} are masked as secrets, so jobs can be selected only by whether there "
                    f"is one: data.{name} exists"
                )
        return cls(path, _value(parts["value"]))

    def __str__(self) -> str:
        steps = (each if _BARE.fullmatch(each) else json.dumps(each, ensure_ascii=False) for each in self.path)
        return f"data.{'.'.join(steps)} " + ("exists" if self.value is None else f"= {self.value}")

    def index_statement(self, schema: str) -> str:
        """The statement that creates the index that find_jobs() uses: see has_payload_index.sql."""
        steps = ",".join(_quoted(each, '"', "\\") for each in self.path)
        path = "data #> '{" + steps.replace("'", "''") + "}'"
        owner = schema if _PLAIN.fullmatch(schema) else _quoted(schema, '"', '"')
        return (
            f"create index concurrently on {owner}.jobs (jsonb_hash_extended({path}, 0), id) where {path} is not null;"
        )


def _quoted(text: str, quote: str, escape: str) -> str:
    """In quotes; plain words of a path need none."""
    if quote != escape and _PLAIN.fullmatch(text) and text != "null":
        return text
    escaped = text.replace(escape, escape * 2)
    return f"{quote}{escaped if quote == escape else escaped.replace(quote, escape + quote)}{quote}"


def _step(text: str) -> str:
    if not text.startswith('."'):
        return _storable(text[1:])
    return _storable(str(_json(text[1:])))


def _value(text: str) -> str:
    _check_numbers(_json(text))
    return _storable(text.strip())


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError, ArithmeticError):
        raise InvalidArgument(
            f"the value of a payload condition must be JSON, with texts in double quotes, such as {_EXAMPLES}, "
            f"got {shown(text)}"
        ) from None


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
