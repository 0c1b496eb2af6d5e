"""A query of the examination failed: that is a finding, too."""

from treadle.db.query import QueryFailed
from treadle.doctor.finding import Context, Finding, Severity
from treadle.doctor.text import identifier
from treadle.words.formatting import printable


def unanswered(context: Context, name: str, failed: QueryFailed, user: str | None) -> Finding:
    if failed.permission_denied:
        return Finding(
            name,
            Severity.WARNING,
            "This role lacks a privilege for this check.",
            printable(failed.message),
            _grant(context.schema, "this role" if user is None else identifier(user)),
        )
    if failed.timed_out:
        return Finding(
            name,
            Severity.WARNING,
            "This check timed out: the server is overloaded, or a session locks the tables.",
            printable(failed.message),
            "Run treadle doctor again later. To see which session blocks which: "
            "select pid, pg_blocking_pids(pid), query from pg_stat_activity where wait_event_type = 'Lock';",
        )
    return Finding(
        name,
        Severity.WARNING,
        "This check failed.",
        printable(failed.message),
        "Run treadle migrate. If that does not help, report this as a bug.",
    )


def _grant(schema: str, user: str) -> str:
    name = identifier(schema)
    return (
        f"grant pg_monitor to {user};\n"
        f"grant usage on schema {name} to {user};\n"
        f"grant select on all tables in schema {name} to {user};\n"
        f"grant select on all sequences in schema {name} to {user};"
    )
