"""What the server refuses to write is shown without a write: in the name of the session, which every role can read."""

from treadle.db.query import Query, statement
from treadle.words.refusal import Refusal


def show(refusal: Refusal, name: str) -> Query[None]:
    """Say in the name of this session that its write was refused now. `name` is its usual one."""
    params = {"refusal": refusal.value, "name": name}
    return Query(statement("show_refusal"), params, lambda _: None)


def take_back(name: str) -> Query[None]:
    """Give this session its usual name again."""
    text = "select pg_catalog.set_config('application_name', %(name)s, false)"
    return Query(text, {"name": name}, lambda _: None)


def find() -> Query[Refusal | None]:
    """Why the server refuses what workers write now. It reads no table of the queue."""
    return Query(statement("find_refusal"), {}, lambda rows: Refusal(rows[0][0]) if rows else None)
