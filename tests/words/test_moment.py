"""Times as people write them."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from treadle.words.errors import InvalidArgument
from treadle.words.moment import made_at, moment

NOW = datetime(2026, 11, 18, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("15m", NOW - timedelta(minutes=15)),
        ("2026-11-12T14:00", datetime(2026, 11, 12, 14, tzinfo=UTC)),
        ("2026-11-12 14:00:30", datetime(2026, 11, 12, 14, 0, 30, tzinfo=UTC)),
        ("2026-11-12", datetime(2026, 11, 12, tzinfo=UTC)),
        ("2026-11-12T14:00Z", datetime(2026, 11, 12, 14, tzinfo=UTC)),
        ("2026-11-12T14:00+02:00", datetime(2026, 11, 12, 12, tzinfo=UTC)),
        ("2026-11-12T14:00 02:00", datetime(2026, 11, 12, 12, tzinfo=UTC)),
        ("1763042400", datetime.fromtimestamp(1763042400, UTC)),
        ("1763042400.5", datetime.fromtimestamp(1763042400.5, UTC)),
    ],
)
def test_times_are_read(text: str, expected: datetime) -> None:
    assert moment(text, "since", NOW) == expected


def test_a_time_without_an_offset_is_in_the_given_time_zone() -> None:
    assert moment("2026-11-12T14:00", "since", NOW, timezone(timedelta(hours=2))).hour == 12


@pytest.mark.parametrize(
    "text", ["", "x", "yesterday", "-2h", "2026-13-01", "2026-11-12T25:00", "9" * 40, "1e9", "2h; --", "٢h"]
)
def test_a_wrong_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="since must be a time such as 2026-11-12T14:00"):
        moment(text, "since", NOW)


def test_the_time_of_an_id() -> None:
    assert made_at(UUID("0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35").int) == datetime(
        2025, 10, 5, 0, 25, 36, 574000, tzinfo=UTC
    )
    assert made_at(UUID("0199b1c2-7a3e-4c51-9d4b-2f6a8e0c1d35").int) is None
    assert made_at(UUID("ffffffff-ffff-7fff-bfff-ffffffffffff").int) is None
