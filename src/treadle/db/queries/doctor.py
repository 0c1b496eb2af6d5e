"""The queries of the doctor: each reads as facts (words/health/facts.py), and is quick however many jobs there are."""

from treadle.db.query import Query, statement
from treadle.doctor.facts import (
    Age,
    Books,
    Cleaning,
    Crashing,
    DueLane,
    Function,
    Head,
    Holder,
    Index,
    Room,
    Server,
    Slot,
    Stray,
    Table,
    Tick,
    Trigger,
    Worker,
)

# The settings that a judgement needs.
SETTINGS = (
    "autovacuum",
    "autovacuum_vacuum_max_threshold",
    "autovacuum_freeze_max_age",
    "autovacuum_max_workers",
    "autovacuum_multixact_freeze_max_age",
    "autovacuum_vacuum_scale_factor",
    "autovacuum_vacuum_threshold",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
    "synchronous_commit",
    "track_counts",
    "transaction_timeout",
)


def server() -> Query[Server]:
    return Query(statement("get_server"), {"names": list(SETTINGS)}, lambda rows: Server._make(rows[0]))


def clock() -> Query[float]:
    """Seconds since 1970, by the server."""
    return Query(statement("get_clock"), {}, lambda rows: int(rows[0][0]) / 1_000_000)


def connections() -> Query[list[Room]]:
    return Query(statement("count_connections"), {}, lambda rows: [Room._make(row) for row in rows])


def ages() -> Query[list[Age]]:
    return Query(statement("get_transaction_ages"), {}, lambda rows: [Age._make(row) for row in rows])


def holders() -> Query[list[Holder]]:
    return Query(statement("find_vacuum_blockers"), {}, lambda rows: [Holder._make(row) for row in rows])


def slots() -> Query[list[Slot]]:
    return Query(statement("get_slots"), {}, lambda rows: [Slot._make(row) for row in rows])


def tables() -> Query[list[Table]]:
    return Query(statement("get_tables"), {}, lambda rows: [Table._make(row) for row in rows])


def indexes() -> Query[list[Index]]:
    return Query(statement("get_indexes"), {}, lambda rows: [Index._make(row) for row in rows])


def triggers() -> Query[list[Trigger]]:
    return Query(statement("get_triggers"), {}, lambda rows: [Trigger._make(row) for row in rows])


def functions() -> Query[list[Function]]:
    return Query(statement("get_functions"), {}, lambda rows: [Function._make(row) for row in rows])


def has_books() -> Query[bool]:
    """Whether the schema is there at all."""
    return Query(statement("has_migration_records"), {}, lambda rows: bool(rows[0][0]))


def books() -> Query[Books]:
    return Query(statement("get_migration_records"), {}, lambda rows: Books._make(rows[0]))


def cleaning() -> Query[list[Cleaning]]:
    return Query(statement("get_autovacuum"), {}, lambda rows: [Cleaning._make(row) for row in rows])


def workers() -> Query[list[Worker]]:
    return Query(statement("find_worker_health"), {}, lambda rows: [Worker._make(row) for row in rows])


def due_lanes() -> Query[list[DueLane]]:
    return Query(statement("find_due_lanes"), {}, lambda rows: [DueLane._make(row) for row in rows])


def tick(seconds: float) -> Query[Tick]:
    return Query(statement("get_tick"), {"seconds": seconds}, lambda rows: Tick._make(rows[0]))


def strays(seconds: float) -> Query[list[Stray]]:
    return Query(statement("find_stale_claims"), {"seconds": seconds}, lambda rows: [Stray._make(row) for row in rows])


def crashing(crashes: int) -> Query[list[Crashing]]:
    return Query(statement("find_crashing"), {"crashes": crashes}, lambda rows: [Crashing._make(row) for row in rows])


def failing_heads(seconds: float) -> Query[list[Head]]:
    return Query(statement("find_failing_heads"), {"seconds": seconds}, lambda rows: [Head._make(row) for row in rows])
