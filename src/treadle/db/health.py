"""The queries of the doctor: each reads as facts (words/health/facts.py), and is quick however many jobs there are."""

from treadle.db.query import Query, statement
from treadle.words.health.facts import (
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


def server(schema: str) -> Query[Server]:
    return Query(statement("get_server", schema), {"names": list(SETTINGS)}, lambda rows: Server._make(rows[0]))


def clock(schema: str) -> Query[float]:
    """Seconds since 1970, by the server."""
    return Query(statement("get_clock", schema), {}, lambda rows: int(rows[0][0]) / 1_000_000)


def connections(schema: str) -> Query[list[Room]]:
    return Query(statement("count_connections", schema), {}, lambda rows: [Room._make(row) for row in rows])


def ages(schema: str) -> Query[list[Age]]:
    return Query(statement("get_transaction_ages", schema), {}, lambda rows: [Age._make(row) for row in rows])


def holders(schema: str) -> Query[list[Holder]]:
    return Query(statement("find_vacuum_blockers", schema), {}, lambda rows: [Holder._make(row) for row in rows])


def slots(schema: str) -> Query[list[Slot]]:
    return Query(statement("get_slots", schema), {}, lambda rows: [Slot._make(row) for row in rows])


def tables(schema: str) -> Query[list[Table]]:
    return Query(statement("get_tables", schema), {"schema": schema}, lambda rows: [Table._make(row) for row in rows])


def indexes(schema: str) -> Query[list[Index]]:
    return Query(statement("get_indexes", schema), {"schema": schema}, lambda rows: [Index._make(row) for row in rows])


def triggers(schema: str) -> Query[list[Trigger]]:
    return Query(
        statement("get_triggers", schema), {"schema": schema}, lambda rows: [Trigger._make(row) for row in rows]
    )


def functions(schema: str) -> Query[list[Function]]:
    return Query(
        statement("get_functions", schema), {"schema": schema}, lambda rows: [Function._make(row) for row in rows]
    )


def has_books(schema: str) -> Query[bool]:
    """Whether the schema is there at all."""
    return Query(statement("has_migration_records", schema), {"schema": schema}, lambda rows: bool(rows[0][0]))


def books(schema: str) -> Query[Books]:
    return Query(statement("get_migration_records", schema), {}, lambda rows: Books._make(rows[0]))


def cleaning(schema: str) -> Query[list[Cleaning]]:
    return Query(statement("get_autovacuum", schema), {}, lambda rows: [Cleaning._make(row) for row in rows])


def workers(schema: str) -> Query[list[Worker]]:
    return Query(statement("find_worker_health", schema), {}, lambda rows: [Worker._make(row) for row in rows])


def due_lanes(schema: str) -> Query[list[DueLane]]:
    return Query(statement("find_due_lanes", schema), {}, lambda rows: [DueLane._make(row) for row in rows])


def tick(schema: str, seconds: float) -> Query[Tick]:
    return Query(statement("get_tick", schema), {"seconds": seconds}, lambda rows: Tick._make(rows[0]))


def strays(schema: str, seconds: float) -> Query[list[Stray]]:
    return Query(
        statement("find_stale_claims", schema), {"seconds": seconds}, lambda rows: [Stray._make(row) for row in rows]
    )


def crashing(schema: str, crashes: int) -> Query[list[Crashing]]:
    return Query(
        statement("find_crashing", schema), {"crashes": crashes}, lambda rows: [Crashing._make(row) for row in rows]
    )


def failing_heads(schema: str, seconds: float) -> Query[list[Head]]:
    return Query(
        statement("find_failing_heads", schema), {"seconds": seconds}, lambda rows: [Head._make(row) for row in rows]
    )
