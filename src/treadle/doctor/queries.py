"""The queries of the doctor. Each returns facts, and is fast however many jobs there are."""

from treadle.db.query import Query, Rows, statement
from treadle.doctor.facts import (
    AbandonedClaim,
    AutovacuumWorker,
    ClockJump,
    ConnectionUse,
    CrashingJob,
    DatabaseAge,
    DueLane,
    FailingKey,
    ForgottenBatch,
    Function,
    Index,
    LateSchedule,
    MigrationRecords,
    OverdueJob,
    QuietWorker,
    ReplicationSlot,
    RowSecurity,
    ScheduledType,
    Server,
    Table,
    Tick,
    Trigger,
    UnclaimableJob,
    UndecidedCheck,
    UnopenedLimit,
    VacuumBlocker,
    WaitingLimit,
    Worker,
)
from treadle.doctor.lock_facts import TableBlocker
from treadle.doctor.work_facts import FailureRate, HiddenJob, UntriggeredJob
from treadle.words.stuck import StoppedChild, Stuck

# The settings that the rules need.
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


def get_server() -> Query[Server]:
    return Query(statement("get_server"), {"names": list(SETTINGS)}, lambda rows: Server._make(rows[0]))


def get_clock() -> Query[float]:
    """Seconds since 1970, by the server."""
    return Query(statement("get_clock"), {}, lambda rows: int(rows[0][0]) / 1_000_000)


def count_connections() -> Query[list[ConnectionUse]]:
    return Query(statement("count_connections"), {}, lambda rows: [ConnectionUse._make(row) for row in rows])


def get_database_ages() -> Query[list[DatabaseAge]]:
    return Query(statement("get_database_ages"), {}, lambda rows: [DatabaseAge._make(row) for row in rows])


def find_vacuum_blockers() -> Query[list[VacuumBlocker]]:
    return Query(statement("find_vacuum_blockers"), {}, lambda rows: [VacuumBlocker._make(row) for row in rows])


def find_table_blockers() -> Query[list[TableBlocker]]:
    """It reads no table of the queue, so it does not wait for a lock."""
    return Query(statement("find_table_blockers"), {}, lambda rows: [TableBlocker(*row) for row in rows])


def find_failure_rates(recent: float, past: float) -> Query[list[FailureRate]]:
    """Of the types of which an attempt has failed in the last `recent` seconds."""
    params = {"recent": recent, "past": past}
    return Query(statement("find_failure_rates"), params, lambda rows: [FailureRate._make(row) for row in rows])


def find_replication_slots() -> Query[list[ReplicationSlot]]:
    return Query(statement("find_replication_slots"), {}, lambda rows: [ReplicationSlot._make(row) for row in rows])


def find_tables() -> Query[list[Table]]:
    return Query(statement("find_tables"), {}, lambda rows: [Table._make(row) for row in rows])


def find_indexes() -> Query[list[Index]]:
    return Query(statement("find_indexes"), {}, lambda rows: [Index._make(row) for row in rows])


def find_triggers() -> Query[list[Trigger]]:
    return Query(statement("find_triggers"), {}, lambda rows: [Trigger._make(row) for row in rows])


def find_functions() -> Query[list[Function]]:
    return Query(statement("find_functions"), {}, lambda rows: [Function._make(row) for row in rows])


def find_row_security() -> Query[list[RowSecurity]]:
    return Query(statement("find_row_security"), {}, lambda rows: [RowSecurity._make(row) for row in rows])


def has_migration_records() -> Query[bool]:
    """Whether the schema exists at all."""
    return Query(statement("has_migration_records"), {}, lambda rows: bool(rows[0][0]))


def get_migration_records() -> Query[MigrationRecords]:
    return Query(statement("get_migration_records"), {}, lambda rows: MigrationRecords._make(rows[0]))


def find_autovacuum_workers() -> Query[list[AutovacuumWorker]]:
    return Query(statement("find_autovacuum_workers"), {}, lambda rows: [AutovacuumWorker._make(row) for row in rows])


def find_workers() -> Query[list[Worker]]:
    def read(rows: Rows) -> list[Worker]:
        return [
            Worker._make([*row[:13], Stuck.read(row[13:18]), row[18], StoppedChild.read(row[19]), row[20]])
            for row in rows
        ]

    return Query(statement("find_workers"), {}, read)


def find_clock_jumps(seconds: float) -> Query[list[ClockJump]]:
    """Those that were noticed this many seconds ago or later, the newest first."""
    params = {"seconds": seconds}
    return Query(statement("find_clock_jumps"), params, lambda rows: [ClockJump._make(row) for row in rows])


def find_due_lanes() -> Query[list[DueLane]]:
    return Query(statement("find_due_lanes"), {}, lambda rows: [DueLane._make(row) for row in rows])


def find_overdue_jobs(seconds: float) -> Query[list[OverdueJob]]:
    params = {"seconds": seconds}
    return Query(statement("find_overdue_jobs"), params, lambda rows: [OverdueJob._make(row) for row in rows])


def find_quiet_workers(seconds: float) -> Query[list[QuietWorker]]:
    params = {"seconds": seconds}
    return Query(statement("find_quiet_workers"), params, lambda rows: [QuietWorker._make(row) for row in rows])


def find_hidden_jobs(seconds: float) -> Query[list[HiddenJob]]:
    params = {"seconds": seconds}
    return Query(statement("find_hidden_jobs"), params, lambda rows: [HiddenJob._make(row) for row in rows])


def find_untriggered_jobs(seconds: float) -> Query[list[UntriggeredJob]]:
    """`seconds`: how long a job may wait for another one that has ended."""
    params = {"seconds": seconds}
    return Query(statement("find_untriggered_jobs"), params, lambda rows: [UntriggeredJob._make(row) for row in rows])


def find_active_types(seconds: float) -> Query[set[tuple[str, str]]]:
    """Queues and job types of which attempts have ended in the last `seconds`, or that run now."""
    params = {"seconds": seconds}
    return Query(statement("find_active_types"), params, lambda rows: {(row[0], row[1]) for row in rows})


def use_indexes() -> Query[None]:
    return Query(statement("use_indexes"), {}, lambda _: None)


def wait(seconds: float) -> Query[None]:
    return Query(statement("wait"), {"seconds": seconds}, lambda _: None)


def get_tick(seconds: float) -> Query[Tick]:
    """`seconds`: how long after a claim a tick is missed."""
    return Query(statement("get_tick"), {"seconds": seconds}, lambda rows: Tick._make(rows[0]))


def get_uncounted() -> Query[float | None]:
    """For how many seconds the first job that is not counted has been finished."""
    return Query(statement("get_uncounted"), {}, lambda rows: rows[0][0])


def find_abandoned_claims(seconds: float) -> Query[list[AbandonedClaim]]:
    params = {"seconds": seconds}
    return Query(statement("find_abandoned_claims"), params, lambda rows: [AbandonedClaim._make(row) for row in rows])


def find_crashing_jobs(crashes: int) -> Query[list[CrashingJob]]:
    params = {"crashes": crashes}
    return Query(statement("find_crashing_jobs"), params, lambda rows: [CrashingJob._make(row) for row in rows])


def find_failing_keys(seconds: float) -> Query[list[FailingKey]]:
    params = {"seconds": seconds}
    return Query(statement("find_failing_keys"), params, lambda rows: [FailingKey._make(row) for row in rows])


def find_unclaimable_jobs() -> Query[list[UnclaimableJob]]:
    return Query(statement("find_unclaimable_jobs"), {}, lambda rows: [UnclaimableJob._make(row) for row in rows])


def find_undecided_checks(seconds: float) -> Query[list[UndecidedCheck]]:
    text = statement("find_undecided_checks")
    return Query(text, {"seconds": seconds}, lambda rows: [UndecidedCheck._make(row) for row in rows])


def find_forgotten_batches(seconds: float) -> Query[list[ForgottenBatch]]:
    text = statement("find_forgotten_batches")
    return Query(text, {"seconds": seconds}, lambda rows: [ForgottenBatch._make(row) for row in rows])


def find_late_schedules() -> Query[list[LateSchedule]]:
    return Query(statement("find_late_schedules"), {}, lambda rows: [LateSchedule._make(row) for row in rows])


def find_scheduled_types() -> Query[list[ScheduledType]]:
    return Query(statement("find_scheduled_types"), {}, lambda rows: [ScheduledType._make(row) for row in rows])


def find_waiting_limits() -> Query[list[WaitingLimit]]:
    return Query(statement("find_waiting_limits"), {}, lambda rows: [WaitingLimit._make(row) for row in rows])


def find_unopened_limits(seconds: float) -> Query[list[UnopenedLimit]]:
    params = {"seconds": seconds}
    return Query(statement("find_unopened_limits"), params, lambda rows: [UnopenedLimit._make(row) for row in rows])
