"""The tables and indexes of the queue: dead rows, bloat, and whether autovacuum keeps up."""

from collections.abc import Mapping, Sequence

from treadle.doctor.facts import AutovacuumWorker, Index, Server, Table
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.text import identifier, lines, names, plural, size
from treadle.words.formatting import span

# A table is reported at this many times its autovacuum threshold.
THRESHOLDS = 5
# Of a btree: the header and pointer of an entry, the fill factor of a page, and the size of an empty index.
ENTRY, FILLED, EMPTY = 8 + 4, 0.9, 16 << 10
# Unlogged on purpose, and never read: dead rows in it slow nothing down.
UNREAD = ("wake_requests", "dependency_requests")


def check_tables(context: Context, server: Server, tables: Sequence[Table]) -> list[Finding]:
    tables = [each for each in tables if each.name not in UNREAD]
    return [
        _disabled(context, server, tables),
        _dead_rows(context, tables),
        _lag(context, server, tables),
        _unlogged(context, tables),
        _table_bloat(context, tables),
    ]


def _disabled(context: Context, server: Server, tables: Sequence[Table]) -> Finding:
    off = [name for name in ("autovacuum", "track_counts") if server.settings.get(name) == "off"]
    without = [each.name for each in tables if each.options.get("autovacuum_enabled") in ("false", "off", "0", "no")]
    if not off and not without:
        return ok("autovacuum_off", "Autovacuum is on.")
    detail = [f"{name} is off on the server" for name in off]
    detail += [f"autovacuum is off for the table {name}" for name in without]
    remedy = [f"alter system set {name} = on;" for name in off]
    remedy += ["select pg_reload_conf();"] if off else []
    remedy += [f"alter table {_qualified(context, name)} reset (autovacuum_enabled);" for name in without]
    return Finding(
        "autovacuum_off",
        Severity.CRITICAL if off or "jobs" in without else Severity.WARNING,
        "Autovacuum is off: dead rows are never removed, and the queue gets slower with every job.",
        lines(detail, len(detail)),
        "\n".join(remedy),
    )


def _dead_rows(context: Context, tables: Sequence[Table]) -> Finding:
    few = context.limits.dead_rows
    severities = {
        each.name: severity_of(each.dead, few, few * 10, few * 100) if each.dead > max(each.live, 0) else Severity.OK
        for each in tables
    }
    bad = [each for each in tables if severities[each.name] is not Severity.OK]
    if not bad:
        return ok("dead_rows", "The tables have few dead rows.")
    return Finding(
        "dead_rows",
        highest(*severities.values()),
        "Tables of the queue have more dead rows than live rows.",
        lines([f"{each.name}: {each.dead:,} dead, {each.live:,} live, {size(each.bytes)}" for each in bad]),
        "First remove what blocks vacuum, if another finding reports it. Then: "
        + " ".join(f"vacuum {_qualified(context, each.name)};" for each in bad),
    )


def threshold(settings: Mapping[str, str], table: Table) -> float:
    """The number of dead rows at which autovacuum starts."""

    def chosen(name: str, default: str) -> float:
        return float(table.options.get(name) or settings.get(name) or default)

    base = chosen("autovacuum_vacuum_threshold", "50")
    reached = base + chosen("autovacuum_vacuum_scale_factor", "0.2") * max(table.rows, 0)
    # PostgreSQL 18 has an upper limit.
    ceiling = chosen("autovacuum_vacuum_max_threshold", "-1")
    return min(reached, ceiling) if ceiling >= 0 else reached


def _lag(context: Context, server: Server, tables: Sequence[Table]) -> Finding:
    bad = []
    for each in tables:
        long = each.age if each.vacuumed is None else each.vacuumed
        far = threshold(server.settings, each) * THRESHOLDS
        if each.dead >= max(far, context.limits.dead_rows) and (long or 0) >= context.limits.vacuum_lag:
            bad.append(each)
    if not bad:
        return ok("autovacuum_lag", "Autovacuum keeps up.")
    return Finding(
        "autovacuum_lag",
        highest(*(severity_of(each.dead, 1, context.limits.dead_rows * 10) for each in bad)),
        "Autovacuum does not keep up with the queue. After a burst of jobs this is normal for a minute or two.",
        lines(
            [
                f"{each.name}: {each.dead:,} dead rows, threshold {threshold(server.settings, each):,.0f}, "
                + ("never vacuumed" if each.vacuumed is None else f"last vacuumed {span(each.vacuumed)} ago")
                for each in bad
            ]
        ),
        "Now: " + " ".join(f"vacuum {_qualified(context, each.name)};" for each in bad) + "\n"
        "To prevent it: raise autovacuum_max_workers and autovacuum_vacuum_cost_limit, lower autovacuum_naptime.",
    )


def _unlogged(context: Context, tables: Sequence[Table]) -> Finding:
    bad = [each.name for each in tables if each.unlogged]
    if not bad:
        return ok("unlogged_tables", "All tables survive a crash.")
    return Finding(
        "unlogged_tables",
        Severity.CRITICAL if "jobs" in bad else Severity.WARNING,
        "Tables of the queue are unlogged: a crash of the server empties them, and standbys do not have them.",
        names(bad),
        "\n".join(f"alter table {_qualified(context, name)} set logged;" for name in bad),
    )


def check_autovacuum(
    context: Context, server: Server, tables: Sequence[Table], workers: Sequence[AutovacuumWorker]
) -> list[Finding]:
    allowed = int(server.settings.get("autovacuum_max_workers") or 3)
    # All of them being busy for a moment is normal.
    long = [each for each in workers if (each.seconds or 0) >= context.limits.vacuum_busy]
    if len(long) < allowed:
        return [ok("autovacuum_busy", "Autovacuum has idle processes.")]
    waiting = [each.name for each in tables if each.dead > THRESHOLDS * threshold(server.settings, each)]
    return [
        Finding(
            "autovacuum_busy",
            Severity.WARNING if waiting else Severity.NOTE,
            f"Autovacuum has no idle process: {len(long)} of {allowed} have been busy for a long time.",
            lines([f"{each.table or 'a table in another database'}, for {span(each.seconds or 0)}" for each in long])
            + (f"\nwaiting for vacuum: {names(waiting)}" if waiting else ""),
            "alter system set autovacuum_max_workers = 6; -- and raise autovacuum_vacuum_cost_limit, which they share",
        )
    ]


def expected_bytes(index: Index) -> float:
    """The estimated size of a freshly built btree with these entries."""
    entry = ENTRY + (index.width + 7) // 8 * 8
    return EMPTY + max(index.rows, 0) * entry / FILLED


def check_bloat(context: Context, indexes: Sequence[Index]) -> list[Finding]:
    limits = context.limits
    bad = [
        each
        for each in indexes
        # Before the first vacuum or analyze the number of rows is unknown.
        if each.rows >= 0
        and each.bytes >= limits.index_bytes
        and each.bytes > limits.index_factor * expected_bytes(each)
    ]
    if not bad:
        return [ok("index_bloat", "No index is bloated.")]
    bad.sort(key=lambda each: -each.bytes)
    return [
        Finding(
            "index_bloat",
            highest(*(severity_of(each.bytes, 1, limits.index_bytes * 8) for each in bad)),
            "Indexes are bloated, as far as can be estimated from the statistics.",
            lines(
                [
                    f"{each.name}: {size(each.bytes)} for about {plural(int(each.rows), 'row')}, "
                    f"about {size(expected_bytes(each))} if rebuilt"
                    for each in bad
                ]
            ),
            "\n".join(f"reindex index concurrently {_qualified(context, each.name)};" for each in bad),
        )
    ]


def expected_heap(table: Table) -> float:
    """The estimated size of the rows, if the table were written anew."""
    filled = float(table.options.get("fillfactor") or 100) / 100
    return EMPTY + max(table.rows, 0) * (table.width or 0) / filled


def _table_bloat(context: Context, tables: Sequence[Table]) -> Finding:
    limits = context.limits
    bad = [
        each
        for each in tables
        if each.rows >= 0
        and each.width is not None
        and each.heap >= limits.table_bytes
        and each.heap > limits.table_factor * expected_heap(each)
    ]
    if not bad:
        return ok("table_bloat", "No table is bloated.")
    bad.sort(key=lambda each: -each.heap)
    return Finding(
        "table_bloat",
        highest(*(severity_of(each.heap, 1, limits.table_bytes * 8) for each in bad)),
        "Tables have much more space than their rows need, as far as can be estimated from the statistics.",
        lines(
            [
                f"{each.name}: {size(each.heap)} for about {plural(int(each.rows), 'row')}, "
                f"about {size(expected_heap(each))} if rewritten"
                for each in bad
            ]
        ),
        "New rows use the free space. To give it back without a long lock, with the extension pg_repack: "
        + ", ".join(f"pg_repack --table={context.schema}.{each.name}" for each in bad)
        + "\nWithout it, while the workers are stopped, because it locks the table:\n"
        + lines([f"vacuum full {_qualified(context, each.name)};" for each in bad]),
    )


def _qualified(context: Context, name: str) -> str:
    return f"{identifier(context.schema)}.{identifier(name)}"
