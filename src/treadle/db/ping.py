"""Whether a database answers, and has a schema of this version."""

from treadle.db.migrations import check_schema
from treadle.db.own_connection import NoAnswer
from treadle.db.setup_connection import connect, unreachable


def ping(url: str, schema: str, seconds: float) -> str:
    """What answered, in a sentence. Raises DatabaseUnreachable or SchemaError."""
    try:
        with connect(url, seconds) as connection:
            check_schema(connection, schema)
            version = connection.info.parameter_status("server_version") or ""
    except NoAnswer as error:
        raise unreachable(error, url) from None
    return f"PostgreSQL {version.split()[0]} answers, and schema {schema} fits this version of Treadle"
