"""The clock of a test database: the real time, moved by as much as the test has travelled."""

from datetime import UTC, datetime, timedelta

from treadle.db.query import Query, Rows
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """Queries that read and move it, as values."""

    def read(self) -> Query[datetime]:
        text = "select (extract(epoch from treadle.test_clock()) operator(pg_catalog.*) 1000000)::bigint"
        return Query(text, {}, lambda rows: _EPOCH + timedelta(microseconds=rows[0][0]))

    def move(self, seconds: float) -> Query[None]:
        # Schedules that no worker has declared for a day begin anew. A test that travels means that the day went by as
        # usual: so their times in between are late, not forgotten.
        text = """\
with declared as (
    update treadle.schedules
    set declared_at = declared_at operator(pg_catalog.+) pg_catalog.make_interval(secs => %(seconds)s)
)
select pg_catalog.setval(
    'treadle.test_offset'::regclass,
    coalesce(pg_catalog.pg_sequence_last_value('treadle.test_offset'::regclass), 0)
        operator(pg_catalog.+) %(by)s::bigint
)"""
        return Query(text, {"by": round(seconds * 1_000_000), "seconds": seconds}, _nothing)

    def reset(self) -> list[Query[None]]:
        """Show the real time. (In a transaction that is rolled back, too: sequences are not part of it.)"""
        names = ("test_offset", "tick_clock", "wake_clock")
        return [Query(f"select pg_catalog.setval('treadle.{name}'::regclass, 0)", {}, _nothing) for name in names]

    def exists(self) -> Query[bool]:
        text = "select pg_catalog.to_regclass('treadle.test_offset') is not null"
        return Query(text, {}, lambda rows: bool(rows[0][0]))


def ahead(by: Duration) -> float:
    """The seconds to travel."""
    return duration(by, "travel").total_seconds()


def between(now: datetime, to: datetime) -> float:
    """The seconds from one time to another."""
    if not isinstance(to, datetime) or to.tzinfo is None:
        raise InvalidArgument(
            f"travel_to needs a datetime with a time zone, got {to!r}; for example datetime(…, tzinfo=UTC)"
        )
    return (to - now) / timedelta(seconds=1)


def _nothing(_: Rows) -> None:
    return None
