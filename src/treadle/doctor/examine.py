"""Examines the queue and its database: runs the queries and applies the rules.

It only reads. Each query times out after a few seconds, and one that fails does not affect the others.
"""

import time
from collections.abc import Callable, Generator
from importlib.metadata import version
from typing import Any, NamedTuple, TypeAlias

from treadle.db.database import Database
from treadle.db.examination import aexamination, areceives_notifications, examination, receives_notifications
from treadle.db.queries import refusals
from treadle.db.query import Query, QueryFailed
from treadle.db.script import adrive, drive
from treadle.doctor import queries
from treadle.doctor.expected_schema import expected_schema
from treadle.doctor.facts import ClockOffset, Server, TableBlocker
from treadle.doctor.finding import Context, Finding, Severity, by_severity, worst
from treadle.doctor.limits import Limits
from treadle.doctor.rules import (
    blocked,
    failures,
    horizon,
    lanes,
    schedules,
    schema,
    server,
    stalled,
    storage,
    unclaimed,
    work,
    workflows,
)
from treadle.doctor.rules import limits as limit_rules
from treadle.doctor.rules.unanswered import unanswered
from treadle.words.commands import as_called
from treadle.words.refusal import Refusal


class Check(NamedTuple):
    names: tuple[str, ...]
    """Of its findings: each comes exactly once."""
    needs: tuple[str, ...]
    """The names of the facts that the rule takes, in this order."""
    rule: Callable[..., list[Finding]]


SERVER = (
    Check(("version", "durability", "timeouts", "notification_queue"), ("server",), server.check_server),
    Check(("writable",), ("server", "refusal"), server.check_writable),
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
    Check(("blocked_tables",), ("table_blockers",), blocked.check_blockers),
)
VERSION = Check(("schema",), ("records", "expected"), schema.check_version)
BLOCKED = SERVER[-1]
UNOPENED = Check(("unopened_limits",), ("workers", "unopened_limits"), limit_rules.check_unopened)
STALLED = Check(("stalled_workers",), ("quiet_workers", "overdue_jobs"), stalled.check_stalled)
UNCLAIMED = Check(
    ("unclaimed_jobs",), ("workers", "quiet_workers", "overdue_jobs", "active_types"), unclaimed.check_unclaimed
)
TICKS = Check(("ticks",), ("tick",), work.check_tick)
# Only if the schema is the one that this version expects.
SCHEMA = (
    Check(("functions",), ("records", "expected", "functions"), schema.check_functions),
    Check(("indexes",), ("expected", "indexes"), schema.check_indexes),
    Check(("triggers",), ("expected", "triggers"), schema.check_triggers),
    Check(("table_settings",), ("expected", "tables"), schema.check_table_settings),
    Check(
        ("autovacuum_off", "dead_rows", "autovacuum_lag", "unlogged_tables", "table_bloat"),
        ("server", "tables"),
        storage.check_tables,
    ),
    Check(("autovacuum_busy",), ("server", "tables", "autovacuum_workers"), storage.check_autovacuum),
    Check(("index_bloat",), ("indexes",), storage.check_bloat),
    Check(
        ("silent_workers", "old_workers", "worker_clocks", "stuck_workers", "stopped_children", "no_workers"),
        ("workers",),
        work.check_workers,
    ),
    Check(("abandoned_claims",), ("abandoned_claims",), work.check_abandoned_claims),
    Check(("unserved_lanes",), ("workers", "lanes", "pauses"), lanes.check_lanes),
    Check(("shared_types",), ("workers",), lanes.check_shared_types),
    Check(("paused_lanes",), ("server", "lanes", "pauses"), lanes.check_pauses),
    STALLED,
    UNCLAIMED,
    Check(("hidden_jobs",), ("hidden_jobs",), unclaimed.check_hidden),
    Check(("untriggered_jobs",), ("untriggered_jobs",), unclaimed.check_untriggered),
    TICKS,
    Check(("uncounted_jobs",), ("uncounted",), work.check_uncounted),
    Check(("clock_jumps",), ("clock_jumps",), server.check_clock_jumps),
    Check(("failure_rates",), ("failure_rates", "muted_errors"), failures.check_failure_rates),
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


# A table is locked: a query that needs it fails at once, and the others run.
BLOCKED_SECONDS = 0.005


class NotificationTest:
    """Yielded instead of a query, to find out whether a notification arrives."""


class Impatient(NamedTuple):
    """A query that is not to wait for locks."""

    query: Query[Any]


Facts: TypeAlias = dict[str, Any]
Request: TypeAlias = Query[Any] | NotificationTest | Impatient
Examination: TypeAlias = Generator[Request, Any, list[Finding]]


def examine(database: Database, limits: Limits | None = None) -> list[Finding]:
    """All findings, the most severe first, also those that are ok."""
    with examination(database) as run:

        def carry_out(request: Request) -> Any:
            if isinstance(request, NotificationTest):
                return receives_notifications(database)
            return run(request.query, BLOCKED_SECONDS) if isinstance(request, Impatient) else run(request)

        return by_severity(drive(examination_steps(database.schema, limits or Limits()), carry_out))


async def aexamine(database: Database, limits: Limits | None = None) -> list[Finding]:
    async with aexamination(database) as run:

        async def carry_out(request: Request) -> Any:
            if isinstance(request, NotificationTest):
                return await areceives_notifications(database)
            return await (run(request.query, BLOCKED_SECONDS) if isinstance(request, Impatient) else run(request))

        return by_severity(await adrive(examination_steps(database.schema, limits or Limits()), carry_out))


async def afind_signs(database: Database) -> frozenset[object]:
    """What calls for an examination when it changes: the sessions that lock a table of the queue; if there are
    none, which workers are alive or stuck, and what the server refuses. It waits for no lock."""
    async with aexamination(database) as run:
        blockers = await run(queries.find_table_blockers())
        locked = [] if isinstance(blockers, QueryFailed) else [each.id for each in blockers if each.whole_table]
        if locked:
            return frozenset(locked)
        workers, refusal = await run(queries.find_workers()), await run(refusals.find())
    if isinstance(workers, QueryFailed) or isinstance(refusal, QueryFailed):
        return frozenset()
    return frozenset([refusal, *((each.worker_id, each.live, each.stuck is not None) for each in workers)])


def examination_steps(schema_name: str, limits: Limits) -> Examination:
    context = Context(schema_name, limits, version("treadle"))
    facts: Facts = {}
    # First, before anything waits for a lock.
    facts["table_blockers"] = yield from _table_blockers(context)
    is_blocked = worst(_apply(context, BLOCKED, facts)) is Severity.CRITICAL
    limited = Impatient if is_blocked else _as_it_is
    for name, query in queries.server_queries().items():
        facts[name] = yield query
    before = time.time()
    clock = yield queries.get_clock()
    facts["clock"] = clock if isinstance(clock, QueryFailed) else _offset(before, clock, time.time())
    facts["notifications"] = yield NotificationTest()
    exists = yield queries.has_migration_records()
    facts["records"] = (yield limited(queries.get_migration_records())) if exists is True else exists or None
    known = facts["server"]
    facts["expected"] = expected_schema(known.version if isinstance(known, Server) else 0, schema_name)
    of_version = _apply(context, VERSION, facts)
    checks: tuple[Check, ...] = SERVER
    if all(each.level is not Severity.CRITICAL for each in of_version) and not isinstance(
        facts["records"], QueryFailed
    ):
        checks += SCHEMA
        for name, query in queries.schema_queries(limits).items():
            facts[name] = yield limited(query)
        yield from _look_again(context, facts)
    if is_blocked:
        checks = tuple(check for check in checks if not _timed_out(check, facts))
    if isinstance(facts["refusal"], Refusal):  # what follows from it needs no remedy of its own
        checks = tuple(check for check in checks if check not in (STALLED, UNCLAIMED, TICKS))
    found = [*of_version, *(finding for check in checks for finding in _apply(context, check, facts))]
    return [each._replace(remedy=as_called(each.remedy)) for each in found]


def _as_it_is(query: Query[Any]) -> Query[Any]:
    return query


def _timed_out(check: Check, facts: Facts) -> bool:
    """It waited for a lock that another finding reports."""
    needed = [facts[name] for name in check.needs]
    return any(isinstance(each, QueryFailed) and each.timed_out for each in needed)


def _table_blockers(context: Context) -> Generator[Query[Any], Any, list[TableBlocker] | QueryFailed]:
    """Those of a lock that has just been taken are looked for again: a migration has it for a moment only."""
    found: list[TableBlocker] | QueryFailed = yield queries.find_table_blockers()
    if isinstance(found, QueryFailed) or all(blocked.lasts(context, each) for each in found if each.whole_table):
        return found
    yield queries.wait(context.limits.blocked / 2)
    again: list[TableBlocker] | QueryFailed = yield queries.find_table_blockers()
    if isinstance(again, QueryFailed):
        return again
    known = {each.id for each in found}
    return [each._replace(confirmed=each.id in known) for each in again]


def _look_again(context: Context, facts: Facts) -> Generator[Query[Any], Any, None]:
    """Confirms that workers are stalled, and limits not opened: a job that has just become claimable is claimed a
    moment later, and so is one whose limit has just got room."""
    suspected: dict[str, Query[Any]] = {}
    repeated = (
        (STALLED, queries.stalled_queries(context.limits)),
        (UNOPENED, queries.unopened_queries(context.limits)),
    )
    for check, needed in repeated:
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


def _offset(before: float, server_time: float, after: float) -> ClockOffset:
    return ClockOffset(server_time - (before + after) / 2, (after - before) / 2)


def _apply(context: Context, check: Check, facts: Facts) -> list[Finding]:
    """The findings of a check; if a query for its facts failed, findings that say so."""
    needed = [facts[name] for name in check.needs]
    for each in needed:
        if isinstance(each, QueryFailed):
            known = facts.get("server")
            user = known.user if isinstance(known, Server) else None
            return [unanswered(context, name, each, user) for name in check.names]
    return check.rule(context, *needed)
