"""Finds secrets in text: passwords in URLs, pairs such as `password=…` or `"api_key": "…"`, and credentials in headers.

The text may be hostile, and it is masked on the event loop, so every character is read a fixed number of times: all
repetitions are possessive, and what was once read as a value is never read again.
"""

import re
from collections.abc import Callable
from functools import lru_cache

MASK = "********"
# How far back the names of the columns of a key are searched.
COLUMNS_LENGTH = 1000

_URL = re.compile(r"(?:://|%3A%2F%2F)\S++", re.IGNORECASE)
_PORT = re.compile(r"\d{1,5}(?:[/?#,]|[^\w@]*(?:…|$))")
# A name, perhaps quoted or an index in brackets, and what separates it from its value. Not `==`, `::` or the `://` of a
# URL.
_PAIR = re.compile(r"(?<![\w.\-])([\w.\-]++)(\\?[\"']?)(?:\]|%5[Dd])?[ \t]*+(=>|:=|[:=](?![:=]|//))[ \t]*+")
# A list or tuple of a quoted name and a quoted value.
_ITEM = re.compile(
    r"""[(\[][ \t]*+[bru]?(["'])([\w.\-]++)\1,[ \t]*+[bru]?"""
    r"""(?:"((?:[^"\\\n]++|\\.)*+)"|'((?:[^'\\\n]++|\\.)*+)')[ \t]*+[)\]]"""
)
_PLAIN_WORD = re.compile(r"[A-Za-z_.\-]*")
_FLAG = re.compile(r"(?<![\w\-])--([A-Za-z][\w\-]*+)[ \t]++(?=[^\s\-])")
_BEARER = re.compile(r"\b(bearer[ \t]++)([\w.~+/=\-]++)", re.IGNORECASE)
_SCHEME = re.compile(r"(?:bearer|basic|digest|negotiate|token|apikey)[ \t]++", re.IGNORECASE)
_OPENING_QUOTE = re.compile(r"""\\?[bru]?["']""", re.IGNORECASE)
_TRIPLE_QUOTED = re.compile(r"[bru]?(\"{3}|'{3})", re.IGNORECASE)
# In SQL within a string of SQL, quotes are doubled.
_DOUBLE_QUOTED = re.compile(r"""''([^\s'",;:.)\]}>][^'\n]*+)|""([^\s'",;:.)\]}>][^"\n]*+)""")
# Up to the closing quote. A backslash or another quote in front of a quote makes it a part of the value.
_QUOTED = (
    re.compile(r"""[bru]?"((?:[^"\\\n]++|\\.|"")*+)"""),
    re.compile(r"""[bru]?'((?:[^'\\\n]++|\\.|'')*+)"""),
)
# The same within a quoted text. There, a quote within the value has three backslashes.
_ESCAPED = (
    re.compile(r"""\\"((?:[^"\\\n]++|\\\\\\.|\\\\|\\[^"\\\n])*+)"""),
    re.compile(r"""\\'((?:[^'\\\n]++|\\\\\\.|\\\\|\\[^'\\\n])*+)"""),
)
_BRACKETS = re.compile(r"[\[({]|[\])}]|\n")
# An & ends it only if another pair follows, as in a URL.
# Not possessive: before Python 3.11.5, the lookahead of one that is repeated is ignored.
_WORD = re.compile(r"(?:[^\s\"'&]+|&(?![\w.\-\[\]%]*=|amp;))+")
# What may follow the quote that ends a quoted text.
_AFTER_QUOTE = re.compile(r"[\s\"',;:.)\]}>\\]|$")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The rest of a line; if it is quoted, up to the closing quote.
_HEADER = {
    "": re.compile(r"[^\n]++"),
    '"': re.compile(r"""(?:[^"\\\n]++|\\.)++"""),
    "'": re.compile(r"""(?:[^'\\\n]++|\\.)++"""),
}
_DIGEST = re.compile(r"digest[ \t]", re.IGNORECASE)
# Keys whose value in a header is the rest of the line.
_HEADERS = ("authorization", "cookie")
# After a colon, prose is as likely as a value. Of these keys a value is expected.
_STRONG = ("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey", "privatekey")
# Whether a secret is set is not itself a secret, and annotations in source lines are none.
_HARMLESS = {
    *("", "None", "none", "null", "nil", "True", "true", "False", "false"),
    *("str", "bytes", "int", "float", "bool", "dict", "list", "Any", "Optional", "SecretStr", "object"),
}


def without_secrets(text: str, is_secret: Callable[[str], bool]) -> str:
    """The text with every secret in it masked; `is_secret` says whether the value of a key is one."""
    if "://" in text or "%2F%2F" in text or "%2f%2f" in text:
        text = _URL.sub(_without_passwords, text)
    if "=" in text or ":" in text:
        text = _without_values(text, _PAIR, is_secret)
    if ")=(" in text:
        text = _without_columns(text, is_secret)
    if "'," in text or '",' in text:
        text = _without_items(text, is_secret)
    if "--" in text:
        text = _without_values(text, _FLAG, is_secret)
    if "earer" in text or "EARER" in text:
        text = _BEARER.sub(_without_token, text)
    return text


# URLs


def _without_passwords(found: re.Match[str]) -> str:
    """The text from a :// to the next space. It may contain several URLs."""
    text = found[0]
    at_end = found.end() == len(found.string) or found.string[found.end()] == "\n"
    text = _each_authority(text, "://", ":", "@", "/?#", at_end)
    if "%3a%2f%2f" in text.lower():
        text = _each_authority(text, "%3a%2f%2f", "%3a", "%40", "/?#&", at_end)
    return text


def _each_authority(text: str, scheme: str, colon: str, at: str, ends: str, at_end: bool) -> str:
    lower = text.lower()
    parts: list[str] = []
    begin = 0
    while begin < len(text):
        end = lower.find(scheme, begin)
        end = len(text) if end < 0 else end + len(scheme)
        piece, lowered = text[begin:end], lower[begin:end]
        parts.append(piece if begin == 0 else _authority(piece, lowered, colon, at, ends, at_end and end == len(text)))
        begin = end
    return "".join(parts)


def _authority(text: str, lower: str, colon: str, at: str, ends: str, at_end: bool) -> str:
    """`user:password@host/path`, in which the password may contain what a URL would have to escape."""
    first = lower.find(colon)
    if first < 0 or any(each in text[:first] for each in ends) or at in lower[:first]:
        return text
    begin = first + len(colon)
    stop = min((found for each in ends if (found := text.find(each, begin)) >= 0), default=len(text))
    last = lower.rfind(at, begin, stop)
    if last < 0 and not _PORT.match(text, begin):
        last = lower.find(at, begin)
    if last > begin:
        return f"{text[:begin]}{MASK}{text[last:]}"
    cut = text.find("…", begin)
    if last < 0 and (at_end or cut >= 0) and stop == len(text) and colon == ":" and "[" not in text[:first]:
        # The text was cut off within the password. A port is not one.
        cut = len(text) if cut < 0 else cut
        if cut > begin and not _PORT.match(text, begin):
            return f"{text[:begin]}{MASK}{text[cut:]}"
    return text


# Pairs


def _without_values(text: str, pattern: re.Pattern[str], is_secret: Callable[[str], bool]) -> str:
    parts: list[str] = []
    done = position = 0
    while found := pattern.search(text, position):
        position = found.end()
        if not is_secret(found[1]):
            continue
        begin, end = _value(text, found)
        if begin < end:
            parts += (text[done:begin], MASK)
            done = end
        position = max(position, end)
    return text if not parts else "".join((*parts, text[done:]))


def _value(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Where the value of this key begins and ends; both are the same if there is none to mask."""
    begin, key = found.end(), found[1]
    is_pair = found.re is _PAIR
    quoted_key, separator = (found[2], found[3]) if is_pair else ("", " ")
    squashed = _letters(key)
    if not quoted_key and _is_header(text, begin, squashed, separator):
        before = text[found.start() - 1 : found.start()]
        header = _HEADER.get(before, _HEADER[""]).match(text, begin)
        return header.span() if header else (begin, begin)
    after_scheme = _end_of_scheme(text, begin)
    if quoted := _quoted(text, begin) or _quoted(text, after_scheme):
        return _unless_harmless(text, *quoted)
    if text[begin : begin + 1] in ("[", "(", "{") and separator != " ":
        return begin, _closing(text, begin)
    word = _unquoted(text, after_scheme, found.start())
    if word is None:
        return begin, begin
    value = text[slice(*word)].rstrip(",;)]}>")
    end = word[0] + len(value)
    if value.isdigit() and "tokens" in squashed:
        return begin, begin  # how many there were
    spaced = text[begin - 1] in " \t"
    if separator in (":", " ") and not quoted_key and not _is_value(text, value, end, squashed, spaced):
        return begin, begin
    return _unless_harmless(text, begin, end)


@lru_cache(4096)
def _letters(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def _is_header(text: str, begin: int, key: str, separator: str) -> bool:
    """Whether the value is the rest of the line, in which quotes and commas separate parts of it."""
    if not any(each in key for each in _HEADERS):
        return False
    return separator == ":" or bool(_DIGEST.match(text, begin))


def _quoted(text: str, begin: int) -> tuple[int, int] | None:
    """Where the text within the quotes that open here begins and ends; None if none do."""
    if not _OPENING_QUOTE.match(text, begin):
        return None
    if opening := _TRIPLE_QUOTED.match(text, begin):
        end = text.find(opening[1], opening.end())
        if end >= 0:
            return opening.end(), end
    if doubled := _DOUBLE_QUOTED.match(text, begin):
        return doubled.span(doubled.lastindex or 0)
    for pattern in (*_ESCAPED, *_QUOTED):
        if quoted := pattern.match(text, begin):
            return quoted.span(1)
    return None


def _unquoted(text: str, begin: int, key_begin: int) -> tuple[int, int] | None:
    """Where a value without quotes begins and ends. A quote ends it if it can close a quoted text around the pair."""
    position = begin
    opened: dict[str, bool] = {}
    while True:
        if word := _WORD.match(text, position):
            position = word.end()
        quote = text[position : position + 1]
        if position == begin or quote not in ("'", '"'):
            break
        if _AFTER_QUOTE.match(text, position + 1):
            if quote not in opened:
                # The next search will go back to this quote at most, so that all searches together read the text once.
                opened[quote] = text.rfind(quote, 0, key_begin) >= 0
            if opened[quote]:
                break
        position += 1
    return (begin, position) if position > begin else None


def _is_value(text: str, value: str, end: int, key: str, spaced: bool) -> bool:
    """Whether the word after `key: ` is a value. In prose, more words follow: password: must have 8 characters. Without
    a space, it may be the identifier of something, such as the key password-reset:7 of a job."""
    if not any(each in key for each in _STRONG):
        return False
    if not spaced:
        return len(value) >= 8 and not value.isdigit() and not value.isalpha() and not _ID.fullmatch(value)
    following = text[end : end + 2]
    return following[:1] in ("", "\n", "\r", ",", ";", ")", "]", "}") or any(each.isdigit() for each in value)


def _end_of_scheme(text: str, begin: int) -> int:
    scheme = _SCHEME.match(text, begin)
    return scheme.end() if scheme else begin


def _unless_harmless(text: str, begin: int, end: int) -> tuple[int, int]:
    value = text[begin:end]
    return (begin, begin) if value in _HARMLESS or value.startswith(MASK) else (begin, end)


def _without_columns(text: str, is_secret: Callable[[str], bool]) -> str:
    """The values in a message of PostgreSQL such as: Key (id, api_token)=(7, …) already exists."""
    parts: list[str] = []
    done = 0
    while (found := text.find(")=(", done)) >= 0:
        begin = found + len(")=(")
        columns = text[_opening(text, max(done, found - COLUMNS_LENGTH), found) : found]
        parts.append(text[done:begin])
        done = begin
        if is_secret(columns):
            parts.append(MASK)
            done = _end_of_values(text, begin)
    return text if not parts else "".join((*parts, text[done:]))


def _opening(text: str, least: int, closing: int) -> int:
    """Where the bracket opens that closes here; not before `least`."""
    depth = 0
    for position in range(closing, least - 1, -1):
        depth += {")": 1, "(": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return least


def _end_of_values(text: str, begin: int) -> int:
    """The last closing bracket of the line, because the values may contain some; if there is none, the next one."""
    line_end = text.find("\n", begin)
    line_end = len(text) if line_end < 0 else line_end
    closing = text.rfind(")", begin, line_end)
    closing = text.find(")", line_end) if closing < 0 else closing
    return len(text) if closing < 0 else closing


def _without_items(text: str, is_secret: Callable[[str], bool]) -> str:
    """The values in ('Authorization', 'Basic …') and [b'cookie', b'…'], as lists of headers are shown. With ordinary
    words, as in ('password', 'email'), it is more likely a list of names."""

    def without_value(found: re.Match[str]) -> str:
        key = _letters(found[2])
        number = 3 if found[3] is not None else 4
        is_name = _PLAIN_WORD.fullmatch(found[number]) and not any(each in key for each in _HEADERS)
        if is_name or not is_secret(found[2]):
            return found[0]
        begin, end = found.start(number) - found.start(), found.end(number) - found.start()
        return f"{found[0][:begin]}{MASK}{found[0][end:]}"

    return _ITEM.sub(without_value, text)


def _closing(text: str, begin: int) -> int:
    """The end of what is in brackets, or of the line."""
    depth = 0
    for found in _BRACKETS.finditer(text, begin):
        if found[0] == "\n":
            return found.start()
        depth += 1 if found[0] in "[({" else -1
        if depth == 0:
            return found.end()
    return len(text)


def _without_token(found: re.Match[str]) -> str:
    """`Bearer` and a token; in prose, an ordinary word follows."""
    token = found[2]
    is_token = len(token) >= 20 or any(each.isdigit() for each in token) or token[1:] != token[1:].lower()
    return f"{found[1]}{MASK}" if is_token and len(token) >= 6 else found[0]
