"""What looks like a secret is not shown: by the name of its key, and passwords inside of URLs."""

import re

from treadle.words.json import Json

MASK = "********"

# Anywhere in a key, whatever stands between its words: apiKey, API-KEY and x_api_key are one.
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
# Only as a word of its own: discard, author and className are no secrets.
_WORDS = {"auth", "card", "cards", "cvc", "cvv", "iban", "ibans", "jwt", "otp", "pin", "pwd", "ssn"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
# The text was cut within a password; a port is none.
_CUT_URL = re.compile(r"(://[^/\s:@\[]*:)(?!\d{1,5}[^\w@]*(?:…|$))[^/\s@]+?(?=…|$)", re.MULTILINE)


def is_secret(key: str) -> bool:
    """Whether a value of this name is better not shown."""
    words = [word.lower() for word in _WORD.findall(key)]
    squashed = "".join(words)
    return any(part in squashed for part in _PARTS) or not _WORDS.isdisjoint(words)


def masked(value: Json) -> Json:
    """The same value, with a mask in the place of what looks like a secret, however deep it lies."""
    if isinstance(value, dict):
        return {key: _hidden(item) if is_secret(key) else masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return _without_passwords(value) if isinstance(value, str) else value


def _without_passwords(text: str) -> str:
    return _CUT_URL.sub(rf"\1{MASK}", _IN_URL.sub(rf"\1{MASK}@", text)) if "://" in text else text


def _hidden(value: Json) -> Json:
    # That there is none, or whether there is one, is no secret.
    return value if value is None or isinstance(value, bool) else MASK
