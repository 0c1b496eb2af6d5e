"""How names, sizes and statements are written in a finding. Names are stored by anyone who may enqueue: a line break in
one must not begin a line of the finding."""

import re
from collections.abc import Iterable, Sequence

from treadle.words.formatting import printable

# A quoted string begins here, and it may contain a secret.
_QUOTED = re.compile(r"'|\$\w*\$")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
STATEMENT_LENGTH = 60


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lines(texts: Sequence[str], limit: int = 5) -> str:
    """One line for each of the first texts, and how many more there are."""
    more = [f"and {len(texts) - limit:,} more"] if len(texts) > limit else []
    return "\n".join([*map(printable, texts[:limit]), *more])


def names(texts: Iterable[str]) -> str:
    """Names in one line, with commas."""
    return ", ".join(map(printable, texts))


def size(number: float) -> str:
    """Bytes as 12 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"


def abbreviated(statement: str) -> str:
    """The beginning of a statement, without anything that it quotes."""
    quoted = _QUOTED.search(statement)
    text = " ".join((statement[: quoted.start()] if quoted else statement).split())
    return f"{text[:STATEMENT_LENGTH].rstrip()} …" if quoted or len(text) > STATEMENT_LENGTH else text


def identifier(name: str) -> str:
    """An SQL identifier, quoted if it needs to be, with escapes for what is not printable."""
    if not name.isprintable():
        return 'U&"{}"'.format(_escaped(name.replace('"', '""'), "\\+{:06x}"))
    return name if _PLAIN.fullmatch(name) else '"{}"'.format(name.replace('"', '""'))


def literal(text: str) -> str:
    """An SQL string, with escapes for what is not printable."""
    if not text.isprintable():
        return "E'{}'".format(_escaped(text.replace("'", "''"), "\\U{:08x}"))
    return "'{}'".format(text.replace("'", "''"))


def _escaped(text: str, escape: str) -> str:
    doubled = text.replace("\\", "\\\\")
    return "".join(each if each.isprintable() else escape.format(ord(each)) for each in doubled)
