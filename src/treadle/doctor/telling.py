"""Names, amounts and statements of others in a sentence."""

import re
from collections.abc import Sequence

# Where something quoted begins: from there on a statement may hold secrets.
_QUOTED = re.compile(r"'|\$\w*\$")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
SHOWN = 60


def several(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lines(texts: Sequence[str], most: int = 5) -> str:
    """A line each, of the first of them, and how many there are beyond."""
    beyond = [f"and {len(texts) - most:,} more"] if len(texts) > most else []
    return "\n".join([*texts[:most], *beyond])


def amount(number: float) -> str:
    """Bytes as 12 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"


def beginning(statement: str) -> str:
    """The first words of a statement, and nothing that it quotes."""
    quoted = _QUOTED.search(statement)
    text = " ".join((statement[: quoted.start()] if quoted else statement).split())
    return f"{text[:SHOWN].rstrip()} …" if quoted or len(text) > SHOWN else text


def identifier(name: str) -> str:
    """As SQL wants it."""
    return name if _PLAIN.fullmatch(name) else '"{}"'.format(name.replace('"', '""'))


def literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
