"""Examines the queue and the server under it: asks for facts, and lets words/health judge them.

Everything is read, nothing is written; each look gives up after a few seconds, and one that fails leaves the others
alone.
"""

import time
from collections.abc import Callable, Generator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, TypeAlias

from treadle.db.database import Database
from treadle.db.examination import ahears, alooking, hears, looking
from treadle.db.expected_schema import blueprint
from treadle.db.queries import doctor as health
from treadle.db.queries import operations as operate
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.doctor import Finding, Level, Limits, by_urgency
from treadle.doctor.facts import Clocks, Refused, Server
from treadle.doctor.finding import Case
from treadle.doctor.holders import judge_holders, judge_slots
from treadle.doctor.lanes import judge_lanes, judge_pauses
from treadle.doctor.refusals import refused
from treadle.doctor.schema import (
    judge_functions,
    judge_indexes,
    judge_options,
    judge_triggers,
    judge_version,
)
from treadle.doctor.server import judge_ages, judge_clocks, judge_connections, judge_hearing, judge_server
from treadle.doctor.storage import judge_autovacuum, judge_bloat, judge_tables
from treadle.doctor.work import (
    judge_crashes,
    judge_keys,
    judge_strays,
    judge_ticks,
    judge_workers,
)


class Check(NamedTuple):
    names: tuple[str, ...]
    """Of its findings: each comes exactly once."""
    needs: tuple[str, ...]
    """Of the facts, in the order in which it takes them."""
    judge: Callable[..., list[Finding]]


SERVER = (
    Check(("version", "writable", "durability", "timeouts", "notification_queue"), ("server",), judge_server),
    Check(("connections",), ("connections",), judge_connections),
    Check(("transaction_age", "multixact_age"), ("server", "ages"), judge_ages),
    Check(("clock",), ("clocks",), judge_clocks),
    Check(("listen",), ("hears",), judge_hearing),
    Check(
        ("held_snapshot", "prepared_transaction", "replication_slot", "standby_feedback", "open_elsewhere"),
        ("server", "holders"),
        judge_holders,
    ),
    Check(("slot_log",), ("slots",), judge_slots),
)
VERSION = Check(("schema",), ("books", "blueprint"), judge_version)
# Only where the schema is the one that this version knows.
SCHEMA = (
    Check(("functions",), ("books", "blueprint", "functions"), judge_functions),
    Check(("indexes",), ("blueprint", "indexes"), judge_indexes),
    Check(("triggers",), ("blueprint", "triggers"), judge_triggers),
    Check(("table_settings",), ("blueprint", "tables"), judge_options),
    Check(("autovacuum_off", "dead_rows", "autovacuum_lag", "unlogged_tables"), ("server", "tables"), judge_tables),
    Check(("autovacuum_busy",), ("server", "tables", "cleaning"), judge_autovacuum),
    Check(("index_bloat",), ("indexes",), judge_bloat),
    Check(("silent_workers", "old_workers", "worker_clocks"), ("workers",), judge_workers),
    Check(("held_by_hand",), ("strays",), judge_strays),
    Check(("unserved_lanes",), ("workers", "lanes", "pauses"), judge_lanes),
    Check(("paused_lanes",), ("server", "lanes", "pauses"), judge_pauses),
    Check(("ticks",), ("tick",), judge_ticks),
    Check(("crashing_jobs",), ("crashing",), judge_crashes),
    Check(("failing_keys",), ("heads",), judge_keys),
)
NAMES = [name for check in (VERSION, *SERVER, *SCHEMA) for name in check.names]


class Hearing:
    """Asked for instead of a query: whether a notification arrives."""


Facts: TypeAlias = dict[str, Any]
Examination: TypeAlias = Generator[Query[Any] | Hearing, Any, list[Finding]]


def examine(database: Database, limits: Limits | None = None) -> list[Finding]:
    """What is well and what is not, the worst first; how to tell is in `limits`."""
    with looking(database) as look:

        def run(asked: Query[Any] | Hearing) -> Any:
            return hears(database) if isinstance(asked, Hearing) else look(asked)

        return by_urgency(drive(_examination(database.schema, limits or Limits()), run))


async def aexamine(database: Database, limits: Limits | None = None) -> list[Finding]:
    async with alooking(database) as look:

        async def run(asked: Query[Any] | Hearing) -> Any:
            return await (ahears(database) if isinstance(asked, Hearing) else look(asked))

        return by_urgency(await adrive(_examination(database.schema, limits or Limits()), run))


def _examination(schema: str, limits: Limits) -> Examination:
    case = Case(schema, limits, version("treadle"))
    facts: Facts = {}
    for name, query in _server_queries().items():
        facts[name] = yield query
    before = time.time()
    clock = yield health.clock()
    facts["clocks"] = clock if isinstance(clock, Refused) else _clocks(before, clock, time.time())
    facts["hears"] = yield Hearing()
    there = yield health.has_books()
    facts["books"] = (yield health.books()) if there is True else there or None
    server = facts["server"]
    facts["blueprint"] = blueprint(server.version if isinstance(server, Server) else 0, schema)
    fits = _judged(case, VERSION, facts)
    checks: tuple[Check, ...] = SERVER
    if all(each.level is not Level.CRITICAL for each in fits) and not isinstance(facts["books"], Refused):
        checks += SCHEMA
        for name, query in _schema_queries(limits).items():
            facts[name] = yield query
    return [*fits, *(finding for check in checks for finding in _judged(case, check, facts))]


def _server_queries() -> Mapping[str, Query[Any]]:
    return {
        "server": health.server(),
        "connections": health.connections(),
        "ages": health.ages(),
        "holders": health.holders(),
        "slots": health.slots(),
    }


def _schema_queries(limits: Limits) -> Mapping[str, Query[Any]]:
    return {
        "functions": health.functions(),
        "indexes": health.indexes(),
        "triggers": health.triggers(),
        "tables": health.tables(),
        "cleaning": health.cleaning(),
        "workers": health.workers(),
        "lanes": health.due_lanes(),
        "pauses": operate.pauses(),
        "tick": health.tick(limits.tick),
        "strays": health.strays(limits.hand_silence),
        "crashing": health.crashing(limits.crashes),
        "heads": health.failing_heads(limits.failing_head[0]),
    }


def _clocks(before: float, server: float, after: float) -> Clocks:
    return Clocks(server - (before + after) / 2, (after - before) / 2)


def _judged(case: Case, check: Check, facts: Facts) -> list[Finding]:
    given = [facts[name] for name in check.needs]
    for each in given:
        if isinstance(each, Refused):
            server = facts["server"]
            user = server.user if isinstance(server, Server) else None
            return [refused(case, name, each, user) for name in check.names]
    return check.judge(case, *given)
