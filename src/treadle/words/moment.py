"""Times as people write them: 2h (ago), 2026-11-12T14:00, or seconds since 1970."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

from treadle.words.duration import duration
from treadle.words.errors import InvalidArgument, shown

_SECONDS = re.compile(r"[0-9]{9,11}(\.[0-9]{1,6})?", re.ASCII)
# In an address, a plus sign that was not encoded is read as a space.
_LOST_SIGN = re.compile(r"(T.*) ([0-9]{2}:?[0-9]{2})", re.ASCII)


def moment(text: str, name: str, now: datetime, timezone: tzinfo | None = UTC) -> datetime:
    """A time without an offset is in `timezone`; None: the time zone of this machine."""
    text = text.strip()
    try:
        if _SECONDS.fullmatch(text):
            return datetime.fromtimestamp(float(text), UTC)
        if re.match(r"[0-9]{4}-", text):
            found = datetime.fromisoformat(_LOST_SIGN.sub(r"\1+\2", text))
            if found.tzinfo is None:
                found = found.astimezone() if timezone is None else found.replace(tzinfo=timezone)
            return found.astimezone(UTC)
        # Other scripts have digits of their own.
        return now - duration(text if text.isascii() else "", name)
    except (InvalidArgument, ValueError, OverflowError):
        raise InvalidArgument(
            f"{name} must be a time such as 2026-11-12T14:00, a duration such as 2h (until now), "
            f"or seconds since 1970, got {shown(text)}"
        ) from None


def made_at(id_number: int) -> datetime | None:
    """The time in an id of version 7; None for other ids."""
    if id_number >> 76 & 0xF != 7:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=id_number >> 80)
    except OverflowError:
        return None
