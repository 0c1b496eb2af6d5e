"""Examines the queue and its database: runs the queries and applies the rules.

It only reads. Each query times out after a few seconds, and one that fails does not affect the others.
"""

import time
from collections.abc import Callable, Generator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, TypeAlias

from treadle.db.database import Database
from treadle.db.examination import aexamination, areceives_notifications, examination, receives_notifications
from treadle.db.queries.operations import find_pauses
from treadle.db.query import Query, QueryFailed
from treadle.db.script import adrive, drive
from treadle.doctor import queries
from treadle.doctor.expected_schema import expected_schema
from treadle.doctor.facts import ClockOffset, Server
from treadle.doctor.finding import Context, Finding, Severity, by_severity, worst
from treadle.doctor.limits import Limits
from treadle.doctor.rules import horizon, lanes, schedules, schema, server, stalled, storage, work, workflows
from treadle.doctor.rules import limits as limit_rules
from treadle.doctor.rules.unanswered import unanswered


class Check(NamedTuple):
    names: tuple[str, ...]
    """Of its findings: each comes exactly once."""
    needs: tuple[str, ...]
    """The names of the facts that the rule takes, in this order."""
    rule: Callable[..., list[Finding]]


SERVER = (
    Check(("version", "writable", "durability", "timeouts", "notification_queue"), ("server",), server.check_server),
    Check(("connections",), ("connections",), server.check_connections),
    Check(("transaction_age", "multixact_age"), ("server", "ages"), server.check_ages),
    Check(("clock",), ("clock",), server.check_clock),
    Check(("listen",), ("notifications",), server.check_notifications),
    Check(
        ("held_snapshot", "prepared_transaction", "replication_slot", "standby_feedback", "open_elsewhere"),
        ("server", "vacuum_blockers"),
        horizon.check_horizon,
    ),
    Check(("slot_log",), ("slots",), horizon.check_slots),
    Check(("row_security",), ("row_security",), schema.check_row_security),
)
VERSION = Check(("schema",), ("records", "expected"), schema.check_version)
UNOPENED = Check(("unopened_limits",), ("workers", "unopened_limits"), limit_rules.check_unopened)
STALLED = Check(("stalled_workers",), ("quiet_workers", "overdue_jobs"), stalled.check_stalled)
# Only if the schema is the one that this version expects.
SCHEMA = (
    Check(("functions",), ("records", "expected", "functions"), schema.check_functions),
    Check(("indexes",), ("expected", "indexes"), schema.check_indexes),
    Check(("triggers",), ("expected", "triggers"), schema.check_triggers),
    Check(("table_settings",), ("expected", "tables"), schema.check_table_settings),
    Check(
        ("autovacuum_off", "dead_rows", "autovacuum_lag", "unlogged_tables"),
        ("server", "tables"),
        storage.check_tables,
    ),
    Check(("autovacuum_busy",), ("server", "tables", "autovacuum_workers"), storage.check_autovacuum),
    Check(("index_bloat",), ("indexes",), storage.check_bloat),
    Check(("silent_workers", "old_workers", "worker_clocks", "stuck_workers"), ("workers",), work.check_workers),
    Check(("abandoned_claims",), ("abandoned_claims",), work.check_abandoned_claims),
    Check(("unserved_lanes",), ("workers", "lanes", "pauses"), lanes.check_lanes),
    Check(("paused_lanes",), ("server", "lanes", "pauses"), lanes.check_pauses),
    STALLED,
    Check(("ticks",), ("tick",), work.check_tick),
    Check(("clock_jumps",), ("clock_jumps",), server.check_clock_jumps),
    Check(("crashing_jobs",), ("crashing_jobs",), work.check_crashes),
    Check(("failing_keys",), ("failing_keys",), work.check_keys),
    Check(("unclaimable_jobs",), ("unclaimable_jobs",), work.check_unclaimable),
    Check(("late_schedules", "failing_schedules"), ("workers", "late_schedules"), schedules.check_schedules),
    Check(("unserved_schedules",), ("workers", "scheduled_types"), schedules.check_scheduled_types),
    Check(("paused_limits", "lowered_limits", "slow_limits"), ("waiting_limits",), limit_rules.check_limits),
    UNOPENED,
    Check(("undecided_jobs",), ("undecided_checks",), workflows.check_undecided),
    Check(("forgotten_batches",), ("forgotten_batches",), workflows.check_batches),
)
# A worker that polls does so every second by default.
LOOK_AGAIN_SECONDS = 1.5
NAMES = [name for check in (VERSION, *SERVER, *SCHEMA) for name in check.names]


class NotificationTest:
    """Yielded instead of a query, to find out whether a notification arrives."""


Facts: TypeAlias = dict[str, Any]
Examination: TypeAlias = Generator[Query[Any] | NotificationTest, Any, list[Finding]]


def examine(database: Database, limits: Limits | None = None) -> list[Finding]:
    """All findings, the most severe first, also those that are ok."""
    with examination(database) as run:

        def carry_out(request: Query[Any] | NotificationTest) -> Any:
            return receives_notifications(database) if isinstance(request, NotificationTest) else run(request)

        return by_severity(drive(_examination(database.schema, limits or Limits()), carry_out))


async def aexamine(database: Database, limits: Limits | None = None) -> list[Finding]:
    async with aexamination(database) as run:

        async def carry_out(request: Query[Any] | NotificationTest) -> Any:
            return await (areceives_notifications(database) if isinstance(request, NotificationTest) else run(request))

        return by_severity(await adrive(_examination(database.schema, limits or Limits()), carry_out))


def _examination(schema_name: str, limits: Limits) -> Examination:
    context = Context(schema_name, limits, version("treadle"))
    facts: Facts = {}
    for name, query in _server_queries().items():
        facts[name] = yield query
    before = time.time()
    clock = yield queries.get_clock()
    facts["clock"] = clock if isinstance(clock, QueryFailed) else _offset(before, clock, time.time())
    facts["notifications"] = yield NotificationTest()
    exists = yield queries.has_migration_records()
    facts["records"] = (yield queries.get_migration_records()) if exists is True else exists or None
    known = facts["server"]
    facts["expected"] = expected_schema(known.version if isinstance(known, Server) else 0, schema_name)
    of_version = _apply(context, VERSION, facts)
    checks: tuple[Check, ...] = SERVER
    if all(each.level is not Severity.CRITICAL for each in of_version) and not isinstance(
        facts["records"], QueryFailed
    ):
        checks += SCHEMA
        for name, query in _schema_queries(limits).items():
            facts[name] = yield query
        yield from _look_again(context, facts)
    return [*of_version, *(finding for check in checks for finding in _apply(context, check, facts))]


def _server_queries() -> Mapping[str, Query[Any]]:
    return {
        "server": queries.get_server(),
        "connections": queries.count_connections(),
        "ages": queries.get_database_ages(),
        "vacuum_blockers": queries.find_vacuum_blockers(),
        "slots": queries.find_replication_slots(),
        # Only the catalog: the rows of the schema's own version may be hidden.
        "row_security": queries.find_row_security(),
    }


def _look_again(context: Context, facts: Facts) -> Generator[Query[Any], Any, None]:
    """Confirms that workers are stalled, and limits not opened: a job that has just become claimable is claimed a
    moment later, and so is one whose limit has just got room."""
    suspected: dict[str, Query[Any]] = {}
    for check, needed in ((STALLED, _stalled_queries(context.limits)), (UNOPENED, _unopened_queries(context.limits))):
        failed = any(isinstance(facts[name], QueryFailed) for name in check.needs)
        if not failed and worst(_apply(context, check, facts)) is not Severity.OK:
            suspected.update(needed)
    if not suspected:
        return
    yield queries.wait(LOOK_AGAIN_SECONDS)
    for name, query in suspected.items():
        again = yield query
        if not isinstance(again, QueryFailed):
            known = {each.id for each in facts[name]}
            again = [each for each in again if each.id in known]
        facts[name] = again


def _stalled_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    seconds = limits.stalled[0]
    return {
        "quiet_workers": queries.find_quiet_workers(seconds),
        "overdue_jobs": queries.find_overdue_jobs(seconds),
    }


def _unopened_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    return {"unopened_limits": queries.find_unopened_limits(limits.unopened[0])}


def _schema_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    return {
        **_stalled_queries(limits),
        **_unopened_queries(limits),
        "functions": queries.find_functions(),
        "indexes": queries.find_indexes(),
        "triggers": queries.find_triggers(),
        "tables": queries.find_tables(),
        "autovacuum_workers": queries.find_autovacuum_workers(),
        "workers": queries.find_workers(),
        "lanes": queries.find_due_lanes(),
        "pauses": find_pauses(),
        "tick": queries.get_tick(limits.tick),
        "clock_jumps": queries.find_clock_jumps(limits.clock_jump),
        "abandoned_claims": queries.find_abandoned_claims(limits.client_silence),
        "crashing_jobs": queries.find_crashing_jobs(limits.crashes),
        "failing_keys": queries.find_failing_keys(limits.failing_key[0]),
        "unclaimable_jobs": queries.find_unclaimable_jobs(),
        "late_schedules": queries.find_late_schedules(),
        "scheduled_types": queries.find_scheduled_types(),
        "waiting_limits": queries.find_waiting_limits(),
        "undecided_checks": queries.find_undecided_checks(limits.undecided[0]),
        "forgotten_batches": queries.find_forgotten_batches(limits.forgotten_batch[0]),
    }


def _offset(before: float, server_time: float, after: float) -> ClockOffset:
    return ClockOffset(server_time - (before + after) / 2, (after - before) / 2)


def _apply(context: Context, check: Check, facts: Facts) -> list[Finding]:
    """The findings of a check; if a query for its facts failed, findings that say so."""
    needed = [facts[name] for name in check.needs]
    for each in needed:
        if isinstance(each, QueryFailed):
            known = facts["server"]
            user = known.user if isinstance(known, Server) else None
            return [unanswered(context, name, each, user) for name in check.names]
    return check.rule(context, *needed)
