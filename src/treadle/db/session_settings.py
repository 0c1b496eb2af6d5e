"""The settings that our own connections need, whatever the role or the database sets.

The queue's functions rely on seeing what others have just committed, the driver reads dates only in the ISO style, and
arrays must be able to contain nulls.
"""

from typing import Any

from psycopg import Connection
from psycopg.conninfo import make_conninfo

from treadle.db.setup_connection import connect
from treadle.db.url import parts_of
from treadle.words.errors import DatabaseUnreachable

NEEDED = {
    "default_transaction_isolation": "read committed",
    "DateStyle": "ISO",
    "array_nulls": "on",
}
_READ = "select {}, pg_catalog.quote_ident(current_user)".format(
    ", ".join(f"pg_catalog.current_setting('{name}')" for name in NEEDED)
)


def with_needed_settings(url: str, connection: Connection[Any]) -> str:
    """The URL, with an option for each setting that the connection, which was opened with it, does not have."""
    (row,) = connection.execute(_READ).fetchall()
    *found, role = row
    wrong = {
        name: needed
        for (name, needed), value in zip(NEEDED.items(), found, strict=True)
        # DateStyle is "ISO, MDY": the order matters only for what people type.
        if value.split(",")[0] != needed
    }
    if not wrong:
        return url
    options = parts_of(url).get("options", "")
    added = " ".join(f"-c {name}={_escaped(value)}" for name, value in wrong.items())
    changed = make_conninfo(url, options=f"{options} {added}".strip())
    try:
        connect(changed).close()
    except DatabaseUnreachable as error:  # a pooler refuses the option
        described = " and ".join(f"{name} = {value}" for name, value in wrong.items())
        commands = " ".join(f"alter role {role} set {name} = '{value}';" for name, value in wrong.items())
        raise DatabaseUnreachable(
            f"Treadle needs {described}, which is not the default here, and cannot select it; run: {commands} ({error})"
        ) from None
    return changed


def _escaped(value: str) -> str:
    return value.replace(" ", "\\ ")
