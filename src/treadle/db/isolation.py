"""The isolation level of our own connections: the queue's functions rely on seeing what others have just committed."""

from typing import Any

from psycopg import Connection
from psycopg.conninfo import make_conninfo

from treadle.db.migrations import connect
from treadle.db.url import parts_of
from treadle.words.errors import DatabaseUnreachable

_DEFAULT = "select pg_catalog.current_setting('default_transaction_isolation'), pg_catalog.quote_ident(current_user)"


def reading_committed(url: str, connection: Connection[Any]) -> str:
    """The URL, with an option if READ COMMITTED is not the default of the connection, which was opened with it."""
    default, role = connection.execute(_DEFAULT).fetchone() or ("", "")
    if default == "read committed":
        return url
    options = parts_of(url).get("options", "")
    changed = make_conninfo(url, options=f"{options} -c default_transaction_isolation=read\\ committed".strip())
    try:
        connect(changed).close()
    except DatabaseUnreachable as error:  # a pooler refuses the option
        raise DatabaseUnreachable(
            "Treadle needs the isolation level read committed, which is not the default here, and cannot select it; "
            f"run: alter role {role} set default_transaction_isolation = 'read committed'. ({error})"
        ) from None
    return changed
