"""From where on something is worth a word. Seconds, unless it says otherwise."""

from typing import NamedTuple


class Limits(NamedTuple):
    idle_snapshot: tuple[float, float, float] = (60, 300, 3600)
    """A transaction that does nothing but hold rows back: note, warning, critical."""
    busy_snapshot: tuple[float, float, float] = (600, 1800, 6 * 3600)
    """One that works: a report, a dump."""
    held_transactions: tuple[float, float, float] = (100_000, 1_000_000, 50_000_000)
    """How many transactions somebody holds back, however long it took."""
    prepared: tuple[float, float, float] = (60, 300, 3600)
    slot_bytes: tuple[float, float, float] = (1 << 30, 10 << 30, 100 << 30)
    """The log that a slot keeps which nobody reads."""

    dead_rows: int = 100_000
    """Fewer are not worth a word, whatever the share."""
    vacuum_lag: float = 600
    """Since a table has been over its threshold, at least."""
    vacuum_busy: float = 60
    """Of every process of autovacuum, at the same table."""
    index_bytes: int = 64 << 20
    """A smaller index is not worth a word, however bloated."""
    index_factor: float = 4
    """So many times its estimated size."""

    connections: tuple[float, float, float] = (0.75, 0.85, 0.95)
    """As a share of what is allowed."""
    clock: tuple[float, float] = (2, 30)
    notifications: tuple[float, float, float] = (0.05, 0.25, 0.75)
    """How full their queue is."""
    short_timeout: float = 10
    """A statement_timeout or lock_timeout below this cuts off upkeep."""
    short_idle: float = 60

    silence: float = 30
    """Beyond a worker's lease."""
    hand_silence: float = 3600
    """Of a holder that sends no heartbeats, or sent them by hand."""
    unserved: tuple[float, float] = (60, 300)
    paused: tuple[float, float] = (3600, 86_400)
    tick: float = 60
    crashes: int = 2
    """How often a job was recovered, to be worth a word."""
    failing_head: tuple[float, float] = (600, 3600)
