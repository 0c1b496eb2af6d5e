"""What is known about the sessions that keep others from using the queue's tables."""

from typing import NamedTuple


class TableBlocker(NamedTuple):
    """A session, or a prepared transaction."""

    pid: int
    """0: a prepared transaction."""
    prepared: str | None
    """Its global identifier."""
    user: str | None
    application: str | None
    client: str | None
    state: str | None
    query: str | None
    seconds: float | None
    """Since its transaction began. None: this role may not see it."""
    tables: list[str]
    whole_table: bool
    """It locks a table, not only rows."""
    stops_reading: bool
    """Nobody else can even read the table."""
    waiting: int
    """How many sessions wait for it; counted up to a limit."""
    waited: float | None
    """How long the first of them has waited."""
    waits: bool
    """It waits for a lock itself: it is in the way because others wait behind it."""
    confirmed: bool = False
    """It was seen twice, some time apart."""

    @property
    def id(self) -> tuple[int, str | None]:
        return self.pid, self.prepared
