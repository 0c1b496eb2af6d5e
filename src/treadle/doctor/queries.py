"""The queries of the doctor, by the names of their facts. Each is fast however many jobs there are."""

from collections.abc import Mapping
from typing import Any, TypeVar

from treadle.db.queries import refusals
from treadle.db.queries.error_groups import count_muted
from treadle.db.queries.operations import find_pauses
from treadle.db.query import Query, Rows, statement
from treadle.doctor import facts
from treadle.doctor.facts import DueLane, FailureRate, MigrationRecords, Server, TableBlocker, Tick, Worker
from treadle.doctor.limits import Limits
from treadle.words.stuck import StoppedChild, Stuck

Fact = TypeVar("Fact")

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


def server_queries() -> Mapping[str, Query[Any]]:
    return {
        "server": Query(statement("get_server"), {"names": list(SETTINGS)}, lambda rows: Server._make(rows[0])),
        "refusal": refusals.find(),
        "connections": rows_of("count_connections", facts.ConnectionUse),
        "ages": rows_of("get_database_ages", facts.DatabaseAge),
        "vacuum_blockers": rows_of("find_vacuum_blockers", facts.VacuumBlocker),
        "slots": rows_of("find_replication_slots", facts.ReplicationSlot),
        # Only the catalog: the rows of the schema's own version may be hidden.
        "row_security": rows_of("find_row_security", facts.RowSecurity),
    }


def stalled_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    return {
        "quiet_workers": rows_of("find_quiet_workers", facts.QuietWorker, seconds=limits.stalled[0]),
        "overdue_jobs": rows_of("find_overdue_jobs", facts.OverdueJob, seconds=limits.stalled[0]),
    }


def unopened_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    return {"unopened_limits": rows_of("find_unopened_limits", facts.UnopenedLimit, seconds=limits.unopened[0])}


def schema_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    return {
        **stalled_queries(limits),
        **unopened_queries(limits),
        "functions": rows_of("find_functions", facts.Function),
        "indexes": rows_of("find_indexes", facts.Index),
        "triggers": rows_of("find_triggers", facts.Trigger),
        "tables": rows_of("find_tables", facts.Table),
        "autovacuum_workers": rows_of("find_autovacuum_workers", facts.AutovacuumWorker),
        "workers": find_workers(),
        "lanes": find_due_lanes(),
        "pauses": find_pauses(),
        # A tick is missed so many seconds after a claim.
        "tick": Query(statement("get_tick"), {"seconds": limits.tick}, lambda rows: Tick._make(rows[0])),
        # For how many seconds the first job that is not counted has been finished.
        "uncounted": Query(statement("get_uncounted"), {}, lambda rows: rows[0][0]),
        "clock_jumps": rows_of("find_clock_jumps", facts.ClockJump, seconds=limits.clock_jump),
        "abandoned_claims": rows_of("find_abandoned_claims", facts.AbandonedClaim, seconds=limits.client_silence),
        # Queues and job types of which attempts have ended lately, or that run now.
        "active_types": Query(
            statement("find_active_types"),
            {"seconds": limits.unclaimed[0]},
            lambda rows: {(row[0], row[1]) for row in rows},
        ),
        "hidden_jobs": rows_of("find_hidden_jobs", facts.HiddenJob, seconds=limits.hidden),
        "untriggered_jobs": rows_of("find_untriggered_jobs", facts.UntriggeredJob, seconds=limits.hidden),
        "failure_rates": find_failure_rates(limits),
        "muted_errors": count_muted(limits.recent_failures),
        "crashing_jobs": rows_of("find_crashing_jobs", facts.CrashingJob, crashes=limits.crashes),
        "failing_keys": rows_of("find_failing_keys", facts.FailingKey, seconds=limits.failing_key[0]),
        "unclaimable_jobs": rows_of("find_unclaimable_jobs", facts.UnclaimableJob),
        "late_schedules": rows_of("find_late_schedules", facts.LateSchedule),
        "scheduled_types": rows_of("find_scheduled_types", facts.ScheduledType),
        "waiting_limits": rows_of("find_waiting_limits", facts.WaitingLimit),
        "undecided_checks": rows_of("find_undecided_checks", facts.UndecidedCheck, seconds=limits.undecided[0]),
        "forgotten_batches": rows_of("find_forgotten_batches", facts.ForgottenBatch, seconds=limits.forgotten_batch[0]),
    }


def get_clock() -> Query[float]:
    """Seconds since 1970, by the server."""
    return Query(statement("get_clock"), {}, lambda rows: int(rows[0][0]) / 1_000_000)


def find_table_blockers() -> Query[list[TableBlocker]]:
    """It reads no table of the queue, so it does not wait for a lock."""
    return rows_of("find_table_blockers", TableBlocker)


def find_failure_rates(limits: Limits) -> Query[list[FailureRate]]:
    """Of the types of which an attempt has failed recently."""
    return rows_of("find_failure_rates", FailureRate, recent=limits.recent_failures, past=limits.past_failures)


def has_migration_records() -> Query[bool]:
    """Whether the schema exists at all."""
    return Query(statement("has_migration_records"), {}, lambda rows: bool(rows[0][0]))


def get_migration_records() -> Query[MigrationRecords]:
    return Query(statement("get_migration_records"), {}, lambda rows: MigrationRecords._make(rows[0]))


def find_workers() -> Query[list[Worker]]:
    def read(rows: Rows) -> list[Worker]:
        return [
            Worker._make([*row[:13], Stuck.read(row[13:18]), row[18], StoppedChild.read(row[19]), row[20]])
            for row in rows
        ]

    return Query(statement("find_workers"), {}, read)


def find_due_lanes() -> Query[list[DueLane]]:
    return rows_of("find_due_lanes", DueLane)


def use_indexes() -> Query[None]:
    return Query(statement("use_indexes"), {}, lambda _: None)


def wait(seconds: float) -> Query[None]:
    return Query(statement("wait"), {"seconds": seconds}, lambda _: None)


def rows_of(name: str, kind: type[Fact], **params: Any) -> Query[list[Fact]]:
    """The rows of a statement, each as a value of this kind."""
    make: Any = kind
    return Query(statement(name), params, lambda rows: [make(*row) for row in rows])
