"""Where stored content is kept: the option `store`."""

from dataclasses import dataclass

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.options import checked_value
from treadle.words.size import Size, size


@checked_value
@dataclass(frozen=True)
class Store:
    """Where stored content is kept, how long at least, and how large it may be."""

    url: str | None = None
    """Of a folder or an object store. By default, content is kept in the database."""
    grace: Duration = "1h"
    """Content that no job uses is deleted when it is older than this."""
    limit: Size = "2GB"
    """The largest content that can be stored."""

    def __post_init__(self) -> None:
        duration(self.grace, "grace")
        size(self.limit, "limit")


def check_store(given: object) -> Store:
    """The option: a value, or the URL alone."""
    if given is None or isinstance(given, str):
        return Store(given)
    if not isinstance(given, Store):
        raise InvalidArgument(
            f'store must be a URL or Store(…), such as Store("s3://bucket", grace="1d"), got {given!r}'
        )
    return given
