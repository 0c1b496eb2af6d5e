"""A look that failed is a finding, too."""

from treadle.doctor.facts import Refused
from treadle.doctor.finding import Case, Finding, Level
from treadle.doctor.telling import identifier


def refused(case: Case, name: str, why: Refused, user: str | None) -> Finding:
    if why.denied:
        return Finding(
            name,
            Level.WARNING,
            "A right is missing to look at this.",
            why.reason,
            _grant(case.schema, "this role" if user is None else identifier(user)),
        )
    if why.slow:
        return Finding(
            name,
            Level.WARNING,
            "This took too long to look at: the server is overloaded, or somebody locks the tables.",
            why.reason,
            "Look again later, and who waits for whom: "
            "select pid, pg_blocking_pids(pid), query from pg_stat_activity where wait_event_type = 'Lock';",
        )
    return Finding(
        name, Level.WARNING, "This could not be looked at.", why.reason, "If treadle migrate does not help, report it."
    )


def _grant(schema: str, user: str) -> str:
    name = identifier(schema)
    return (
        f"grant pg_monitor to {user};\n"
        f"grant usage on schema {name} to {user};\n"
        f"grant select on all tables in schema {name} to {user};\n"
        f"grant select on all sequences in schema {name} to {user};"
    )
