"""Parameters of the statements that write events and log lines: the lines of several jobs as flat arrays."""

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from treadle.db.query import Rows
from treadle.words.job import Claim
from treadle.words.record import OutgoingEvent, OutgoingLogLine

Line = TypeVar("Line", OutgoingEvent, OutgoingLogLine)


def flat(
    worker_id: str, records: Sequence[tuple[Claim, Sequence[Line]]], now: float
) -> tuple[dict[str, object], list[Line]]:
    """The parameters that both statements have, and all lines one after the other. `owners` has the number of the job
    of each line, from 1."""
    all_lines = [line for _, lines in records for line in lines]
    return {
        "worker_id": worker_id,
        "ids": [claim.id for claim, _ in records],
        "leases": [claim.lease for claim, _ in records],
        "owners": [index for index, (_, lines) in enumerate(records, 1) for _ in lines],
        "sequences": [line.sequence for line in all_lines],
        "ages": [max(0.0, now - line.at) for line in all_lines],
    }, all_lines


def ids(rows: Rows) -> set[UUID]:
    return {row[0] for row in rows}
