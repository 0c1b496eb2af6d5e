"""The schema against what this version's migrations make of it."""

from collections.abc import Sequence

from treadle.doctor.facts import Blueprint, Books, Function, Index, Table, Trigger
from treadle.doctor.finding import Case, Finding, Level, ok
from treadle.doctor.telling import identifier, lines

MIGRATE = "treadle migrate"


def judge_version(case: Case, books: Books | None, blueprint: Blueprint) -> list[Finding]:
    return [_version(case, books, blueprint)]


def _version(case: Case, books: Books | None, blueprint: Blueprint) -> Finding:
    migrate = MIGRATE if case.schema == "treadle" else f"{MIGRATE} --schema {case.schema}"
    if books is None:
        return Finding("schema", Level.CRITICAL, f"There is no schema {case.schema} in this database.", remedy=migrate)
    if books.version > blueprint.version:
        return Finding(
            "schema",
            Level.CRITICAL,
            f"Schema {case.schema} is newer than this version of Treadle.",
            f"It is at {books.version}, and this version knows only {blueprint.version}.",
            "Upgrade the treadle package.",
        )
    if books.version < blueprint.version:
        return Finding(
            "schema",
            Level.CRITICAL,
            f"Schema {case.schema} is older than this version of Treadle.",
            f"It is at {books.version}, and this version needs {blueprint.version}.",
            migrate,
        )
    other = [name for name, digest in blueprint.functions.items() if books.functions.get(name) != digest]
    if other:
        return Finding(
            "schema",
            Level.WARNING,
            f"Functions of schema {case.schema} are not those of this version of Treadle.",
            lines(other),
            f"{migrate}\nIf the schema is the newer one, upgrade the treadle package instead.",
        )
    return ok("schema", f"Schema {case.schema} is at {books.version}, as this version needs it.")


def judge_functions(case: Case, books: Books, blueprint: Blueprint, functions: Sequence[Function]) -> list[Finding]:
    there: dict[str, set[str]] = {}
    for each in functions:
        there.setdefault(each.name, set()).add(each.digest)
    # One that is entered as another version's is the business of the check of the schema.
    ours = [name for name, digest in blueprint.functions.items() if books.functions.get(name) == digest]
    missing = [name for name in ours if name not in there]
    changed = [name for name in ours if name in there and not there[name] & blueprint.bodies[name]]
    if not missing and not changed:
        return [ok("functions", "All functions are as they were applied.")]
    names = ", ".join(f"'{name}'" for name in [*missing, *changed])
    return [
        Finding(
            "functions",
            Level.CRITICAL if missing else Level.WARNING,
            "Functions of the queue were dropped or changed by hand.",
            lines([f"{name} is missing" for name in missing] + [f"{name} was changed" for name in changed], 10),
            f"delete from {identifier(case.schema)}.functions where name in ({names});\nthen: {MIGRATE}",
        )
    ]


def judge_indexes(case: Case, blueprint: Blueprint, indexes: Sequence[Index]) -> list[Finding]:
    there = {each.name: each for each in indexes}
    missing = [name for name in blueprint.indexes if name not in there]
    broken = [name for name in blueprint.indexes if name in there and not there[name].usable]
    # What somebody else made, and left half done: each write pays for it, and no query is served.
    others = [each.name for each in indexes if each.name not in blueprint.indexes and not each.usable]
    if not missing and not broken and not others:
        return [ok("indexes", "All indexes are there and usable.")]
    detail = [f"{name} on {blueprint.indexes[name].table} is missing" for name in missing]
    detail += [f"{name} on {blueprint.indexes[name].table} is invalid" for name in broken]
    detail += [f"{name} is invalid, and not one of Treadle's" for name in others]
    remedy = [blueprint.indexes[name].statement for name in missing]
    remedy += [f"reindex index concurrently {identifier(case.schema)}.{name};" for name in broken]
    remedy += [f"drop index concurrently {identifier(case.schema)}.{identifier(name)};" for name in others]
    return [
        Finding(
            "indexes",
            Level.CRITICAL if missing or broken else Level.WARNING,
            "Indexes are missing or cannot be used: claims read the whole table, or a promise is not kept.",
            lines(detail, 10),
            lines(remedy, 10),
        )
    ]


def judge_triggers(case: Case, blueprint: Blueprint, triggers: Sequence[Trigger]) -> list[Finding]:
    there = {each.name: each for each in triggers}
    missing = [name for name in blueprint.triggers if name not in there]
    disabled = [name for name in blueprint.triggers if name in there and not there[name].enabled]
    if not missing and not disabled:
        return [ok("triggers", "All triggers are there and enabled.")]
    schema = identifier(case.schema)
    remedy = [f"alter table {schema}.{blueprint.triggers[name]} enable trigger {name};" for name in disabled]
    if missing:
        # A trigger comes with its function's file.
        remedy.append(f"truncate {schema}.functions;\nthen: {MIGRATE}")
    return [
        Finding(
            "triggers",
            Level.CRITICAL,
            "Triggers are missing or disabled: jobs are enqueued that nobody finds, or keys lose their order.",
            lines([f"{name} is missing" for name in missing] + [f"{name} is disabled" for name in disabled], 10),
            "\n".join(remedy),
        )
    ]


def judge_options(case: Case, blueprint: Blueprint, tables: Sequence[Table]) -> list[Finding]:
    there = {each.name: each.options for each in tables}
    missing = [table for table in blueprint.options if table not in there]
    if missing:
        return [
            Finding(
                "table_settings",
                Level.CRITICAL,
                "Tables of the queue are missing.",
                ", ".join(missing),
                "Take them from a backup, or make them anew as docs/schema.sql has them.",
            )
        ]
    lost: list[str] = []
    other: list[str] = []
    remedy: list[str] = []
    for table, wanted in blueprint.options.items():
        gone = {name: value for name, value in wanted.items() if name not in there[table]}
        lost += [f"{table}: {name} = {value} is gone" for name, value in gone.items()]
        other += [
            f"{table}: {name} is {there[table][name]}, and {value} by default"
            for name, value in wanted.items()
            if name in there[table] and float(there[table][name]) != float(value)
        ]
        if gone:
            options = ", ".join(f"{name} = {value}" for name, value in gone.items())
            remedy.append(f"alter table {identifier(case.schema)}.{table} set ({options});")
    if not lost and not other:
        return [ok("table_settings", "The tables have their settings for vacuum.")]
    return [
        Finding(
            "table_settings",
            Level.WARNING if lost else Level.NOTE,
            "Tables have lost their settings for vacuum."
            if lost
            else "Tables have settings for vacuum other than the default.",
            lines(lost + other, 10),
            "\n".join(remedy) or "If that was meant, nothing.",
        )
    ]
