"""Masks values that look like secrets: by the name of their key, and passwords in URLs.

Everything that shows people what jobs carry uses it: the command line, `treadle top`, the API and the pages.
"""

import re
from typing import Any, TypeVar

Value = TypeVar("Value")

MASK = "********"

# Anywhere in a key, regardless of case and separators: apiKey, API-KEY and x_api_key.
_PARTS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "cookie",
    "credential",
    "session",
    "bearer",
    "creditcard",
    "cardnumber",
)
# Only as a whole word: discard, author and className are not secrets.
_WORDS = {"auth", "card", "cards", "cvc", "cvv", "iban", "ibans", "jwt", "otp", "pin", "pwd", "ssn"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
# The text was cut off within a password. A port is not one.
_CUT_URL = re.compile(r"(://[^/\s:@\[]*:)(?!\d{1,5}[^\w@]*(?:…|$))[^/\s@]+?(?=…|$)", re.MULTILINE)


def is_secret(key: str) -> bool:
    """Whether a value with this key should be masked."""
    words = [word.lower() for word in _WORD.findall(key)]
    squashed = "".join(words)
    return any(part in squashed for part in _PARTS) or not _WORDS.isdisjoint(words)


def masked(value: Value) -> Value:
    """A copy of the value in which everything that looks like a secret is masked, at any depth.

    It may consist of JSON and of NamedTuples. The fields of a NamedTuple are ours, so their names do not count as keys.
    """
    masked_value: Value = _masked(value)
    return masked_value


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _without_passwords(value)
    if isinstance(value, dict):
        return {key: _hidden(item) if is_secret(str(key)) else _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, tuple):
        items = [_masked(item) for item in value]
        return type(value)._make(items) if hasattr(value, "_make") else tuple(items)
    return value


def _without_passwords(text: str) -> str:
    return _CUT_URL.sub(rf"\1{MASK}", _IN_URL.sub(rf"\1{MASK}@", text)) if "://" in text else text


def _hidden(value: Any) -> Any:
    # Whether a secret is set is not itself a secret.
    return value if value is None or isinstance(value, bool) else MASK
