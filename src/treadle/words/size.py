"""Sizes as people write them: 536870912 (bytes) or "512MB"."""

import re
from typing import TypeAlias

from treadle.words.errors import InvalidArgument

Size: TypeAlias = int | str

_UNITS = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)i?(B?)\s*", re.IGNORECASE)


def size(value: Size, name: str = "size") -> int:
    """The value in bytes. Raises InvalidArgument if it is invalid."""
    found = None
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and (match := _PATTERN.fullmatch(value)):
        found = int(float(match[1]) * _UNITS[f"{match[2].upper()}B"])
    if found is None or found < 1:
        raise InvalidArgument(f'{name} must be a number of bytes or a string such as "512MB" or "2GB", got {value!r}')
    return found
