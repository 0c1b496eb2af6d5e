"""What was asked of the server, as values. Times are the server's."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple


class Server(NamedTuple):
    now: datetime
    version: int
    """As 180006."""
    user: str
    recovering: bool
    """It is a standby."""
    sees_all: bool
    """Whether others' connections are shown to us: the right of pg_read_all_stats."""
    settings: Mapping[str, str]
    """As a new connection of ours gets them, in their basic units."""
    notifications: float
    """How full their queue is, from 0 to 1."""


class Room(NamedTuple):
    """Connections against what is allowed: on the server, in the database, by the role."""

    what: str
    used: int
    ours: int
    allowed: int


class Age(NamedTuple):
    """How far a database is from having used up its transaction numbers."""

    database: str
    transactions: int
    multixacts: int


class Holder(NamedTuple):
    """Who keeps old rows from being removed."""

    kind: str
    """session, slot, prepared or standby"""
    name: str
    """The process number, or the name of the slot or the prepared transaction."""
    user: str | None
    application: str | None
    client: str | None
    state: str | None
    query: str | None
    seconds: float | None
    """How long by now, if the server knows."""
    transactions: int
    """How many have begun since."""
    here: bool
    """In this database; elsewhere it holds no rows of ours back, but what is read in the order of transactions."""


class Slot(NamedTuple):
    name: str
    kind: str
    active: bool
    catalog_transactions: int | None
    bytes: int | None
    """The log that it keeps."""
    status: str | None


class Table(NamedTuple):
    name: str
    unlogged: bool
    options: Mapping[str, str]
    rows: float
    """By the last vacuum or analyze; -1: there was none."""
    bytes: int
    live: int
    dead: int
    vacuumed: float | None
    """Seconds since the last vacuum."""
    age: float | None
    """Seconds since the schema was made."""


class Index(NamedTuple):
    name: str
    table: str
    usable: bool
    """Valid and ready."""
    rows: float
    width: float
    """Of one entry's columns, as the statistics have it."""
    bytes: int


class Trigger(NamedTuple):
    name: str
    table: str
    enabled: bool


class Function(NamedTuple):
    name: str
    digest: str
    """Of its body, by MD5."""


class Books(NamedTuple):
    """What the schema says of itself."""

    version: int
    functions: Mapping[str, str]
    """Name and digest of each as it was last applied."""


class Planned(NamedTuple):
    """An index as it should be."""

    table: str
    statement: str
    """What makes it."""


class Blueprint(NamedTuple):
    """What this version's migrations and functions make."""

    version: int
    functions: Mapping[str, str]
    bodies: Mapping[str, frozenset[str]]
    """MD5 of the bodies that are in the file of each function."""
    indexes: Mapping[str, Planned]
    triggers: Mapping[str, str]
    """Name and table."""
    options: Mapping[str, Mapping[str, str]]
    """By table."""


class Cleaning(NamedTuple):
    """One process of autovacuum."""

    table: str | None
    seconds: float | None


class Worker(NamedTuple):
    worker_id: str
    host: str | None
    pid: int | None
    started: float
    """Seconds since."""
    seen: float
    """Seconds since; less than nothing if it is in the future."""
    lease: float | None
    lost: float | None
    job_types: list[str] | None
    queues: list[str] | None
    version: str | None
    """Of Treadle; None for who sends heartbeats by hand."""
    holds: bool
    """It has jobs."""
    outdated: bool
    """It began before the schema's functions were last changed."""

    @property
    def live(self) -> bool:
        return self.lost is None and self.seen <= (600 if self.lease is None else self.lease)


class DueLane(NamedTuple):
    queue: str
    job_type: str
    priority: int
    due: float
    """Seconds that its oldest due job has waited."""


class Tick(NamedTuple):
    seconds: float | None
    """Since the last one; None: there was none yet."""
    neglected: float | None
    """Seconds since a claim that should have been followed by a tick, and was not."""


class Stray(NamedTuple):
    """A job that is held by hand."""

    id: str
    job_type: str
    worker_id: str | None
    silent: float


class Crashing(NamedTuple):
    id: str
    job_type: str
    status: str
    crashes: int
    error: str | None


class Head(NamedTuple):
    """A job that fails again and again while others with its key wait behind it."""

    id: str
    job_type: str
    key: str
    attempts: int
    max_attempts: int
    failing: float
    """Seconds since its first failure."""
    waiting: int
    """Behind it, counted up to a thousand."""
    error: str | None


class Clocks(NamedTuple):
    difference: float
    """The server's clock minus this machine's, in seconds."""
    doubt: float
    """How wrong that may be: half of the way there and back."""


class Refused(NamedTuple):
    """Instead of facts: why there are none."""

    reason: str
    denied: bool
    """A right is missing."""
    slow: bool
    """It took too long, or waited too long for a lock."""
