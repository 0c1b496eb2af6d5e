"""Where a job comes from that a schedule enqueued."""

import json
from datetime import UTC, datetime
from typing import NamedTuple


class Origin(NamedTuple):
    schedule: str
    scheduled_for: datetime
    before: datetime | None
    """The time for which the schedule enqueued the job before this one."""

    @classmethod
    def read(cls, text: str) -> "Origin":
        """From the column `origin`, which enqueue_schedule() writes."""
        found = json.loads(text)
        before = found["before"]
        return cls(found["schedule"], _moment(found["for"]), None if before is None else _moment(before))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
