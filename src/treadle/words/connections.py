"""The connections that Treadle opens: the option `connections`."""

from dataclasses import dataclass

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.naming import int_within
from treadle.words.options import checked_value

_MOST = 10_000


@checked_value
@dataclass(frozen=True)
class Connections:
    """The connections that Treadle opens to the database."""

    pool_size: int = 10
    """At most so many at once, for calls; the same number again for async calls."""
    connect_timeout: Duration | None = None
    """If there is no connection within this time, DatabaseUnreachable is raised. By default it is taken from
    TREADLE_CONNECT_TIMEOUT, or is 5 s."""
    statement_timeout: Duration | None = None
    """DatabaseUnreachable is raised if a statement is not answered within this time. By default it is taken from
    TREADLE_STATEMENT_TIMEOUT, or is 30 s."""
    listen_url: str | None = None
    """A second URL of the same database, for receiving notifications where the first leads to a pooler in transaction
    mode, which delivers none. By default it is taken from TREADLE_LISTEN_URL."""

    def __post_init__(self) -> None:
        int_within(self.pool_size, 1, _MOST, "pool_size")
        if self.connect_timeout is not None and not duration(self.connect_timeout, "connect_timeout"):
            raise InvalidArgument("connect_timeout must be more than 0")
        if self.statement_timeout is not None:
            duration(self.statement_timeout, "statement_timeout")


DEFAULT = Connections()


def check_connections(given: object) -> Connections:
    """The option, with its default."""
    if given is None:
        return DEFAULT
    if not isinstance(given, Connections):
        raise InvalidArgument(f"connections must be Connections(…), such as Connections(pool_size=20), got {given!r}")
    return given
