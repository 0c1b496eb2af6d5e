"""The queue's tables and indexes: dead rows, bloat, and whether autovacuum keeps up."""

from collections.abc import Mapping, Sequence

from treadle.doctor.facts import Cleaning, Index, Server, Table
from treadle.doctor.finding import Case, Finding, Level, level_of, most, ok
from treadle.doctor.telling import amount, identifier, lines, several
from treadle.words.phrases import span

# How far over its threshold a table has to be.
FAR = 5
# Of a btree: an entry's head and its pointer, the share of a page that is filled, and what an empty one takes.
ENTRY, FILLED, EMPTY = 8 + 4, 0.9, 16 << 10


def judge_tables(case: Case, server: Server, tables: Sequence[Table]) -> list[Finding]:
    return [
        _switched_off(case, server, tables),
        _dead_rows(case, tables),
        _lag(case, server, tables),
        _unlogged(case, tables),
    ]


def _switched_off(case: Case, server: Server, tables: Sequence[Table]) -> Finding:
    off = [name for name in ("autovacuum", "track_counts") if server.settings.get(name) == "off"]
    without = [each.name for each in tables if each.options.get("autovacuum_enabled") in ("false", "off", "0", "no")]
    if not off and not without:
        return ok("autovacuum_off", "Autovacuum is on.")
    detail = [f"{name} is off on the server" for name in off]
    detail += [f"autovacuum is off for the table {name}" for name in without]
    remedy = [f"alter system set {name} = on;" for name in off]
    remedy += ["select pg_reload_conf();"] if off else []
    remedy += [f"alter table {_named(case, name)} reset (autovacuum_enabled);" for name in without]
    return Finding(
        "autovacuum_off",
        Level.CRITICAL if off or "jobs" in without else Level.WARNING,
        "Autovacuum is off: dead rows stay for ever, and the queue gets slower with every job.",
        "\n".join(detail),
        "\n".join(remedy),
    )


def _dead_rows(case: Case, tables: Sequence[Table]) -> Finding:
    few = case.limits.dead_rows
    levels = {
        each.name: level_of(each.dead, few, few * 10, few * 100) if each.dead > max(each.live, 0) else Level.OK
        for each in tables
    }
    bad = [each for each in tables if levels[each.name] is not Level.OK]
    if not bad:
        return ok("dead_rows", "The tables hold few dead rows.")
    return Finding(
        "dead_rows",
        most(*levels.values()),
        "More dead rows than live ones lie in the queue's tables.",
        lines([f"{each.name}: {each.dead:,} dead, {each.live:,} live, {amount(each.bytes)}" for each in bad]),
        "If somebody holds old rows back, end that first (see the other findings). Then: "
        + " ".join(f"vacuum {_named(case, each.name)};" for each in bad),
    )


def threshold(settings: Mapping[str, str], table: Table) -> float:
    """So many dead rows, and autovacuum comes."""

    def chosen(name: str, default: str) -> float:
        return float(table.options.get(name) or settings.get(name) or default)

    base = chosen("autovacuum_vacuum_threshold", "50")
    reached = base + chosen("autovacuum_vacuum_scale_factor", "0.2") * max(table.rows, 0)
    # PostgreSQL 18 has a ceiling.
    ceiling = chosen("autovacuum_vacuum_max_threshold", "-1")
    return min(reached, ceiling) if ceiling >= 0 else reached


def _lag(case: Case, server: Server, tables: Sequence[Table]) -> Finding:
    bad = []
    for each in tables:
        long = each.age if each.vacuumed is None else each.vacuumed
        far = threshold(server.settings, each) * FAR
        if each.dead >= max(far, case.limits.dead_rows) and (long or 0) >= case.limits.vacuum_lag:
            bad.append(each)
    if not bad:
        return ok("autovacuum_lag", "Autovacuum keeps up.")
    return Finding(
        "autovacuum_lag",
        most(*(level_of(each.dead, 1, case.limits.dead_rows * 10) for each in bad)),
        "Autovacuum does not keep up with the queue. (Right after a burst of jobs it needs a minute or two.)",
        lines(
            [
                f"{each.name}: {each.dead:,} dead rows, due at {threshold(server.settings, each):,.0f}, "
                + ("never vacuumed" if each.vacuumed is None else f"last vacuumed {span(each.vacuumed)} ago")
                for each in bad
            ]
        ),
        "Once: " + " ".join(f"vacuum {_named(case, each.name)};" for each in bad) + "\n"
        "For good: more autovacuum_max_workers, a shorter autovacuum_naptime, a higher autovacuum_vacuum_cost_limit.",
    )


def _unlogged(case: Case, tables: Sequence[Table]) -> Finding:
    bad = [each.name for each in tables if each.unlogged]
    if not bad:
        return ok("unlogged_tables", "All tables outlive a crash.")
    return Finding(
        "unlogged_tables",
        Level.CRITICAL if "jobs" in bad else Level.WARNING,
        "Tables of the queue are unlogged: a crash of the server empties them, and a standby does not have them.",
        ", ".join(bad),
        "\n".join(f"alter table {_named(case, name)} set logged;" for name in bad),
    )


def judge_autovacuum(
    case: Case, server: Server, tables: Sequence[Table], cleaning: Sequence[Cleaning]
) -> list[Finding]:
    allowed = int(server.settings.get("autovacuum_max_workers") or 3)
    # For a moment they are all busy now and then.
    long = [each for each in cleaning if (each.seconds or 0) >= case.limits.vacuum_busy]
    if len(long) < allowed:
        return [ok("autovacuum_busy", "Autovacuum has processes free.")]
    waiting = [each.name for each in tables if each.dead > FAR * threshold(server.settings, each)]
    return [
        Finding(
            "autovacuum_busy",
            Level.WARNING if waiting else Level.NOTE,
            f"Autovacuum has no process free: {len(long)} of {allowed} are busy for long.",
            lines([f"{each.table or 'a table elsewhere'}, for {span(each.seconds or 0)}" for each in long])
            + (f"\nwaiting: {', '.join(waiting)}" if waiting else ""),
            "alter system set autovacuum_max_workers = 6; -- and a higher autovacuum_vacuum_cost_limit: they share it",
        )
    ]


def expected_bytes(index: Index) -> float:
    """How large a btree of these entries would be if it were made anew, roughly."""
    entry = ENTRY + (index.width + 7) // 8 * 8
    return EMPTY + max(index.rows, 0) * entry / FILLED


def judge_bloat(case: Case, indexes: Sequence[Index]) -> list[Finding]:
    limits = case.limits
    bad = [
        each
        for each in indexes
        # Before the first vacuum or analyze nothing is known of its rows.
        if each.rows >= 0
        and each.bytes >= limits.index_bytes
        and each.bytes > limits.index_factor * expected_bytes(each)
    ]
    if not bad:
        return [ok("index_bloat", "No index is much larger than it has to be.")]
    bad.sort(key=lambda each: -each.bytes)
    return [
        Finding(
            "index_bloat",
            most(*(level_of(each.bytes, 1, limits.index_bytes * 8) for each in bad)),
            "Indexes seem to be much larger than they have to be. This is an estimate, from statistics.",
            lines(
                [
                    f"{each.name}: {amount(each.bytes)} for about {several(int(each.rows), 'row')}, "
                    f"made anew about {amount(expected_bytes(each))}"
                    for each in bad
                ]
            ),
            "\n".join(f"reindex index concurrently {_named(case, each.name)};" for each in bad),
        )
    ]


def _named(case: Case, name: str) -> str:
    return f"{identifier(case.schema)}.{identifier(name)}"
