"""Masks values that look like secrets: by the name of their key, and in text (secrets.py).

Everything that shows people what jobs carry uses it: the command line, `treadle top`, the API and the pages. Errors,
tracebacks and log lines are masked before they are stored or written.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

from treadle.text.secrets import MASK as MASK
from treadle.text.secrets import without_secrets

Value = TypeVar("Value")

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
_WORDS = {"auth", "card", "cards", "cvc", "cvv", "dbpass", "iban", "ibans", "jwt", "otp", "pin", "pwd", "ssn"}
# In DB_PASS and smtpPass, pass is a password; in first_pass it is not.
_NOT_PASSWORDS = {"all", "did", "each", "final", "first", "last", "next", "second", "single", "test", "third", "this"}
# Settings and connection parameters of PostgreSQL whose names only look like those of secrets, as those of timeouts do.
_SETTINGS = {
    "md5_password_warnings",
    "password_encryption",
    "password_required",
    "session_preload_libraries",
    "session_replication_role",
    "ssl_passphrase_command_supports_reload",
    "target_session_attrs",
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@lru_cache(4096)
def is_secret(key: str) -> bool:
    """Whether a value with this key should be masked."""
    words = [word.lower() for word in _WORD.findall(key)]
    if words[-1:] == ["timeout"] or key.lower() in _SETTINGS:
        return False
    squashed = "".join(words)
    return any(part in squashed for part in _PARTS) or not _WORDS.isdisjoint(words) or _ends_with_pass(words)


def _ends_with_pass(words: list[str]) -> bool:
    return len(words) > 1 and words[-1] == "pass" and words[-2] not in _NOT_PASSWORDS


def _squashed(key: str) -> str:
    return "".join(each for each in key.lower() if each.isalnum())


class Redaction:
    """What is masked in addition to what Treadle recognises: `Treadle(redaction=Redaction(keys=["customer_number"]))`.

    The values of `keys` are masked like those of `password`, regardless of case and separators. `text` is called with
    each text that is stored, logged or shown, after what Treadle masks itself, and returns what to use instead. If it
    raises an exception, the text is used without it.
    """

    def __init__(self, *, keys: Iterable[str] = (), text: Callable[[str], str] | None = None) -> None:
        self._keys = tuple(filter(None, map(_squashed, keys)))
        self._text = text

    def text(self, text: str) -> str:
        """The text with the secrets in it masked. Never raises: an error message or a log line must not be lost."""
        try:
            text = without_secrets(text, self.is_secret)
            return text if self._text is None else str(self._text(text))
        except Exception:
            return text

    def value(self, value: Any) -> Any:
        """A copy of the value, of JSON and NamedTuples, in which everything that looks like a secret is masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: _hidden(item) if self.is_secret(str(key)) else self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, tuple):
            items = [self.value(item) for item in value]
            return type(value)._make(items) if hasattr(value, "_make") else tuple(items)
        return value

    def is_secret(self, key: str) -> bool:
        return is_secret(key) or (bool(self._keys) and any(each in _squashed(key) for each in self._keys))


class _Process:
    """The redaction of this process, and whether it is applied to what is stored and logged."""

    redaction = Redaction()
    before_storing = True


def use_redaction(given: Redaction | bool) -> None:
    """From now on, use this in the whole process. False: store and log everything as it is; True: change nothing."""
    if isinstance(given, Redaction):
        _Process.redaction, _Process.before_storing = given, True
    elif not given:
        _Process.redaction, _Process.before_storing = Redaction(), False


def masked(value: Value) -> Value:
    """A copy of the value in which everything that looks like a secret is masked, at any depth, to be shown.

    It may consist of JSON and of NamedTuples. The fields of a NamedTuple are ours, so their names do not count as keys.
    """
    masked_value: Value = _Process.redaction.value(value)
    return masked_value


def redacted(value: Value) -> Value:
    """As masked(), for what is about to be stored or logged: as it is, if the application has switched that off."""
    return masked(value) if _Process.before_storing else value


def _hidden(value: Any) -> Any:
    # Whether a secret is set is not itself a secret.
    return value if value is None or isinstance(value, bool) else MASK
