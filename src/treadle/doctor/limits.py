"""The thresholds of the rules, for note, warning and critical. In seconds, unless stated otherwise."""

from typing import NamedTuple


class Limits(NamedTuple):
    idle_snapshot: tuple[float, float, float] = (60, 300, 3600)
    """How long a transaction may be open while idle."""
    busy_snapshot: tuple[float, float, float] = (600, 1800, 6 * 3600)
    """The same for one that executes a statement: a report, a dump."""
    held_transactions: tuple[float, float, float] = (100_000, 1_000_000, 50_000_000)
    """How many transactions may begin while something blocks vacuum, regardless of the time."""
    prepared: tuple[float, float, float] = (60, 300, 3600)
    slot_bytes: tuple[float, float, float] = (1 << 30, 10 << 30, 100 << 30)
    """The write-ahead log retained by a slot without a consumer."""

    dead_rows: int = 100_000
    """Fewer are not reported, whatever their share."""
    vacuum_lag: float = 600
    """How long a table may be over its autovacuum threshold."""
    vacuum_busy: float = 60
    """How long every autovacuum process may work on the same table."""
    index_bytes: int = 64 << 20
    """A smaller index is not reported."""
    index_factor: float = 4
    """How many times its estimated size an index may have."""

    table_bytes: int = 256 << 20
    table_factor: float = 4
    """The same for tables."""

    connections: tuple[float, float, float] = (0.75, 0.85, 0.95)
    """As a share of the limit."""
    clock: tuple[float, float] = (2, 30)
    clock_jump: float = 86_400
    """How long a jump of the server's clock is reported."""
    notifications: tuple[float, float, float] = (0.05, 0.25, 0.75)
    """The part of the notification queue that is in use."""
    short_timeout: float = 10
    """A statement_timeout or lock_timeout below this interrupts claims and maintenance."""
    short_idle: float = 60

    stuck: tuple[float, float, float] = (0, 10, 60)
    """How long the event loop of a worker may not run, or a child process may be stopped. Reported after 2 or 3 s."""
    blocked: float = 2
    """How long a session may lock a table of the queue."""
    blocked_rows: float = 10
    """How long another session may wait for the row of a job."""
    recent_failures: float = 900
    """The time whose failures are compared with the time before it."""
    past_failures: float = 86_400

    silence: float = 30
    """How long after its lease a worker may be left unrecovered."""
    client_silence: float = 3600
    """How long a client without a lease may keep a claim without a heartbeat."""
    unserved: tuple[float, float] = (60, 300)
    paused: tuple[float, float] = (3600, 86_400)
    stalled: tuple[float, float] = (60, 300)
    """How long a worker with free slots may claim nothing while jobs are due."""
    unclaimed: tuple[float, float] = (600, 3600)
    """How long jobs that a live worker serves may be due while none of their type starts."""
    hidden: float = 60
    """How long a job may be due where no claim looks. Ticks find it within seconds."""
    tick: float = 60
    uncounted: tuple[float, float] = (60, 300)
    """How long ago the first job that is not counted may have finished. Workers count every 5 s."""
    crashes: int = 2
    """How many times a job has crashed its worker."""
    failing_key: tuple[float, float] = (600, 3600)
    lowered_limit: tuple[float, float] = (86_400, 7 * 86_400)
    """How long a limit may be lower than in code while jobs wait for it."""
    slow_limit: tuple[float, float] = (86_400, 3 * 86_400)
    """How long jobs may wait for a limit, or would take at its rate."""
    unopened: tuple[float, float] = (60, 300)
    """How long lanes may wait for a limit that has room. Ticks open them within seconds."""
    undecided: tuple[float, float] = (60, 300)
    """How long it may be undecided whether a job has to wait for others. Ticks decide it within seconds."""
    forgotten_batch: tuple[float, float] = (86_400, 7 * 86_400)
    """How long a batch may be open after all of its jobs have ended."""
    late_schedule: tuple[float, float] = (15, 60)
    """How long a schedule may be due without being enqueued. Workers take less than 0.1 s."""
