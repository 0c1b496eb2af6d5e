"""Compares the schema in the database with the one that this version creates."""

from collections.abc import Sequence

from treadle.doctor.facts import (
    ExpectedFunction,
    ExpectedSchema,
    Function,
    Index,
    MigrationRecords,
    RowSecurity,
    Table,
    Trigger,
)
from treadle.doctor.finding import Context, Finding, Severity, ok
from treadle.doctor.text import identifier, lines

MIGRATE = "treadle migrate"


def check_version(context: Context, records: MigrationRecords | None, expected: ExpectedSchema) -> list[Finding]:
    return [_version(context, records, expected)]


def _version(context: Context, records: MigrationRecords | None, expected: ExpectedSchema) -> Finding:
    schema = context.schema
    migrate = MIGRATE if schema == "treadle" else f"{MIGRATE} --schema {schema}"
    if records is None:
        return Finding("schema", Severity.CRITICAL, f"There is no schema {schema} in this database.", remedy=migrate)
    if records.version > expected.version >= records.incompatible:
        return Finding(
            "schema",
            Severity.NOTE,
            f"Schema {schema} is newer than this version of Treadle, and compatible with it.",
            f"It is at {records.version}, and this version knows {expected.version}.",
            "Upgrade the treadle package when all processes can be.",
        )
    if records.version > expected.version:
        return Finding(
            "schema",
            Severity.CRITICAL,
            f"Schema {schema} is newer than this version of Treadle.",
            f"It is at {records.version}, but this version supports only {expected.version}.",
            "Upgrade the treadle package.",
        )
    if records.version < expected.version:
        return Finding(
            "schema",
            Severity.CRITICAL,
            f"Schema {schema} is older than this version of Treadle.",
            f"It is at {records.version}, but this version needs {expected.version}.",
            migrate,
        )
    other = [name for name, digest in expected.functions.items() if records.functions.get(name) != digest]
    if other:
        return Finding(
            "schema",
            Severity.WARNING,
            f"Functions in schema {schema} belong to another version of Treadle.",
            lines(other),
            f"{migrate}\nIf the schema is the newer one, upgrade the treadle package instead.",
        )
    return ok("schema", f"Schema {schema} is at {records.version}, as this version requires.")


def check_functions(
    context: Context, records: MigrationRecords, expected: ExpectedSchema, functions: Sequence[Function]
) -> list[Finding]:
    present: dict[str, list[Function]] = {}
    for each in functions:
        present.setdefault(each.name, []).append(each)
    # check_version reports those that the migration records attribute to another version.
    ours = [name for name, digest in expected.functions.items() if records.functions.get(name) == digest]
    missing = [name for name in ours if name not in present]
    changes = {name: _change(expected.definitions[name], present[name]) for name in ours if name in present}
    changed = [name for name, change in changes.items() if change]
    if not missing and not changed:
        return [ok("functions", "All functions are as the migrations created them.")]
    names = ", ".join(f"'{name}'" for name in [*missing, *changed])
    return [
        Finding(
            "functions",
            Severity.CRITICAL if missing else Severity.WARNING,
            "Functions of the queue were dropped or changed manually.",
            lines([f"{name} is missing" for name in missing] + [f"{name} {changes[name]}" for name in changed], 10),
            f"delete from {identifier(context.schema)}.functions where name in ({names});\nthen: {MIGRATE}",
        )
    ]


def _change(expected: ExpectedFunction, functions: Sequence[Function]) -> str | None:
    """What was changed in a function. There may be others of the same name, with other arguments."""
    same = [each for each in functions if each.digest in expected.bodies]
    if not same:
        return "was changed"
    same = [each for each in same if each.security_definer == expected.security_definer]
    if not same:
        return "is no longer security definer" if expected.security_definer else "is now security definer"
    missing = min((sorted(expected.settings.difference(each.settings)) for each in same), key=len)
    return f"has lost the setting {', '.join(missing)}" if missing else None


def check_indexes(context: Context, expected: ExpectedSchema, indexes: Sequence[Index]) -> list[Finding]:
    present = {each.name: each for each in indexes}
    missing = [name for name in expected.indexes if name not in present]
    invalid = [name for name in expected.indexes if name in present and not present[name].usable]
    changed = [
        name for name, index in expected.indexes.items() if name in present and present[name].unique != index.unique
    ]
    # Not one of ours, and its creation failed: every write maintains it, and no query uses it.
    others = [each.name for each in indexes if each.name not in expected.indexes and not each.usable]
    if not missing and not invalid and not changed and not others:
        return [ok("indexes", "All indexes exist and are valid.")]
    detail = [f"{name} on {expected.indexes[name].table} is missing" for name in missing]
    detail += [f"{name} on {expected.indexes[name].table} is invalid" for name in invalid]
    detail += [
        f"{name} on {expected.indexes[name].table} is {'not ' if expected.indexes[name].unique else ''}unique"
        for name in changed
    ]
    detail += [f"{name} is invalid, and not one of Treadle's" for name in others]
    remedy = [line for name in missing for line in expected.indexes[name].statement.split("\n")]
    remedy += [f"reindex index concurrently {identifier(context.schema)}.{name};" for name in invalid]
    for name in changed:
        remedy += [f"drop index concurrently {identifier(context.schema)}.{name};", expected.indexes[name].statement]
    remedy += [f"drop index concurrently {identifier(context.schema)}.{identifier(name)};" for name in others]
    return [
        Finding(
            "indexes",
            Severity.CRITICAL if missing or invalid or changed else Severity.WARNING,
            "Indexes are missing, invalid or changed: claims scan the whole table, or uniqueness is not enforced."
            if missing or invalid or changed
            else "The queue's tables have invalid indexes: every write maintains them, and no query uses them.",
            lines(detail, 10),
            lines(remedy, 10),
        )
    ]


def check_triggers(context: Context, expected: ExpectedSchema, triggers: Sequence[Trigger]) -> list[Finding]:
    present = {each.name: each for each in triggers}
    missing = [name for name in expected.triggers if name not in present]
    disabled = [name for name in expected.triggers if name in present and not present[name].enabled]
    if not missing and not disabled:
        return [ok("triggers", "All triggers exist and are enabled.")]
    schema = identifier(context.schema)
    remedy = [f"alter table {schema}.{expected.triggers[name]} enable trigger {name};" for name in disabled]
    if missing:
        # A trigger is created by the file of its function.
        remedy.append(f"truncate {schema}.functions;\nthen: {MIGRATE}")
    return [
        Finding(
            "triggers",
            Severity.CRITICAL,
            "Triggers are missing or disabled: new jobs are not claimed, or jobs with a key run out of order.",
            lines([f"{name} is missing" for name in missing] + [f"{name} is disabled" for name in disabled], 10),
            "\n".join(remedy),
        )
    ]


def check_table_settings(context: Context, expected: ExpectedSchema, tables: Sequence[Table]) -> list[Finding]:
    present = {each.name: each.options for each in tables}
    missing = [table for table in expected.options if table not in present]
    if missing:
        return [
            Finding(
                "table_settings",
                Severity.CRITICAL,
                "Tables of the queue are missing.",
                ", ".join(missing),
                "Restore them from a backup, or create them as in docs/schema.sql.",
            )
        ]
    lost: list[str] = []
    other: list[str] = []
    remedy: list[str] = []
    for table, wanted in expected.options.items():
        unset = {name: value for name, value in wanted.items() if name not in present[table]}
        lost += [f"{table}: {name} = {value} is missing" for name, value in unset.items()]
        other += [
            f"{table}: {name} is {present[table][name]} instead of {value}"
            for name, value in wanted.items()
            if name in present[table] and float(present[table][name]) != float(value)
        ]
        if unset:
            options = ", ".join(f"{name} = {value}" for name, value in unset.items())
            remedy.append(f"alter table {identifier(context.schema)}.{table} set ({options});")
    if not lost and not other:
        return [ok("table_settings", "The tables have their autovacuum settings.")]
    return [
        Finding(
            "table_settings",
            Severity.WARNING if lost else Severity.NOTE,
            "Tables have lost their autovacuum settings."
            if lost
            else "Tables have autovacuum settings that differ from those that the migrations set.",
            lines(lost + other, 10),
            "\n".join(remedy) or "If this is intended, no action is required.",
        )
    ]


def check_row_security(context: Context, tables: Sequence[RowSecurity]) -> list[Finding]:
    if not tables:
        return [ok("row_security", "No table has row level security.")]
    if not any(each.users for each in tables):
        level, title = Severity.NOTE, "Tables have row level security. It applies to no user that has rights on them."
    elif all(each.policies for each in tables if each.users):
        level, title = Severity.WARNING, "Row level security may hide rows of the queue from users, such as workers."
    else:
        level, title = Severity.CRITICAL, "Row level security hides the queue from users: workers find no jobs."
    return [
        Finding(
            "row_security",
            level,
            title,
            lines([_row_security(each) for each in tables], 20),
            "\n".join(
                f"alter table {identifier(context.schema)}.{identifier(each.table)} disable row level security;"
                for each in tables
            ),
        )
    ]


def _row_security(table: RowSecurity) -> str:
    policies = {0: "no policy, so no row is visible", 1: "1 policy"}.get(table.policies, f"{table.policies} policies")
    more = len(table.users) - 5
    users = ", ".join(table.users[:5]) + (f" and {more} more" if more > 0 else "") or "no user"
    exempt = "" if table.forced else f"the owner {table.owner}, "
    return f"{table.table}: {policies}; applies to {users}, but not to {exempt}superusers and roles with bypassrls"
